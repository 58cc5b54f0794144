"""Controllers: how many voters there are, where they are, and which of them keep up.

    3 voters, one of them 40 s behind: one more, and nothing can be changed      # quorum-no-margin

All times are by the quorum leader's clock, which its response carries as the time when it caught up
with itself.

Limits: racks are known of controllers that are brokers as well, and of those that the policy names
(`controller_racks`); brokers before 3.3 report no times (KIP-836).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.outage import causes_among
from counterpoise.audit.rule import CheckResult, Need, evidence, rule, unknown
from counterpoise.model import subjects
from counterpoise.model.connectivity import VOTERS, QuorumCheck, VoterCheck
from counterpoise.model.finding import LOOK, Evidence
from counterpoise.model.inspection import InspectionItem, Quorum, QuorumNode
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_ids, join_names, pluralize, verb
from counterpoise.units import format_seconds

_UNSET_DIRECTORY_ID: Final = frozenset("0-A")  # characters of an id without a value, as text
_QUORUM_TOOL: Final = 'kafka-metadata-quorum.sh --bootstrap-server "$BOOTSTRAP" describe'
_STATUS: Final = f"{_QUORUM_TOOL} --status"
_REPLICATION: Final = f"{_QUORUM_TOOL} --replication"
_UPGRADE: Final = (
    'kafka-features.sh --bootstrap-server "$BOOTSTRAP" upgrade --feature kraft.version=1'
)
_KRAFT: Final = "https://kafka.apache.org/documentation/#kraft_deployment"
_WIKI: Final = "https://cwiki.apache.org/confluence/display/KAFKA/"
_KIP_853: Final = f"{_WIKI}KIP-853%3A+KRaft+Controller+Membership+Changes"
_KIP_836: Final = f"{_WIKI}KIP-836%3A+Expose+replication+information+of+the+cluster+metadata"


def _times_unknown() -> CheckResult:
    reason = "the quorum's leader reports no times; brokers before 3.3 do not"
    return unknown(reason, subjects.QUORUM)


def _ids_of(voters: Sequence[QuorumNode]) -> str:
    return join_ids([voter.node_id for voter in voters])


@rule(
    "quorum-no-leader",
    Severity.CRITICAL,
    title="Brokers that do not reach an active controller",
    why="Partitions that have a leader can be read and written. No leader is elected for the "
    "others, no topic, config or reassignment can be changed, no broker can join, and nothing says "
    "so to clients. Brokers forward a request to the active controller: where none of them gets an "
    "answer, the quorum has no leader, or all brokers are cut off from it. Where only some get "
    "none, it is a warning.",
    how="Start the voters that do not run, until more than half of them do. Where they run, check "
    "the network between them, and their logs.",
    source=_KRAFT,
    needs={Need.CONNECTIVITY},
    severities={Severity.WARNING},
)
def quorum_no_leader(facts: AuditFacts) -> Iterator[CheckResult]:
    quorum = facts.endpoints.quorum
    if quorum is None:
        return
    brokers = join_names(quorum.unanswered)
    if quorum.is_lost:
        listening = [voter for voter in quorum.voters if voter.is_listening]
        voters = "the state of the voters is not known"
        if quorum.voters:
            count = pluralize(len(quorum.voters), "voter")
            voters = f"{len(listening)} of {count} listen" + "".join(
                f", {voter.name}: {voter.detail}"
                for voter in quorum.voters
                if not voter.is_listening
            )
        yield CheckResult(
            subjects.QUORUM,
            "no broker reaches an active controller: the metadata quorum has no leader, or the "
            "brokers are cut off from it. Existing leaders are still read and written; elections, "
            "topics, configs and reassignments fail. "
            f"{brokers} respond, and got no answer from a controller within {quorum.seconds:g} s; "
            f"{voters}",
            evidence(
                ("voter", "address", "state"),
                [(_id_or_unknown(voter), voter.address, voter.detail) for voter in quorum.voters],
            ),
            fix=_start_voters(quorum),
        )
    else:
        for address in quorum.unanswered:
            yield CheckResult(
                subjects.endpoint(address),
                f"{address} gets no answer from the active controller within {quorum.seconds:g} s; "
                f"{join_names(quorum.answered)} do",
                fix=(f"# check the network between {address} and the controllers, and its log",),
                severity=Severity.WARNING,
            )


def _id_or_unknown(voter: VoterCheck) -> str:
    return "not known" if voter.node_id is None else str(voter.node_id)


def _start_voters(quorum: QuorumCheck) -> tuple[str, ...]:
    stopped = [voter.name for voter in quorum.voters if voter.is_listening is False]
    if stopped:
        return (
            f"# start {join_names(stopped)}: more than half of the voters have to run; the log of "
            "each says why it ended",
        )
    if quorum.voters:
        return (
            "# the voters' logs say why none is elected; check the network between them and to "
            "the brokers",
        )
    return (f"# {VOTERS} in server.properties of any broker names the voters: start them",)


@rule(
    "quorum-size",
    Severity.WARNING,
    title="Number of voters of the metadata quorum",
    why="The quorum works while more than half of the voters do: one voter survives no failure, "
    "two no failure of either, a larger even number no more failures than one voter less would, "
    "and above five each change waits for more disks. Where the only voter is the only broker, "
    "too, it is an info: without that broker there is nothing to control.",
    how="Run three voters, or five.",
    source=_KRAFT,
    needs={InspectionItem.QUORUM},
    severities={Severity.CRITICAL, Severity.INFO},
    thresholds={"most": 5},
)
def quorum_size(facts: AuditFacts, *, most: int) -> Iterator[CheckResult]:
    quorum = facts.quorum
    count, ids = len(quorum.voters), _ids_of(quorum.voters)
    if count == 1:
        summary = (
            f"controller {ids} is the only voter: without it nothing can be changed, and its disk "
            "has the only copy of the metadata"
        )
        is_only_broker = facts.snapshot.registered_broker_ids == (quorum.voters[0].node_id,)
        severity = Severity.INFO if is_only_broker else Severity.CRITICAL
    elif count == 2:
        summary = (
            f"2 voters ({ids}) survive the loss of none: without either of them nothing can be "
            "changed, so two are worse than one"
        )
        severity = Severity.CRITICAL
    elif count > most:
        summary = (
            f"{count} voters ({ids}), more than {most}: each change waits for {quorum.majority} "
            "of them"
        )
        severity = Severity.INFO
    elif count % 2 == 0:
        spare = count - quorum.majority
        summary = (
            f"{count} voters ({ids}) survive the loss of {spare}, no more than "
            f"{pluralize(count - 1, 'voter')} would"
        )
        severity = Severity.WARNING
    else:
        return
    yield CheckResult(subjects.QUORUM, summary, fix=(LOOK, _STATUS), severity=severity)


@rule(
    "quorum-one-rack",
    Severity.WARNING,
    title="Most voters in one rack",
    why="Without that rack there is no majority: brokers elsewhere go on serving, but no new "
    "leader can be elected for the partitions that were led there.",
    how="Spread voters over three racks, so that any one of them may be lost.",
    source=_KRAFT,
    needs={InspectionItem.QUORUM, Need.RACKS},
    severities={Severity.INFO},
)
def quorum_one_rack(facts: AuditFacts) -> Iterator[CheckResult]:
    quorum = facts.quorum
    voter_count = len(quorum.voters)
    if voter_count < 2:
        return
    racks = {voter.node_id: _rack_of(voter, facts) for voter in quorum.voters}
    without_rack = [node_id for node_id, rack in racks.items() if not rack]
    voters_by_rack = Counter(rack for rack in racks.values() if rack)
    rack, voters_in_rack = voters_by_rack.most_common(1)[0] if voters_by_rack else ("", 0)
    if voters_in_rack > voter_count - quorum.majority:
        is_all = voters_in_rack == voter_count
        rows = sorted((node_id, rack or "not known") for node_id, rack in racks.items())
        yield CheckResult(
            subjects.QUORUM,
            f"{'all' if is_all else voters_in_rack} of {pluralize(voter_count, 'voter')} are in "
            f"rack {rack}: without that rack the cluster has no controller",
            evidence(("controller", "rack"), rows),
            severity=Severity.WARNING if is_all else Severity.INFO,
        )
    elif without_rack:
        yield unknown(
            f"the racks of controllers {join_ids(without_rack)}; "
            "name them in policy.audit.controller_racks",
            subjects.QUORUM,
        )


def _rack_of(voter: QuorumNode, facts: AuditFacts) -> str:
    """Return the rack from the policy, else that of the broker with this id; "" if not known."""
    broker_rack = facts.snapshot.racks.get(voter.node_id) or ""
    return facts.policy.audit.controller_racks.get(voter.node_id, broker_rack)


@rule(
    "quorum-static",
    Severity.INFO,
    title="Voters that are set in configs",
    why="A static voter whose machine is lost can only be replaced under the same id, and changing "
    "the set means a restart of every node with another controller.quorum.voters.",
    how="Where replacing controllers matters, go over to dynamic voters; read the documentation of "
    "your version first, since there is no way back.",
    source=_KIP_853,
    needs={InspectionItem.QUORUM},
)
def quorum_static(facts: AuditFacts) -> Iterator[CheckResult]:
    quorum = facts.quorum
    static_voters = [voter for voter in quorum.voters if is_static(voter)]
    if static_voters:
        count = len(static_voters)
        yield CheckResult(
            subjects.QUORUM,
            f"{count} of {pluralize(len(quorum.voters), 'voter')} {verb(count, 'is', 'are')} "
            f"static: {_ids_of(static_voters)}",
            fix=("# Kafka 4.1 or later, on all nodes; there is no way back:", _UPGRADE),
        )


def is_static(voter: QuorumNode) -> bool:
    """Return whether the voter has no directory id (KIP-853)."""
    return not voter.directory_id or set(voter.directory_id) <= _UNSET_DIRECTORY_ID


@rule(
    "quorum-voter-lags",
    Severity.WARNING,
    title="Voters that do not keep up",
    why="A voter that is behind cannot take over at once: it is part of the majority in name only.",
    how="Check whether it is running, then its log and its disk.",
    source=_KIP_836,
    needs={InspectionItem.QUORUM},
    thresholds={"seconds": 10},
)
def quorum_voter_lags(facts: AuditFacts, *, seconds: int) -> Iterator[CheckResult]:
    quorum = facts.quorum
    if quorum.now_ms is None:
        yield _times_unknown()
        return
    for voter in quorum.voters:
        if is_behind(voter, quorum, seconds):
            result = _lag(subjects.controller(voter.node_id), voter, quorum)
            yield replace(result, causes=causes_among(facts, [voter.node_id]))


@rule(
    "quorum-no-margin",
    Severity.CRITICAL,
    title="No voter to spare",
    why="With one more voter down the cluster has no controller: leaders on brokers that fail are "
    "not replaced.",
    how="Bring back the voters that are behind before anything else is restarted.",
    source=_KRAFT,
    needs={InspectionItem.QUORUM},
    thresholds={"seconds": 10},
)
def quorum_no_margin(facts: AuditFacts, *, seconds: int) -> Iterator[CheckResult]:
    quorum = facts.quorum
    if quorum.now_ms is None:
        yield _times_unknown()
        return
    behind = [voter for voter in quorum.voters if is_behind(voter, quorum, seconds)]
    voter_count = len(quorum.voters)
    current_count = voter_count - len(behind)
    if behind and current_count <= quorum.majority:
        yield CheckResult(
            subjects.QUORUM,
            f"{current_count} of {voter_count} voters keep up and {quorum.majority} are needed: "
            "with one less, nobody can create topics, elect leaders or change a config "
            f"(behind: {_ids_of(behind)})",
            _lag_table(quorum),
            fix=(LOOK, _REPLICATION),
            causes=causes_among(facts, [voter.node_id for voter in behind]),
        )


@rule(
    "controllers-combined",
    Severity.WARNING,
    title="Controllers that are brokers in a large cluster",
    why="Load of clients slows the controller down, and neither can be restarted or scaled without "
    "the other.",
    how="Give the controllers machines of their own.",
    source=_KRAFT,
    needs={InspectionItem.QUORUM},
    thresholds={"most_brokers": 6},
)
def controllers_combined(facts: AuditFacts, *, most_brokers: int) -> Iterator[CheckResult]:
    quorum = facts.quorum
    broker_ids = facts.snapshot.registered_broker_ids
    combined = [voter for voter in quorum.voters if voter.node_id in broker_ids]
    if combined and len(broker_ids) > most_brokers:
        yield CheckResult(
            subjects.CLUSTER,
            f"controllers {_ids_of(combined)} are brokers as well, in a cluster of "
            f"{len(broker_ids)} brokers",
        )


@rule(
    "quorum-observer-lags",
    Severity.WARNING,
    title="Brokers that do not keep up with the metadata",
    why="A broker that is behind gives old leaders and old configs to its clients.",
    how="Check its log, and whether it can connect to the controllers.",
    source=_KIP_836,
    needs={InspectionItem.QUORUM},
    thresholds={"seconds": 10},
)
def quorum_observer_lags(facts: AuditFacts, *, seconds: int) -> Iterator[CheckResult]:
    """Yield live brokers that lag; a broker that is down is a finding of `broker-fenced`."""
    quorum = facts.quorum
    if quorum.now_ms is None:
        yield _times_unknown()
        return
    snapshot = facts.snapshot
    down_broker_ids = set(snapshot.registered_broker_ids) - set(snapshot.live_broker_ids)
    for observer in quorum.observers:
        if observer.node_id not in down_broker_ids and is_behind(observer, quorum, seconds):
            yield _lag(subjects.broker(observer.node_id), observer, quorum)


def is_behind(node: QuorumNode, quorum: Quorum, seconds: int) -> bool:
    """Return whether the node caught up with the leader longer ago than `seconds`, or never."""
    if node.node_id == quorum.leader_id or quorum.now_ms is None:
        return False
    behind_ms = _behind_ms(node, quorum)
    return behind_ms is None or behind_ms > seconds * 1000


def _lag(subject: str, node: QuorumNode, quorum: Quorum) -> CheckResult:
    missing_records = max(0, quorum.high_watermark - node.log_end_offset)
    leader = f"the leader ({quorum.leader_id})"
    behind_ms = _behind_ms(node, quorum)
    if behind_ms is None:
        when = f"has not caught up with {leader} since that one leads"
    else:
        when = f"caught up with {leader} {format_seconds(behind_ms / 1000)} ago for the last time"
    return CheckResult(
        subject,
        f"{subject} {when}; {missing_records:,} records of metadata behind",
        _lag_table(quorum),
        fix=(LOOK, _REPLICATION),
    )


def _lag_table(quorum: Quorum) -> Evidence:
    rows = []
    for node in quorum.nodes:
        behind_ms = _behind_ms(node, quorum)
        behind = "not known" if behind_ms is None else f"{behind_ms:,}"
        rows.append((node.node_id, _role(node, quorum), node.log_end_offset, behind))
    return evidence(("node", "role", "log end offset", "ms behind"), rows)


def _role(node: QuorumNode, quorum: Quorum) -> str:
    if node.node_id == quorum.leader_id:
        return "leader"
    return "voter" if node.is_voter else "observer"


def _behind_ms(node: QuorumNode, quorum: Quorum) -> int | None:
    """Return how long ago the node caught up with the leader; None where it is not known."""
    if node.last_caught_up_ms is None or quorum.now_ms is None:
        return None
    return quorum.now_ms - node.last_caught_up_ms
