"""`doctor`: checks the connection of a client step by step, and says what is wrong with it.

Tables in the terminal, the same as values for --json. Text from outside is shown as text only.
"""

import argparse
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from counterpoise.cli.common import (
    add_cluster_arguments,
    add_json_argument,
    print_json,
    stderr_console,
)
from counterpoise.cli.tables import table
from counterpoise.installation import Installation, open_address, open_installation
from counterpoise.model.connectivity import (
    ClusterMetadata,
    ConnectionStage,
    ConnectivityCheck,
    EndpointCheck,
    StageResult,
)
from counterpoise.model.grouping import grouped
from counterpoise.model.json_values import to_content
from counterpoise.model.kafka import BrokerDescription
from counterpoise.model.severity import Severity
from counterpoise.model.words import pluralize
from counterpoise.services import doctor
from counterpoise.services.doctor import Examination
from counterpoise.units import format_count

_FINDINGS, _UNREACHABLE = 1, 3  # exit codes
_BOOTSTRAP: Final = "bootstrap"  # a cluster that no file names
_MAX_ENDPOINTS_SHOWN: Final = 50  # with more of them only those with a problem
_MAX_ROWS: Final = 200  # of a table, and of findings; `--json` has all
_STAGES_WITH_DETAIL: Final = (ConnectionStage.SASL, ConnectionStage.METADATA)
_STYLES: Final = {Severity.CRITICAL: "red", Severity.WARNING: "yellow"}


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "doctor",
        help="connect from bootstrap to leaders as a client does, and say what is wrong; reads "
        "only",
        description="Connects to every bootstrap address and to every endpoint that the brokers "
        "advertise, as a client does: name, TCP, TLS, SASL, ApiVersions, Metadata. Reads only, and "
        "creates no topic.",
        epilog="exit codes: 0 healthy; 1 findings as bad as --fail-at; 2 usage; 3 no bootstrap "
        "address responded",
    )
    add_cluster_arguments(parser)
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="T",
        help="say what is wrong for this topic; may be repeated",
    )
    parser.add_argument(
        "--fail-at",
        choices=[str(severity) for severity in Severity if severity is not Severity.UNKNOWN],
        default=str(Severity.WARNING),
        help="exit 1 for findings as bad as this or worse (default: warning)",
    )
    add_json_argument(parser)
    parser.set_defaults(run=_doctor)


def _doctor(arguments: argparse.Namespace, console: Console) -> int:
    topics = tuple(dict.fromkeys(arguments.topic))
    installation, name = _installation(arguments)
    with installation, _progress(arguments) as progress:
        examined = doctor.examine(installation, name, topics=topics, progress=progress)
    if arguments.json:
        print_json(_summary(examined))
    else:
        _print_examination(console, examined)
    if examined.connectivity.answered_by is None:
        return _UNREACHABLE
    worst = max((finding.severity.rank for finding in examined.findings), default=0)
    return _FINDINGS if worst >= Severity(arguments.fail_at).rank else 0


@contextlib.contextmanager
def _progress(arguments: argparse.Namespace) -> Iterator[Callable[[int, int], None]]:
    """Show on a terminal's stderr how many addresses are checked."""
    # Imported here: no other command needs it.
    from rich.progress import Progress

    console = stderr_console(arguments)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task("addresses checked", total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)


def _installation(arguments: argparse.Namespace) -> tuple[Installation, str]:
    if arguments.bootstrap:
        return open_address(arguments.bootstrap, _BOOTSTRAP), _BOOTSTRAP
    installation = open_installation()
    installation.cluster(arguments.cluster)
    return installation, arguments.cluster


# -- tables


def _print_examination(console: Console, examined: Examination) -> None:
    connectivity, metadata = examined.connectivity, examined.metadata
    used = connectivity.answered_by
    console.print(f"bootstrap ({connectivity.security_protocol})")
    rows = table("", "address", "steps (milliseconds)", "result")
    for check in connectivity.bootstrap[:_MAX_ROWS]:
        rows.add_row("*" if check is used else "", *_check_cells(check))
    _print_table(console, rows, len(connectivity.bootstrap))
    if used is not None and used.metadata is not None:
        console.print()
        console.print(Text(f"cluster {used.metadata.cluster_id}, reported by {used.address}"))
        _print_cluster(console, examined)
        _print_brokers(console, connectivity, metadata)
    _print_leaders(console, examined)
    _print_certificates(console, connectivity)
    _print_findings(console, examined)


def _print_table(console: Console, rows: Table, total: int) -> None:
    """Print a table, and how many of its `total` rows it does not have."""
    if more := _more(total):
        rows.add_row("", more)
    console.print(rows)


def _more(count: int) -> str:
    """Return how many of `count` are not shown; "" for none."""
    hidden = max(0, count - _MAX_ROWS)
    return f"and {format_count(hidden)} more; --json has all" if hidden else ""


def _check_cells(check: EndpointCheck) -> tuple[Text, Text, Text]:
    """Return address, steps and result."""
    steps = ", ".join(map(_stage_in_words, check.stages))
    return Text(check.address), Text(steps), Text(_result(check))


def _stage_in_words(stage: StageResult) -> str:
    return f"{stage.stage} {stage.milliseconds if stage.is_ok else 'FAILED'}"


def _result(check: EndpointCheck) -> str:
    if check.failed_stage is not None:
        return check.failed_stage.detail
    parts = [stage.detail for stage in check.stages if stage.stage in _STAGES_WITH_DETAIL]
    if check.is_expected_broker is False:
        parts.insert(0, "ANOTHER BROKER")
    if len(check.ips) > 1:
        parts.append(f"{len(check.ips)} IP addresses")
        parts += [f"not {ip}: {reason}" for ip, reason in check.dead_ips.items()]
    return "; ".join(parts)


def _print_cluster(console: Console, examined: Examination) -> None:
    metadata, controller_id = examined.metadata, examined.connectivity.controller_id
    if metadata is None:
        console.print("it stopped responding after the connectivity check: nothing else is known")
        return
    live_count = sum(not broker.is_fenced for broker in metadata.brokers)
    fenced_count = len(metadata.brokers) - live_count
    partition_count = sum(len(topic.partitions) for topic in metadata.topics)
    controller = "not known" if controller_id is None else str(controller_id)
    console.print(
        f"active controller {controller}; brokers: {len(metadata.brokers)} registered, "
        f"{live_count} live, {fenced_count} fenced; {pluralize(len(metadata.topics), 'topic')}, "
        f"{pluralize(partition_count, 'partition')}"
    )
    for reason in examined.unavailable:
        console.print(Text(f"not known: {reason}"), soft_wrap=True)


def _print_brokers(
    console: Console, connectivity: ConnectivityCheck, metadata: ClusterMetadata | None
) -> None:
    """Print each broker with the check of the endpoint that it advertises."""
    console.print()
    console.print("brokers, and the endpoints that they advertise")
    described = {broker.broker_id: broker for broker in metadata.brokers} if metadata else {}
    leader_counts = metadata.leader_counts if metadata else Counter()
    checks = connectivity.advertised
    broker_ids = sorted(described.keys() | checks.keys())
    if len(broker_ids) > _MAX_ENDPOINTS_SHOWN:
        well = {broker_id for broker_id, check in checks.items() if check.is_as_expected}
        problems = [broker_id for broker_id in broker_ids if broker_id not in well]
        expected_count = format_count(len(broker_ids) - len(problems))
        console.print(f"{expected_count} of {format_count(len(broker_ids))} respond as they should")
        broker_ids = problems
    columns = ("broker", "rack", "state", ("leaders", "right"))
    rows = table(*columns, "address", "steps (milliseconds)", "result")
    for broker_id in broker_ids[:_MAX_ROWS]:
        broker, check = described.get(broker_id), checks.get(broker_id)
        rows.add_row(
            str(broker_id),
            Text((broker.rack if broker else None) or "-"),
            _state(broker),
            str(leader_counts[broker_id]),
            *(_check_cells(check) if check else _unchecked_cells(broker)),
        )
    _print_table(console, rows, len(broker_ids))


def _state(broker: BrokerDescription | None) -> str:
    if broker is None:
        return "not known"
    return "fenced" if broker.is_fenced else "live"


def _unchecked_cells(broker: BrokerDescription | None) -> tuple[Text, Text, Text]:
    address = f"{broker.host}:{broker.port}" if broker else ""
    return Text(address), Text(""), Text("not checked")


def _print_leaders(console: Console, examined: Examination) -> None:
    """Print, for each requested topic, which brokers lead it and whether clients reach them."""
    for topic in examined.asked_topics:
        numbers = grouped((one.leader, str(one.partition)) for one in topic.partitions)
        rows = table("leader", "its endpoint", "partitions")
        for leader in sorted(numbers, key=lambda leader: -1 if leader is None else leader):
            endpoint = _endpoint_state(examined.connectivity, leader)
            name = "none" if leader is None else str(leader)
            rows.add_row(name, endpoint, ", ".join(numbers[leader]))
        console.print()
        console.print(Text(f"leaders of {topic.topic}"))
        console.print(rows)


def _endpoint_state(connectivity: ConnectivityCheck, leader: int | None) -> str:
    check = None if leader is None else connectivity.advertised.get(leader)
    if check is None:
        return "-"
    if not check.is_reachable:
        return "DOES NOT ANSWER"
    return "ANOTHER BROKER" if check.is_expected_broker is False else "answers"


def _print_certificates(console: Console, connectivity: ConnectivityCheck) -> None:
    if not connectivity.certificates:
        return
    rows = table("subject", "issuer", "names", "expires (UTC)", "for the host", "at")
    for certificate, addresses in connectivity.certificates.items():
        rows.add_row(
            Text(certificate.subject),
            Text(certificate.issuer),
            Text(", ".join(certificate.names) or "-"),
            f"{certificate.expires_at:%Y-%m-%d %H:%M}",
            "yes" if certificate.matches_host else "NO",
            Text(", ".join(addresses)),
        )
    console.print()
    console.print("certificates")
    console.print(rows)


def _print_findings(console: Console, examined: Examination) -> None:
    console.print()
    for finding in [one for one in examined.findings if not one.causes][:_MAX_ROWS]:
        line = Text(f"{finding.severity}: ", style=_STYLES.get(finding.severity, "dim"))
        line.append_text(Text(finding.summary))
        console.print(line, soft_wrap=True)
        for consequence in examined.findings:
            if finding.subject in consequence.causes:
                console.print(Text(f"  and so {consequence.summary}"), soft_wrap=True)
        for fix in finding.fix:
            console.print(Text(f"    {fix}"), soft_wrap=True)
    if more := _more(len(examined.findings)):
        console.print(more)
    if not examined.findings:
        console.print("every address and every endpoint responds; no findings")


# -- values; their keys are a contract

_KEYS: Final[Mapping[str, str]] = {
    "stages": "steps",
    "stage": "step",
    "is_ok": "ok",
    "detail": "said",
    "summary": "seen",
}
_FORMAT: Final = "counterpoise-doctor/1"  # of --json: keys are added, never changed


def _summary(examined: Examination) -> dict[str, Any]:
    """Return what `--json` prints."""
    connectivity, metadata = examined.connectivity, examined.metadata
    used = connectivity.answered_by
    advertised = connectivity.advertised.items()
    return {
        "format": _FORMAT,
        "security_protocol": connectivity.security_protocol,
        "answered_by": used.address if used else None,
        "cluster_id": connectivity.cluster_id,
        "bootstrap": [_check_summary(check) for check in connectivity.bootstrap],
        "advertised": {str(broker_id): _check_summary(check) for broker_id, check in advertised},
        "unchecked": list(connectivity.unchecked),
        "cluster": _cluster_summary(examined, metadata) if metadata else None,
        "leaders": _leaders_summary(examined),
        "findings": [to_content(finding, _KEYS) for finding in examined.findings],
    }


def _check_summary(check: EndpointCheck) -> dict[str, Any]:
    return {
        "address": check.address,
        "answered": check.is_reachable,
        "ips": list(check.ips),
        "dead_ips": dict(check.dead_ips),
        "steps": [to_content(stage, _KEYS) for stage in check.stages],
        "is_expected_broker": check.is_expected_broker,
        "actual_broker_id": check.actual_broker_id,
        "cluster_id": check.cluster_id,
        "sees_brokers": sorted(check.metadata.broker_ids) if check.metadata else None,
        "certificate": asdict(check.certificate) if check.certificate else None,
    }


def _leaders_summary(examined: Examination) -> dict[str, Any]:
    """Return the partitions of the requested topics, by topic."""
    return {
        topic.topic: [
            {
                "partition": partition.partition,
                "leader": partition.leader,
                "isr": list(partition.isr),
                "endpoint": _endpoint_state(examined.connectivity, partition.leader).lower(),
            }
            for partition in topic.partitions
        ]
        for topic in examined.asked_topics
    }


def _cluster_summary(examined: Examination, metadata: ClusterMetadata) -> dict[str, Any]:
    leader_counts = metadata.leader_counts
    return {
        "controller_id": examined.connectivity.controller_id,
        "not_told": list(examined.unavailable),
        "topics": len(metadata.topics),
        "partitions": sum(len(topic.partitions) for topic in metadata.topics),
        "brokers": [
            asdict(broker) | {"leaders": leader_counts[broker.broker_id]}
            for broker in metadata.brokers
        ],
    }
