"""How a walk is shown: tables for people, the same as values for --json.

Text from outside is shown as text only.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from counterpoise.cli.printable import printable
from counterpoise.cli.tables import table
from counterpoise.model.connectivity import (
    ClusterMetadata,
    ConnectivityCheck,
    EndpointCheck,
    LeaderChange,
    StageResult,
)

if TYPE_CHECKING:
    from counterpoise.pipeline import Examination

_MOST_WELL_SHOWN: Final = 50  # endpoints; of more, those that are not well


def shown(text: str) -> Text:
    """Text from outside: no markup, and no character that would steer a terminal."""
    return Text(printable(text))


def print_examination(console: Console, examined: "Examination") -> None:
    connectivity = examined.connectivity
    console.print(f"bootstrap ({connectivity.security_protocol})", markup=False)
    first = connectivity.answered_by
    console.print(_walks_table([("*" if one is first else "", one) for one in connectivity.bootstrap], ""))
    if first and first.metadata:
        _print_cluster(console, first, examined.metadata)
    if connectivity.advertised:
        console.print("\nadvertised endpoints")
        walks = [(str(number), one) for number, one in connectivity.advertised.items()]
        if len(walks) > _MOST_WELL_SHOWN:
            well = [one for _, one in walks if one.is_reachable and one.is_expected_broker is not False]
            console.print(f"{len(well)} of {len(walks)} answer as they should")
            walks = [(number, one) for number, one in walks if one not in well]
        console.print(_walks_table(walks, "broker"))
    _print_leaders(console, examined)
    _print_certificates(console, connectivity)
    console.print()
    for finding in examined.findings:
        style = "red" if finding.severity == "critical" else "yellow"
        line = Text(f"{finding.severity}: ", style=style)
        line.append_text(shown("; ".join((finding.summary, *finding.fix))))
        console.print(line, soft_wrap=True)
    if not examined.findings:
        console.print("every address and every endpoint answers; nothing was found")


def _walks_table(walks: list[tuple[str, EndpointCheck]], first_column: str) -> Table:
    rows = table(first_column, "address", "steps (milliseconds)", "found")
    for mark, one in walks:
        rows.add_row(mark, shown(one.address), shown(_steps_in_words(one)), shown(_outcome(one)))
    return rows


def _steps_in_words(one: EndpointCheck) -> str:
    return ", ".join(
        f"{stage.stage} {stage.milliseconds}" if stage.is_ok else f"{stage.stage} FAILED"
        for stage in one.stages
    )


def _outcome(one: EndpointCheck) -> str:
    if one.failed_stage is not None:
        return one.failed_stage.detail
    said = [stage.detail for stage in one.stages if stage.stage in ("sasl", "metadata")]
    if one.is_expected_broker is False:
        said.insert(0, "ANOTHER BROKER")
    return "; ".join([*said, *([f"{len(one.ips)} IP addresses"] if len(one.ips) > 1 else [])])


def _print_cluster(console: Console, first: EndpointCheck, metadata: ClusterMetadata | None) -> None:
    assert first.metadata is not None
    console.print()
    console.print(shown(f"cluster {first.metadata.cluster_id}, told by {first.address}"))
    if metadata is None:
        console.print("it answered the walk, and then no more: nothing else is known")
        return
    live = [broker for broker in metadata.brokers if not broker.is_fenced]
    partitions = sum(len(topic.partitions) for topic in metadata.topics)
    controller = "not known" if metadata.controller_id is None else str(metadata.controller_id)
    console.print(
        f"active controller {controller}; brokers: {len(metadata.brokers)} registered, {len(live)} live, "
        f"{len(metadata.brokers) - len(live)} fenced; {len(metadata.topics)} topics, {partitions} partitions"
    )
    for reason in metadata.unavailable:
        console.print(shown(f"not told: {reason}"), soft_wrap=True)
    leaders = metadata.leaders
    rows = table("broker", "advertises", "rack", "state", ("leaders", "right"))
    for broker in metadata.brokers:
        endpoint = shown(f"{broker.host}:{broker.port}")
        state = "fenced" if broker.is_fenced else "live"
        led = str(len(leaders.get(broker.broker_id, ())))
        rows.add_row(str(broker.broker_id), endpoint, shown(broker.rack or "-"), state, led)
    console.print(rows)


def _print_leaders(console: Console, examined: "Examination") -> None:
    """Of each topic that was asked about: who leads what, and whether a client gets there."""
    for topic in examined.metadata.topics if examined.metadata else ():
        if topic.topic not in examined.topics:
            continue
        led: dict[int | None, list[str]] = {}
        for p in topic.partitions:
            led.setdefault(p.leader, []).append(str(p.partition))
        console.print()
        console.print(shown(f"leaders of {topic.topic}"))
        rows = table("leader", "its endpoint", "partitions")
        for leader, partitions in sorted(
            led.items(), key=lambda item: -1 if item[0] is None else item[0]
        ):
            rows.add_row(
                "none" if leader is None else str(leader),
                _state(examined.connectivity, leader),
                ", ".join(partitions),
            )
        console.print(rows)


def _state(connectivity: ConnectivityCheck, leader: int | None) -> str:
    one = None if leader is None else connectivity.advertised.get(leader)
    if one is None:
        return "-"
    if not one.is_reachable:
        return "DOES NOT ANSWER"
    return "ANOTHER BROKER" if one.is_expected_broker is False else "answers"


def _print_certificates(console: Console, connectivity: ConnectivityCheck) -> None:
    if not connectivity.certificates:
        return
    console.print("\ncertificates")
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
    console.print(rows)


def summary(examined: "Examination") -> dict[str, Any]:
    """What `--json` prints."""
    connectivity, metadata = examined.connectivity, examined.metadata
    first = connectivity.answered_by
    return {
        "security_protocol": connectivity.security_protocol,
        "answered_by": first.address if first else None,
        "cluster_id": connectivity.cluster_id,
        "bootstrap": [_walk_summary(one) for one in connectivity.bootstrap],
        "advertised": {
            str(broker_id): _walk_summary(one) for broker_id, one in connectivity.advertised.items()
        },
        "cluster": _sight_summary(metadata) if metadata else None,
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


def _walk_summary(one: EndpointCheck) -> dict[str, Any]:
    certificate = one.certificate
    return {
        "address": one.address,
        "answered": one.is_reachable,
        "ips": list(one.ips),
        "steps": [_step_summary(stage) for stage in one.stages],
        "is_expected_broker": one.is_expected_broker,
        "actual_broker_id": one.actual_broker_id,
        "cluster_id": one.cluster_id,
        "sees_brokers": sorted(one.metadata.broker_ids) if one.metadata else None,
        "certificate": asdict(certificate) | {"expires_at": certificate.expires_at.isoformat()}
        if certificate
        else None,
    }


def _leaders_summary(examined: "Examination") -> dict[str, Any]:
    """Of the topics that were asked about."""
    topics = examined.metadata.topics if examined.metadata else ()
    return {
        topic.topic: [
            {
                "partition": p.partition,
                "leader": p.leader,
                "isr": list(p.isr),
                "endpoint": _state(examined.connectivity, p.leader).lower(),
            }
            for p in topic.partitions
        ]
        for topic in topics
        if topic.topic in examined.topics
    }


def _step_summary(stage: StageResult) -> dict[str, Any]:
    return {
        "step": str(stage.stage),
        "ok": stage.is_ok,
        "said": stage.detail,
        "milliseconds": stage.milliseconds,
    }


def _sight_summary(metadata: ClusterMetadata) -> dict[str, Any]:
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


def in_words(change: LeaderChange) -> str:
    """`orders-1: leader 3 -> 1, an in-sync follower; 4.2 s after broker 3 last answered`."""
    if change.after is None:
        text = f"{change.topic_partition}: leader {_id(change.before)} -> none; it can be neither written nor read"
    else:
        kind = (
            "an in-sync replica"
            if change.was_in_sync
            else "which was NOT in sync: records may be lost"
        )
        kind = kind if change.before is not None else "where there was none"
        text = f"{change.topic_partition}: leader {_id(change.before)} -> {change.after}, {kind}"
    if change.before is not None:
        text += f"; {change.seconds:.1f} s after the last look with the old leader"
    if change.unresponsive_seconds is not None:
        text += f", {change.unresponsive_seconds:.1f} s after broker {change.before} last answered"
    return text


def _id(broker_id: int | None) -> str:
    return "none" if broker_id is None else str(broker_id)
