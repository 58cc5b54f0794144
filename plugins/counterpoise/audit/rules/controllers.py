"""Controllers: how many vote, where they are, and who keeps up.

    3 voters, one of them 40 s behind: one more, and nothing can be changed any more      # quorum-no-margin

All times are the quorum leader's clock, which its answer carries as the time when it caught up
itself.

Limits: racks are known of controllers that are brokers, too, and of those that the policy names
(`controller_racks`); brokers before 3.3 tell no times (KIP-836).
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rule import Area, Need, Rule, Sighting, evidence, unknown
from counterpoise.audit.unavailable_data import why
from counterpoise.model.finding import Evidence
from counterpoise.model.inspection import Asked, Quorum, QuorumVoter
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_ids, pluralize
from counterpoise.units import format_seconds

_QUORUM: Final = "quorum"
_NEEDS: Final = frozenset({Need.INSPECTION})
_ZERO: Final = frozenset("0-A")  # of a directory id without a value, as text of either kind
_STATUS: Final = 'kafka-metadata-quorum.sh --bootstrap-server "$BOOTSTRAP" describe --status'
_REPLICATION: Final = (
    'kafka-metadata-quorum.sh --bootstrap-server "$BOOTSTRAP" describe --replication'
)
_FEATURE: Final = (
    'kafka-features.sh --bootstrap-server "$BOOTSTRAP" upgrade --feature kraft.version=1'
)
_KRAFT: Final = "https://kafka.apache.org/documentation/#kraft_deployment"
_KIP_853: Final = "https://cwiki.apache.org/confluence/display/KAFKA/KIP-853%3A+KRaft+Controller+Membership+Changes"
_KIP_836: Final = "https://cwiki.apache.org/confluence/display/KAFKA/KIP-836%3A+Expose+replication+information+of+the+cluster+metadata"


def _size(facts: AuditFacts) -> Iterator[Sighting]:
    quorum = facts.inspection.quorum
    if quorum is None:
        yield _not_told(facts)
        return
    count = len(quorum.voters)
    most = facts.threshold("quorum-size", "most")
    ids = join_ids([voter.node_id for voter in quorum.voters])
    if count == 1:
        said = f"controller {ids} is the only voter: without it nothing can be changed, and its disk is the only one"
        yield Sighting(_QUORUM, said, fix=(_STATUS,), severity=Severity.CRITICAL)
    elif count > most:
        said = f"{count} voters ({ids}), more than {most}: each change waits for {quorum.majority} of them"
        yield Sighting(_QUORUM, said, fix=(_STATUS,), severity=Severity.INFO)
    elif count % 2 == 0:
        spare = count - quorum.majority
        said = f"{count} voters ({ids}) stand the loss of {spare}, no more than {count - 1} would"
        yield Sighting(_QUORUM, said, fix=(_STATUS,))


def _not_told(facts: AuditFacts) -> Sighting:
    return unknown(_QUORUM, why(facts, Asked.QUORUM), (Asked.QUORUM,))


def _one_rack(facts: AuditFacts) -> Iterator[Sighting]:
    quorum = facts.inspection.quorum
    if quorum is None:
        yield _not_told(facts)
        return
    if len(quorum.voters) < 2:
        return
    rack_of = {
        voter.node_id: facts.policy.audit.controller_racks.get(
            voter.node_id, facts.snapshot.racks.get(voter.node_id) or ""
        )
        for voter in quorum.voters
    }
    lost = [node_id for node_id, rack in rack_of.items() if not rack]
    rack, most = (
        Counter(rack for rack in rack_of.values() if rack).most_common(1)[0]
        if any(rack_of.values())
        else ("", 0)
    )
    if most > len(quorum.voters) - quorum.majority:
        is_all = most == len(quorum.voters)
        yield Sighting(
            _QUORUM,
            f"{'all' if is_all else most} of {pluralize(len(rack_of), 'voter')} are in rack {rack}: without that rack the "
            "cluster has no controller",
            evidence(
                ("controller", "rack"),
                sorted((node_id, its or "not known") for node_id, its in rack_of.items()),
            ),
            severity=Severity.WARNING if is_all else Severity.INFO,
        )
    elif lost:
        yield unknown(
            _QUORUM,
            f"the racks of controllers {join_ids(lost)}; name them in policy.audit.controller_racks",
        )


def _static(facts: AuditFacts) -> Iterator[Sighting]:
    quorum = facts.inspection.quorum
    if quorum is None:
        yield _not_told(facts)
    elif static := [voter.node_id for voter in quorum.voters if is_static(voter)]:
        yield Sighting(
            _QUORUM,
            f"{len(static)} of {pluralize(len(quorum.voters), 'voter')} {'is' if len(static) == 1 else 'are'} static: "
            f"{join_ids(static)}",
            fix=(_STATUS, "# Kafka 4.1 or later, on all nodes; there is no way back:", _FEATURE),
        )


def is_static(voter: QuorumVoter) -> bool:
    """Without a directory id (KIP-853)."""
    return not voter.directory_id or set(voter.directory_id) <= _ZERO


def _voters_lag(facts: AuditFacts) -> Iterator[Sighting]:
    yield from _laggards(facts, "quorum-voter-lags", of_voters=True)


def _observers_lag(facts: AuditFacts) -> Iterator[Sighting]:
    yield from _laggards(facts, "quorum-observer-lags", of_voters=False)


def _laggards(facts: AuditFacts, rule: str, *, of_voters: bool) -> Iterator[Sighting]:
    """Nodes that caught up longer ago than the threshold; a broker that is down is a finding of its
    own.
    """
    quorum = facts.inspection.quorum
    if quorum is None or quorum.now_ms is None:
        yield _no_clock(facts)
        return
    seconds = facts.threshold(rule, "seconds")
    down = set(facts.snapshot.registered_broker_ids) - set(facts.snapshot.live_broker_ids)
    for node in quorum.voters if of_voters else quorum.observers:
        if is_behind(node, quorum, seconds) and (of_voters or node.node_id not in down):
            name = "controller" if of_voters else "broker"
            yield Sighting(
                f"{name} {node.node_id}",
                f"{name} {node.node_id} {_how_late(node, quorum)}",
                _lags(quorum),
                fix=(_REPLICATION,),
            )


def _no_clock(facts: AuditFacts) -> Sighting:
    if facts.inspection.quorum is None:
        return _not_told(facts)
    return unknown(_QUORUM, "the quorum's leader tells no times; brokers before 3.3 do not")


def is_behind(node: QuorumVoter, quorum: Quorum, seconds: int) -> bool:
    """The leader caught up with itself; one that never fetched from it is behind."""
    if node.node_id == quorum.leader_id or quorum.now_ms is None:
        return False
    return node.last_caught_up_ms is None or quorum.now_ms - node.last_caught_up_ms > seconds * 1000


def _how_late(node: QuorumVoter, quorum: Quorum) -> str:
    missing = max(0, quorum.high_watermark - node.log_end_offset)
    records = f"{missing:,} records of metadata behind"
    if node.last_caught_up_ms is None or quorum.now_ms is None:
        return f"has not caught up with the leader ({quorum.leader_id}) since that one leads; {records}"
    ago = format_seconds((quorum.now_ms - node.last_caught_up_ms) / 1000)
    return f"caught up with the leader ({quorum.leader_id}) {ago} ago for the last time; {records}"


def _lags(quorum: Quorum) -> Evidence:
    rows = [
        (
            node.node_id,
            "leader"
            if node.node_id == quorum.leader_id
            else "voter"
            if node.is_voter
            else "observer",
            node.log_end_offset,
            "not known"
            if node.last_caught_up_ms is None or quorum.now_ms is None
            else f"{quorum.now_ms - node.last_caught_up_ms:,}",
        )
        for node in quorum.nodes
    ]
    return evidence(("node", "role", "log end offset", "ms behind"), rows)


def _no_margin(facts: AuditFacts) -> Iterator[Sighting]:
    quorum = facts.inspection.quorum
    if quorum is None or quorum.now_ms is None:
        yield _no_clock(facts)
        return
    seconds = facts.threshold("quorum-no-margin", "seconds")
    behind = [voter.node_id for voter in quorum.voters if is_behind(voter, quorum, seconds)]
    there = len(quorum.voters) - len(behind)
    if behind and there <= quorum.majority:
        yield Sighting(
            _QUORUM,
            f"{there} of {len(quorum.voters)} voters keep up and {quorum.majority} are needed: without one more, "
            f"nobody can create topics, elect leaders or change a config (behind: {join_ids(behind)})",
            _lags(quorum),
            fix=(_REPLICATION,),
        )


def _combined(facts: AuditFacts) -> Iterator[Sighting]:
    quorum = facts.inspection.quorum
    if quorum is None:
        yield _not_told(facts)
        return
    most = facts.threshold("controllers-combined", "most_brokers")
    brokers = facts.snapshot.registered_broker_ids
    both = [voter.node_id for voter in quorum.voters if voter.node_id in brokers]
    if both and len(brokers) > most:
        yield Sighting(
            "cluster",
            f"controllers {join_ids(both)} are brokers, too, in a cluster of {len(brokers)} brokers",
        )


RULES: Final = (
    Rule(
        "quorum-size",
        Area.CONTROLLERS,
        Severity.WARNING,
        title="Number of voters of the metadata quorum",
        why="The quorum works while more than half of the voters do: one voter stands no loss, an even number no more "
        "than one less, and above five each change waits for more disks.",
        how="Run three voters, or five.",
        source=_KRAFT,
        look=_size,
        needs=_NEEDS,
        thresholds={"most": 5},
    ),
    Rule(
        "quorum-one-rack",
        Area.CONTROLLERS,
        Severity.WARNING,
        title="Most voters in one rack",
        why="Without that rack there is no majority: brokers elsewhere go on serving, but no leader can be elected for "
        "what was led there.",
        how="Spread voters over three racks, so that any one may be lost.",
        source=_KRAFT,
        look=_one_rack,
        needs=_NEEDS,
    ),
    Rule(
        "quorum-static",
        Area.CONTROLLERS,
        Severity.INFO,
        title="Voters that are set in configs",
        why="A static voter whose machine is lost can only be replaced under the same id, and changing the set means a "
        "restart of every node with another controller.quorum.voters.",
        how="Where replacing controllers matters, go over to dynamic voters; read the documentation of your version "
        "first, for there is no way back.",
        source=_KIP_853,
        look=_static,
        needs=_NEEDS,
    ),
    Rule(
        "quorum-voter-lags",
        Area.CONTROLLERS,
        Severity.WARNING,
        title="Voters that do not keep up",
        why="A voter that is behind cannot take over at once, and counts for the majority in name only.",
        how="See whether it runs, and what its log and its disk say.",
        source=_KIP_836,
        look=_voters_lag,
        needs=_NEEDS,
        thresholds={"seconds": 10},
    ),
    Rule(
        "quorum-no-margin",
        Area.CONTROLLERS,
        Severity.CRITICAL,
        title="No voter to spare",
        why="With one more voter down the cluster has no controller: leaders of brokers that die are not replaced.",
        how="Bring back the voters that are behind before anything else is restarted.",
        source=_KRAFT,
        look=_no_margin,
        needs=_NEEDS,
        thresholds={"seconds": 10},
    ),
    Rule(
        "controllers-combined",
        Area.CONTROLLERS,
        Severity.WARNING,
        title="Controllers that are brokers in a large cluster",
        why="Load of clients slows the controller down, and neither can be restarted or scaled without the other.",
        how="Give the controllers machines of their own.",
        source=_KRAFT,
        look=_combined,
        needs=_NEEDS,
        thresholds={"most_brokers": 6},
    ),
    Rule(
        "quorum-observer-lags",
        Area.CONTROLLERS,
        Severity.WARNING,
        title="Brokers that do not keep up with the metadata",
        why="A broker that is behind serves old leaders and old configs to its clients.",
        how="See what its log says, and whether it reaches the controllers.",
        source=_KIP_836,
        look=_observers_lag,
        needs=_NEEDS,
        thresholds={"seconds": 10},
    ),
)
