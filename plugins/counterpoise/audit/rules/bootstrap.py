"""The bootstrap list: enough addresses, all of them alive, spread over racks, all of one cluster.

    of 3 bootstrap addresses, old-kafka:9092 does not answer          # bootstrap-dead-address

Addresses are counted as a client meets them: one name that resolves to many counts as many, two
entries that lead to one socket count as one, and the IPv4 and IPv6 address of a host are one.

Limits: which broker an address leads to is known by its name, or by where the advertised names
resolve to; behind a load balancer it is not.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from counterpoise.audit.commands import counterpoise
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rule import Area, CheckResult, Need, Rule, evidence, unknown
from counterpoise.model.connectivity import ConnectivityCheck, EndpointCheck, MetadataResponse
from counterpoise.model.finding import Evidence
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_ids, pluralize

_CLUSTER: Final = "cluster"
_NEEDS: Final = frozenset({Need.CONNECTIVITY})
_STEPS: Final = ("address", "step", "outcome", "said")
_LIST: Final = "https://kafka.apache.org/documentation/#producerconfigs_bootstrap.servers"


def _few(facts: AuditFacts) -> Iterator[CheckResult]:
    connectivity = _connectivity(facts)
    found = sockets(connectivity.bootstrap)
    least = facts.threshold("bootstrap-few-addresses", "least")
    if len(found) >= min(least, len(facts.snapshot.registered_broker_ids)):
        return
    yield CheckResult(
        _CLUSTER,
        f"the bootstrap list leads to {pluralize(len(found), 'address', 'addresses')}, fewer than {least}",
        evidence(
            ("entry", "resolves to"),
            [(one.address, join_ids(one.ips) or "nothing") for one in connectivity.bootstrap],
        ),
        fix=(f"bootstrap.servers={','.join(_wanted(facts))}",),
        severity=Severity.WARNING if len(found) < 2 else Severity.INFO,
    )


def _wanted(facts: AuditFacts) -> list[str]:
    """Up to three live brokers, of different racks as far as there are."""
    rows = sorted(facts.snapshot.brokers.to_pylist(), key=lambda row: int(row["broker_id"]))
    live = [row for row in rows if not row["is_fenced"] and row["host"]]
    first_of_rack = list({row["rack"]: row for row in reversed(live)}.values())[::-1]
    rest = [row for row in live if row not in first_of_rack]
    return [f"{row['host']}:{row['port']}" for row in [*first_of_rack, *rest][:3]]


def sockets(entries: Sequence[EndpointCheck]) -> frozenset[tuple[str, str]]:
    """What the entries lead to: address and port, of one family only; the name where it does not
    resolve.
    """
    found = set()
    for one in entries:
        host, _, port = one.address.rpartition(":")
        by_family = [ip for ip in one.ips if ":" not in ip] or list(one.ips)
        found |= {(ip, port) for ip in by_family or [host]}
    return frozenset(found)


def _dead(facts: AuditFacts) -> Iterator[CheckResult]:
    connectivity = _connectivity(facts)
    removed = _removed_brokers(facts)
    for one in connectivity.unreachable:
        if one.address not in removed:
            yield CheckResult(
                f"bootstrap address {one.address}",
                f"of {len(connectivity.bootstrap)} bootstrap addresses, {one.address} does not answer: {one.failure}",
                stages(one),
                fix=_without(facts, one.address),
                severity=None if connectivity.answered_by else Severity.CRITICAL,
            )


def _removed(facts: AuditFacts) -> Iterator[CheckResult]:
    for address, broker_id in _removed_brokers(facts).items():
        yield CheckResult(
            f"bootstrap address {address}",
            f"{address} was broker {broker_id}, which is not part of the cluster any more",
            fix=_without(facts, address),
        )


def _removed_brokers(facts: AuditFacts) -> dict[str, int]:
    """Silent addresses that a broker had once, which is not registered any more."""
    registered = set(facts.snapshot.registered_broker_ids)
    had: dict[str, int] = {}
    for snapshot in facts.past.recent_snapshots if facts.past else ():
        had |= {
            f"{row['host']}:{row['port']}": row["broker_id"] for row in snapshot.brokers.to_pylist()
        }
    unreachable = [one.address for one in _connectivity(facts).unreachable]
    return {
        address: had[address]
        for address in unreachable
        if had.get(address, None) not in (None, *registered)
    }


def _without(facts: AuditFacts, address: str) -> tuple[str, ...]:
    rest = [one.address for one in _connectivity(facts).bootstrap if one.address != address]
    return (f"bootstrap.servers={','.join(rest)}",) if rest else ()


def _one_rack(facts: AuditFacts) -> Iterator[CheckResult]:
    racks = set(facts.snapshot.racks.values()) - {None}
    entries = [one for one in _connectivity(facts).bootstrap if one.is_reachable]
    if len(racks) < 2 or not entries:
        return
    led = {one.address: leads_to(one, facts) for one in entries}
    lost = [address for address, brokers in led.items() if not brokers]
    met = {facts.snapshot.racks.get(broker_id) for brokers in led.values() for broker_id in brokers}
    if len(met - {None}) > 1:
        return
    if lost or None in met:
        why = (
            f"to which broker {join_ids(lost)} leads"
            if lost
            else "the rack of a broker that the list leads to"
        )
        endpoints = [
            f"broker {broker_id}"
            for broker_id, one in sorted(_connectivity(facts).advertised.items())
            if not one.is_reachable
        ]
        yield unknown(_CLUSTER, why, tuple(endpoints) if lost else ())
        return
    rows = [
        (address, join_ids(brokers), facts.snapshot.racks[brokers[0]])
        for address, brokers in led.items()
    ]
    yield CheckResult(
        _CLUSTER,
        f"every bootstrap address that answers is in rack {rows[0][2]}, of {len(racks)} racks",
        evidence(("address", "broker", "rack"), rows),
        fix=(f"bootstrap.servers={','.join(_wanted(facts))}",),
    )


def leads_to(one: EndpointCheck, facts: AuditFacts) -> tuple[int, ...]:
    """The brokers behind an address, as far as that can be told."""
    named = [
        r["broker_id"]
        for r in facts.snapshot.brokers.to_pylist()
        if f"{r['host']}:{r['port']}" == one.address
    ]
    if named:
        return tuple(named)
    met = sockets([one])
    advertised = _connectivity(facts).advertised
    return tuple(
        sorted(
            broker_id for broker_id, its in advertised.items() if its.ips and sockets([its]) & met
        )
    )


def _other_cluster(facts: AuditFacts) -> Iterator[CheckResult]:
    ours = facts.snapshot.cluster_id
    for one in _connectivity(facts).bootstrap:
        if one.metadata is not None and one.metadata.cluster_id != ours:
            yield CheckResult(
                f"bootstrap address {one.address}",
                f"{one.address} belongs to the cluster {one.metadata.cluster_id}, not to {ours}",
                evidence(
                    ("address", "cluster id", "brokers"), [_told_row(one.address, one.metadata)]
                ),
                fix=_without(facts, one.address),
            )


def _disagree(facts: AuditFacts) -> Iterator[CheckResult]:
    """Of those that belong to the cluster: addresses that list other live brokers than most do."""
    metadata = _connectivity(facts).metadata_of(facts.snapshot.cluster_id)
    answers = {
        tuple((b.broker_id, b.host, b.port) for b in answer.brokers) for _, answer in metadata
    }
    if len(answers) > 1:
        rows = sorted({_told_row(address, answer) for address, answer in metadata})
        yield CheckResult(
            _CLUSTER,
            f"brokers were asked for the live brokers within one walk and gave {len(answers)} different answers",
            evidence(("address", "cluster id", "brokers"), rows),
            fix=(counterpoise("doctor", "--cluster", facts.snapshot.cluster),),
        )


def _told_row(address: str, metadata: MetadataResponse) -> tuple[str, str, str]:
    return (
        address,
        metadata.cluster_id,
        join_ids([f"{b.broker_id} at {b.host}:{b.port}" for b in metadata.brokers]),
    )


def stages(one: EndpointCheck) -> Evidence:
    """The steps of a walk, as rows."""
    rows = [
        (one.address, stage.stage, "ok" if stage.is_ok else "failed", stage.detail)
        for stage in one.stages
    ]
    return evidence(_STEPS, rows)


def _connectivity(facts: AuditFacts) -> ConnectivityCheck:
    """There is one, or the rule would not have been asked."""
    return facts.connectivity or ConnectivityCheck("", ())


RULES: Final = (
    Rule(
        "bootstrap-few-addresses",
        Area.BOOTSTRAP,
        Severity.WARNING,
        title="Few addresses in the bootstrap list",
        why="A client that starts while the only broker it knows is down does not start, although the cluster is well.",
        how="List three brokers of different racks, or one name that resolves to all of them.",
        source=_LIST,
        check=_few,
        needs=_NEEDS,
        thresholds={"least": 3},
    ),
    Rule(
        "bootstrap-dead-address",
        Area.BOOTSTRAP,
        Severity.WARNING,
        title="Bootstrap addresses that do not answer",
        why="A half-dead list works until its last live entry is restarted; until then clients start late, since they "
        "wait for the dead ones first.",
        how="Mend what the failed step names, or take the address out of the list of every client.",
        source=_LIST,
        check=_dead,
        needs=_NEEDS,
    ),
    Rule(
        "bootstrap-removed-broker",
        Area.BOOTSTRAP,
        Severity.WARNING,
        title="Bootstrap addresses of brokers that are gone",
        why="The address may be given to another machine one day, even to another cluster, and clients would follow.",
        how="Take the address out of the list of every client.",
        source=_LIST,
        check=_removed,
        needs=_NEEDS | {Need.HISTORY},
    ),
    Rule(
        "bootstrap-one-rack",
        Area.BOOTSTRAP,
        Severity.WARNING,
        title="Bootstrap list within one rack",
        why="When that rack is down no client can start, while the brokers of the other racks serve those that run.",
        how="List brokers of different racks.",
        source=_LIST,
        check=_one_rack,
        needs=_NEEDS,
    ),
    Rule(
        "bootstrap-other-cluster",
        Area.BOOTSTRAP,
        Severity.CRITICAL,
        title="Bootstrap addresses of another cluster",
        why="A client takes the first address that answers: some will produce to one cluster and some to the other.",
        how="Take the address out of the list of every client, or put the right one in its place.",
        source=_LIST,
        check=_other_cluster,
        needs=_NEEDS,
    ),
    Rule(
        "metadata-differs",
        Area.BOOTSTRAP,
        Severity.WARNING,
        title="Brokers that tell different things of the cluster",
        why="A broker cut off from the controllers serves old metadata: its clients go to leaders that lead no more. "
        "For a moment after a broker joined or left this is ordinary.",
        how="Look again; if it stays, see why that broker does not follow the metadata log (its lag, its log).",
        source="https://cwiki.apache.org/confluence/display/KAFKA/KIP-631%3A+The+Quorum-based+Kafka+Controller",
        check=_disagree,
        needs=_NEEDS,
    ),
)
