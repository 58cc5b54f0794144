"""How a connectivity check is shown: tables in the terminal, the same as values for --json.

Text from outside is shown as text only.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from counterpoise.cli.tables import table
from counterpoise.model.connectivity import (
    ClusterMetadata,
    ConnectionStage,
    ConnectivityCheck,
    EndpointCheck,
    StageResult,
)
from counterpoise.model.severity import Severity
from counterpoise.model.words import pluralize
from counterpoise.units import format_count

if TYPE_CHECKING:
    from counterpoise.services.doctor import Examination

_FORMAT: Final = "counterpoise-doctor/1"  # of --json: keys are added, never changed
_MAX_ENDPOINTS_SHOWN: Final = 50  # with more of them only those with a problem
_MAX_ROWS: Final = 200  # of a table, and of findings; `--json` has all
_STYLES: Final = {Severity.CRITICAL: "red", Severity.WARNING: "yellow"}
_STAGES_WITH_DETAIL: Final = (ConnectionStage.SASL, ConnectionStage.METADATA)


def shown(text: str) -> Text:
    """Return text from outside without markup, and without characters that steer a terminal."""
    return Text(text)


# -- tables


def print_examination(console: Console, examined: "Examination") -> None:
    connectivity = examined.connectivity
    used = connectivity.answered_by
    console.print(f"bootstrap ({connectivity.security_protocol})", markup=False)
    bootstrap = [("*" if check is used else "", check) for check in connectivity.bootstrap]
    console.print(_endpoint_table("", bootstrap))
    if used is not None:
        _print_cluster(console, used, examined.metadata)
    if connectivity.advertised:
        _print_advertised(console, connectivity)
    _print_leaders(console, examined)
    _print_certificates(console, connectivity)
    _print_findings(console, examined)


def _print_advertised(console: Console, connectivity: ConnectivityCheck) -> None:
    console.print()
    console.print("advertised endpoints")
    checks = [(str(broker_id), check) for broker_id, check in connectivity.advertised.items()]
    if len(checks) > _MAX_ENDPOINTS_SHOWN:
        problems = [(name, check) for name, check in checks if not _is_as_expected(check)]
        expected_count = len(checks) - len(problems)
        console.print(
            f"{format_count(expected_count)} of {format_count(len(checks))} respond as they should"
        )
        checks = problems
    console.print(_endpoint_table("broker", checks))


def _is_as_expected(check: EndpointCheck) -> bool:
    return check.is_reachable and check.is_expected_broker is not False


def _endpoint_table(first_column: str, checks: Sequence[tuple[str, EndpointCheck]]) -> Table:
    rows = table(first_column, "address", "steps (milliseconds)", "result")
    for name, check in checks[:_MAX_ROWS]:
        steps = ", ".join(map(_stage_in_words, check.stages))
        rows.add_row(name, shown(check.address), shown(steps), shown(_result(check)))
    if more := _more(len(checks)):
        rows.add_row("", more)
    return rows


def _more(count: int) -> str:
    """Return how many of `count` are not shown; "" for none."""
    hidden = max(0, count - _MAX_ROWS)
    return f"and {format_count(hidden)} more; --json has all" if hidden else ""


def _stage_in_words(stage: StageResult) -> str:
    return f"{stage.stage} {stage.milliseconds if stage.is_ok else 'FAILED'}"


def _result(check: EndpointCheck) -> str:
    if check.failed_stage is not None:
        return check.failed_stage.detail
    parts = [stage.detail for stage in check.stages if stage.stage in _STAGES_WITH_DETAIL]
    if check.is_expected_broker is False:
        parts.insert(0, "ANOTHER BROKER")
    if len(check.ips) > 1:
        dead = [f"not {ip}: {reason}" for ip, reason in check.dead_ips.items()]
        parts.append("; ".join((f"{len(check.ips)} IP addresses", *dead)))
    return "; ".join(parts)


def _print_cluster(
    console: Console, check: EndpointCheck, metadata: ClusterMetadata | None
) -> None:
    if check.metadata is None:
        return
    console.print()
    console.print(shown(f"cluster {check.metadata.cluster_id}, reported by {check.address}"))
    if metadata is None:
        console.print("it stopped responding after the connectivity check: nothing else is known")
        return
    live_count = sum(not broker.is_fenced for broker in metadata.brokers)
    fenced_count = len(metadata.brokers) - live_count
    partition_count = sum(len(topic.partitions) for topic in metadata.topics)
    controller = "not known" if metadata.controller_id is None else str(metadata.controller_id)
    console.print(
        f"active controller {controller}; brokers: {len(metadata.brokers)} registered, "
        f"{live_count} live, {fenced_count} fenced; {pluralize(len(metadata.topics), 'topic')}, "
        f"{pluralize(partition_count, 'partition')}"
    )
    for reason in metadata.unavailable:
        console.print(shown(f"not known: {reason}"), soft_wrap=True)
    console.print(_broker_table(metadata))


def _broker_table(metadata: ClusterMetadata) -> Table:
    rows = table("broker", "advertises", "rack", "state", ("leaders", "right"))
    leaders = metadata.leaders
    for broker in metadata.brokers[:_MAX_ROWS]:
        leader_count = len(leaders.get(broker.broker_id, ()))
        rows.add_row(
            str(broker.broker_id),
            shown(f"{broker.host}:{broker.port}"),
            shown(broker.rack or "-"),
            "fenced" if broker.is_fenced else "live",
            str(leader_count),
        )
    if more := _more(len(metadata.brokers)):
        rows.add_row("", more)
    return rows


def _print_leaders(console: Console, examined: "Examination") -> None:
    """Print, for each requested topic, which brokers lead it and whether clients reach them."""
    for topic in examined.metadata.topics if examined.metadata else ():
        if topic.topic not in examined.topics:
            continue
        partitions_by_leader: dict[int | None, list[str]] = {}
        for partition in topic.partitions:
            numbers = partitions_by_leader.setdefault(partition.leader, [])
            numbers.append(str(partition.partition))
        rows = table("leader", "its endpoint", "partitions")
        for leader in sorted(
            partitions_by_leader, key=lambda leader: -1 if leader is None else leader
        ):
            endpoint = _endpoint_state(examined.connectivity, leader)
            rows.add_row(_id(leader), endpoint, ", ".join(partitions_by_leader[leader]))
        console.print()
        console.print(shown(f"leaders of {topic.topic}"))
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
            shown(certificate.subject),
            shown(certificate.issuer),
            shown(", ".join(certificate.names) or "-"),
            f"{certificate.expires_at:%Y-%m-%d %H:%M}",
            "yes" if certificate.matches_host else "NO",
            shown(", ".join(addresses)),
        )
    console.print()
    console.print("certificates")
    console.print(rows)


def _print_findings(console: Console, examined: "Examination") -> None:
    console.print()
    for finding in examined.findings[:_MAX_ROWS]:
        line = Text(f"{finding.severity}: ", style=_STYLES.get(finding.severity, "dim"))
        line.append_text(shown(finding.summary))
        console.print(line, soft_wrap=True)
        for fix in finding.fix:
            console.print(shown(f"    {fix}"), soft_wrap=True)
    if more := _more(len(examined.findings)):
        console.print(more)
    if not examined.findings:
        console.print("every address and every endpoint responds; no findings")


# -- values; their keys are a contract


def summary(examined: "Examination") -> dict[str, Any]:
    """Return what `--json` prints."""
    connectivity, metadata = examined.connectivity, examined.metadata
    used = connectivity.answered_by
    advertised = connectivity.advertised.items()
    return {
        "format": _FORMAT,
        "security_protocol": connectivity.security_protocol,
        "answered_by": used.address if used else None,
        "cluster_id": connectivity.cluster_id,
        "bootstrap": [_endpoint_summary(check) for check in connectivity.bootstrap],
        "advertised": {str(broker_id): _endpoint_summary(check) for broker_id, check in advertised},
        "unchecked": list(connectivity.unchecked),
        "cluster": _cluster_summary(metadata) if metadata else None,
        "leaders": _leaders_summary(examined),
        "findings": [
            {
                "rule": finding.rule,
                "severity": str(finding.severity),
                "subject": finding.subject,
                "seen": finding.summary,
                "fix": list(finding.fix),
            }
            for finding in examined.findings
        ],
    }


def _endpoint_summary(check: EndpointCheck) -> dict[str, Any]:
    certificate = None
    if check.certificate:
        issued_at, expires_at = check.certificate.issued_at, check.certificate.expires_at
        certificate = asdict(check.certificate) | {
            "issued_at": issued_at.isoformat() if issued_at else None,
            "expires_at": expires_at.isoformat(),
        }
    return {
        "address": check.address,
        "answered": check.is_reachable,
        "ips": list(check.ips),
        "dead_ips": dict(check.dead_ips),
        "steps": [_stage_summary(stage) for stage in check.stages],
        "is_expected_broker": check.is_expected_broker,
        "actual_broker_id": check.actual_broker_id,
        "cluster_id": check.cluster_id,
        "sees_brokers": sorted(check.metadata.broker_ids) if check.metadata else None,
        "certificate": certificate,
    }


def _stage_summary(stage: StageResult) -> dict[str, Any]:
    return {
        "step": str(stage.stage),
        "ok": stage.is_ok,
        "said": stage.detail,
        "milliseconds": stage.milliseconds,
    }


def _leaders_summary(examined: "Examination") -> dict[str, Any]:
    """Return the partitions of the requested topics, by topic."""
    topics = examined.metadata.topics if examined.metadata else ()
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
        for topic in topics
        if topic.topic in examined.topics
    }


def _cluster_summary(metadata: ClusterMetadata) -> dict[str, Any]:
    leaders = metadata.leaders
    return {
        "controller_id": metadata.controller_id,
        "not_told": list(metadata.unavailable),
        "topics": len(metadata.topics),
        "partitions": sum(len(topic.partitions) for topic in metadata.topics),
        "brokers": [
            asdict(broker) | {"leaders": len(leaders.get(broker.broker_id, ()))}
            for broker in metadata.brokers
        ],
    }


def _id(broker_id: int | None) -> str:
    return "none" if broker_id is None else str(broker_id)
