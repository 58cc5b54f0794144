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
from counterpoise.model.walk import ClusterSight, EndpointWalk, LeaderChange, Step, Walk

if TYPE_CHECKING:
    from counterpoise.pipeline import Examination

_MOST_WELL_SHOWN: Final = 50  # endpoints; of more, those that are not well


def shown(text: str) -> Text:
    """Text from outside: no markup, and no character that would steer a terminal."""
    return Text(printable(text))


def print_examination(console: Console, examined: "Examination") -> None:
    walk = examined.walk
    console.print(f"bootstrap ({walk.security_protocol})", markup=False)
    first = walk.answered_by
    console.print(_walks_table([("*" if one is first else "", one) for one in walk.bootstrap], ""))
    if first and first.told:
        _print_cluster(console, first, examined.sight)
    if walk.advertised:
        console.print("\nadvertised endpoints")
        walks = [(str(number), one) for number, one in walk.advertised.items()]
        if len(walks) > _MOST_WELL_SHOWN:
            well = [one for _, one in walks if one.answered and one.is_expected_broker is not False]
            console.print(f"{len(well)} of {len(walks)} answer as they should")
            walks = [(number, one) for number, one in walks if one not in well]
        console.print(_walks_table(walks, "broker"))
    _print_leaders(console, examined)
    _print_certificates(console, walk)
    console.print()
    for finding in examined.findings:
        style = "red" if finding.severity == "critical" else "yellow"
        line = Text(f"{finding.severity}: ", style=style)
        line.append_text(shown("; ".join((finding.seen, *finding.fix))))
        console.print(line, soft_wrap=True)
    if not examined.findings:
        console.print("every address and every endpoint answers; nothing was found")


def _walks_table(walks: list[tuple[str, EndpointWalk]], first_column: str) -> Table:
    rows = table(first_column, "address", "steps (milliseconds)", "found")
    for mark, one in walks:
        rows.add_row(mark, shown(one.address), shown(_steps_in_words(one)), shown(_outcome(one)))
    return rows


def _steps_in_words(one: EndpointWalk) -> str:
    return ", ".join(
        f"{step.name} {step.milliseconds}" if step.is_ok else f"{step.name} FAILED"
        for step in one.steps
    )


def _outcome(one: EndpointWalk) -> str:
    if one.failed_step is not None:
        return one.failed_step.said
    said = [step.said for step in one.steps if step.name in ("sasl", "metadata")]
    if one.is_expected_broker is False:
        said.insert(0, "ANOTHER BROKER")
    return "; ".join([*said, *([f"{len(one.ips)} IP addresses"] if len(one.ips) > 1 else [])])


def _print_cluster(console: Console, first: EndpointWalk, sight: ClusterSight | None) -> None:
    assert first.told is not None
    console.print()
    console.print(shown(f"cluster {first.told.cluster_id}, told by {first.address}"))
    if sight is None:
        console.print("it answered the walk, and then no more: nothing else is known")
        return
    live = [broker for broker in sight.brokers if not broker.is_fenced]
    partitions = sum(len(topic.partitions) for topic in sight.topics)
    controller = "not known" if sight.controller_id is None else str(sight.controller_id)
    console.print(
        f"active controller {controller}; brokers: {len(sight.brokers)} registered, {len(live)} live, "
        f"{len(sight.brokers) - len(live)} fenced; {len(sight.topics)} topics, {partitions} partitions"
    )
    for reason in sight.not_told:
        console.print(shown(f"not told: {reason}"), soft_wrap=True)
    leaders = sight.leaders
    rows = table("broker", "advertises", "rack", "state", ("leaders", "right"))
    for broker in sight.brokers:
        endpoint = shown(f"{broker.host}:{broker.port}")
        state = "fenced" if broker.is_fenced else "live"
        led = str(len(leaders.get(broker.broker_id, ())))
        rows.add_row(str(broker.broker_id), endpoint, shown(broker.rack or "-"), state, led)
    console.print(rows)


def _print_leaders(console: Console, examined: "Examination") -> None:
    """Of each topic that was asked about: who leads what, and whether a client gets there."""
    for topic in examined.sight.topics if examined.sight else ():
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
                _state(examined.walk, leader),
                ", ".join(partitions),
            )
        console.print(rows)


def _state(walk: Walk, leader: int | None) -> str:
    one = None if leader is None else walk.advertised.get(leader)
    if one is None:
        return "-"
    if not one.answered:
        return "DOES NOT ANSWER"
    return "ANOTHER BROKER" if one.is_expected_broker is False else "answers"


def _print_certificates(console: Console, walk: Walk) -> None:
    if not walk.certificates:
        return
    console.print("\ncertificates")
    rows = table("subject", "issuer", "names", "expires (UTC)", "for the host", "at")
    for certificate, addresses in walk.certificates.items():
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
    walk, sight = examined.walk, examined.sight
    first = walk.answered_by
    return {
        "security_protocol": walk.security_protocol,
        "answered_by": first.address if first else None,
        "cluster_id": walk.cluster_id,
        "bootstrap": [_walk_summary(one) for one in walk.bootstrap],
        "advertised": {
            str(broker_id): _walk_summary(one) for broker_id, one in walk.advertised.items()
        },
        "cluster": _sight_summary(sight) if sight else None,
        "leaders": _leaders_summary(examined),
        "findings": [
            {
                "rule": finding.rule,
                "severity": str(finding.severity),
                "subject": finding.subject,
                "seen": finding.seen,
                "fix": list(finding.fix),
            }
            for finding in examined.findings
        ],
    }


def _walk_summary(one: EndpointWalk) -> dict[str, Any]:
    certificate = one.certificate
    return {
        "address": one.address,
        "answered": one.answered,
        "ips": list(one.ips),
        "steps": [_step_summary(step) for step in one.steps],
        "is_expected_broker": one.is_expected_broker,
        "actual_broker_id": one.actual_broker_id,
        "cluster_id": one.cluster_id,
        "sees_brokers": sorted(one.told.broker_ids) if one.told else None,
        "certificate": asdict(certificate) | {"expires_at": certificate.expires_at.isoformat()}
        if certificate
        else None,
    }


def _leaders_summary(examined: "Examination") -> dict[str, Any]:
    """Of the topics that were asked about."""
    topics = examined.sight.topics if examined.sight else ()
    return {
        topic.topic: [
            {
                "partition": p.partition,
                "leader": p.leader,
                "isr": list(p.isr),
                "endpoint": _state(examined.walk, p.leader).lower(),
            }
            for p in topic.partitions
        ]
        for topic in topics
        if topic.topic in examined.topics
    }


def _step_summary(step: Step) -> dict[str, Any]:
    return {
        "step": str(step.name),
        "ok": step.is_ok,
        "said": step.said,
        "milliseconds": step.milliseconds,
    }


def _sight_summary(sight: ClusterSight) -> dict[str, Any]:
    leaders = sight.leaders
    return {
        "controller_id": sight.controller_id,
        "not_told": list(sight.not_told),
        "topics": len(sight.topics),
        "partitions": sum(len(topic.partitions) for topic in sight.topics),
        "brokers": [
            asdict(broker) | {"leaders": len(leaders.get(broker.broker_id, ()))}
            for broker in sight.brokers
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
    if change.silent_seconds is not None:
        text += f", {change.silent_seconds:.1f} s after broker {change.before} last answered"
    return text


def _id(broker_id: int | None) -> str:
    return "none" if broker_id is None else str(broker_id)
