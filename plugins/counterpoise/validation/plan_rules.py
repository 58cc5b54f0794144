"""The rules that a plan must keep, whoever made it. Small functions; `RULES` is all of them.

    find_violations(plan, snapshot, policy)    # () means that the plan may be shown for approval

A rule yields one complaint per offending subject. Its name is the function's name. A new rule is a
function here and its line in `RULES`.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

import numpy as np
import pyarrow as pa

from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.columns import Ints, flat_lists, numbers_of
from counterpoise.model.constraints import matching
from counterpoise.model.plan import BrokerFigure, Move, RebalancePlan
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import Goal
from counterpoise.model.tables import rows_of
from counterpoise.model.words import list_brokers, pluralize, verb
from counterpoise.units import format_bytes
from counterpoise.validation.violation import (
    CheckedPlan,
    Complaint,
    PartitionRow,
    Violation,
    about,
    rows_at,
)

# -- Rules about the plan as a document: it belongs to this snapshot and describes it truly


def of_this_snapshot(checked: CheckedPlan) -> Iterator[Complaint]:
    """Require that the plan was made of this cluster and this snapshot, with this policy."""
    plan, snapshot = checked.plan, checked.snapshot
    pairs = (
        ("cluster", plan.cluster, snapshot.cluster),
        ("cluster id", plan.cluster_id, snapshot.cluster_id),
        ("snapshot", plan.snapshot_id, snapshot.snapshot_id),
        ("policy", plan.policy_digest, checked.policy.digest),
    )
    for what, planned, present in pairs:
        if planned != present:
            message = f"the plan is for {what} {planned!r}, not {present!r}; make a new plan"
            yield Complaint("plan", message)


def partition_named_once(checked: CheckedPlan) -> Iterator[Complaint]:
    named: set[TopicPartition] = set()
    for move in checked.plan.moves:
        if move.topic_partition in named:
            yield about(move, "is in the plan more than once")
        named.add(move.topic_partition)


def known_partition(checked: CheckedPlan) -> Iterator[Complaint]:
    for move in checked.plan.moves:
        if move.topic_partition not in checked.rows:
            yield about(
                move,
                "is not in the snapshot; was its topic deleted?",
            )


def same_topic(checked: CheckedPlan) -> Iterator[Complaint]:
    """Require the same topic id: one that was deleted and made anew has another (KIP-516)."""
    for move, _ in checked.known_moves:
        present = checked.snapshot.topic_ids.get(move.topic) or ""
        if move.topic_id != present:
            what = (
                f"is of the topic with id {present!r}, the plan has {move.topic_id!r}: the topic "
                "was deleted and made anew"
            )
            yield about(move, what)


def before_values_hold(checked: CheckedPlan) -> Iterator[Complaint]:
    for move, row in checked.known_moves:
        pairs = (
            ("replicas", list(move.replicas_before), list(row.replicas)),
            ("leader", move.leader_before, -1 if row.leader is None else row.leader),
            ("size", move.size_bytes, row.size_bytes or 0),
            ("rate", move.bytes_in_per_second, row.bytes_in_per_second),
        )
        for what, planned, present in pairs:
            if planned != present:
                complaint = f"has {what} {present} in the snapshot, {planned} in the plan"
                yield about(move, complaint)


def changes_something(checked: CheckedPlan) -> Iterator[Complaint]:
    for move, row in checked.known_moves:
        keeps_replicas = bool(move.replicas_after) and move.replicas_after == row.replicas
        if keeps_replicas and row.leader == move.replicas_after[0]:
            yield about(move, "would stay as it is, so the plan must not name it")


def reason_when_empty(checked: CheckedPlan) -> Iterator[Complaint]:
    if checked.plan.is_empty and not checked.plan.reason:
        yield Complaint(
            "plan",
            "the plan moves nothing and gives no reason",
        )


# -- Rules about replica sets: as many as wanted, on live brokers and enough racks, with every
# in-sync replica kept that can be kept


def no_broker_twice(checked: CheckedPlan) -> Iterator[Complaint]:
    for move in checked.plan.moves:
        if len(set(move.replicas_after)) != len(move.replicas_after):
            what = f"would have a broker twice: {list_brokers(move.replicas_after)}"
            yield about(move, what)


def replication_factor_kept(checked: CheckedPlan) -> Iterator[Complaint]:
    """Require as many replicas as before, or as the goal asks for; there, none moves."""
    is_goal = checked.plan.goal is Goal.REPLICATION_FACTOR
    for move, row in checked.known_moves:
        number, held = len(move.replicas_after), len(row.replicas)
        wanted = checked.plan.replication_factor if is_goal else held
        if number != wanted and not (is_goal and _is_as_near_as_can_be(checked, move, row)):
            what = f"has {held} replicas and would have {number}, not {wanted}"
            yield about(move, what)
        elif is_goal and move.adding and move.removing:
            what = (
                f"would move from {list_brokers(move.removing)} to {list_brokers(move.adding)}; "
                "this goal only adds or only removes replicas"
            )
            yield about(move, what)


def _is_as_near_as_can_be(checked: CheckedPlan, move: Move, row: PartitionRow) -> bool:
    """Whether the number of replicas is wrong only because no other broker may receive a replica,
    because goal repair has to come first, or because none may be removed.

    A budget may leave some partitions for later.
    """
    wanted = checked.plan.replication_factor or 0
    held = len(row.replicas)
    number = len(move.replicas_after)
    if checked.plan.deferred.partitions:
        return min(held, wanted) <= number <= max(held, wanted)
    if number == held < wanted and checked.is_left_to_repair(row):
        return True
    if held <= number < wanted:
        return set(checked.able_to_receive(move)) <= set(move.replicas_after)
    if not wanted < number <= held:
        return False
    one_fewer = number - 1
    max_in_sync, _ = _max_kept(checked, row, one_fewer)
    return max_in_sync < min(len(_in_sync(checked, row)), one_fewer)


def targets_are_live(checked: CheckedPlan) -> Iterator[Complaint]:
    """Require live targets: KRaft accepts fenced targets (it only checks that they are registered),
    so we check.
    """
    registered = set(checked.snapshot.registered_broker_ids)
    for move in checked.plan.moves:
        for broker_id in move.adding:
            if broker_id not in checked.live:
                why = "is not live" if broker_id in registered else "is not registered"
                yield about(move, f"would go to broker {broker_id}, which {why}")


def leaders_are_live(checked: CheckedPlan) -> Iterator[Complaint]:
    """Require a live first replica: it is elected in the end, which needs a live broker."""
    for move in checked.plan.moves:
        if move.replicas_after and move.replicas_after[0] not in checked.live:
            what = f"would be led by broker {move.replicas_after[0]}, which is not live"
            yield about(move, what)


def racks_not_worse(checked: CheckedPlan) -> Iterator[Complaint]:
    """Require that no partition has more pairs of replicas within a rack than before, unless there
    are fewer replicas, or no broker of another rack can receive one.

    Four replicas on two racks have two pairs where they stand 2 + 2, and three where they stand
    3 + 1.
    """
    for move, row in checked.known_moves:
        number, held = len(move.replicas_after), len(row.replicas)
        before = _pairs_in_racks(checked, row.replicas)
        after = _pairs_in_racks(checked, move.replicas_after)
        if number < held:
            fewest = -_max_kept(checked, row, number)[1]
        elif after > before:
            fewest = _fewest_pairs(checked, move, row)
        else:
            continue
        if after > fewest:
            pairs = pluralize(after, "pair")
            what = f"would have {pairs} of replicas in the same rack, where {fewest} would do"
            yield about(move, what)


def _fewest_pairs(checked: CheckedPlan, move: Move, row: PartitionRow) -> int:
    """Return the fewest pairs in the same rack, where what the move adds may go anywhere else."""
    racks = checked.snapshot.racks
    kept = [b for b in move.replicas_after if b in row.replicas]
    stacks = Counter(racks.get(b) for b in kept)
    room = Counter(racks.get(b) for b in set(_able_to_hold(checked, move, row)) - set(kept))
    for _ in move.adding:
        lowest = min((rack for rack in room if room[rack]), key=lambda rack: stacks[rack])
        stacks[lowest] += 1
        room[lowest] -= 1
    return sum(count * (count - 1) // 2 for count in stacks.values())


def _able_to_hold(checked: CheckedPlan, move: Move, row: PartitionRow) -> list[int]:
    """Return brokers that have a replica and keep it, and those in scope with room for one."""
    allowed = checked.allowed_by_topic[move.topic]
    keeping = [b for b in row.replicas if b not in checked.leaving and b in allowed]
    return [*checked.able_to_receive(move), *move.replicas_after, *keeping]


def nothing_under_reassignment(checked: CheckedPlan) -> Iterator[Complaint]:
    """Require that nothing is moving: a second request would replace the first one (KIP-455)."""
    for move, row in checked.known_moves:
        if row.is_moving:
            yield about(move, "is being reassigned already")


def led_by_somebody(checked: CheckedPlan) -> Iterator[Complaint]:
    """Require a leader: new replicas copy from it; without one a move never ends."""
    for move, row in checked.known_moves:
        if checked.leader_of(row) is None:
            yield about(move, "is offline: it has no leader to copy from")


def min_isr_reachable(checked: CheckedPlan) -> Iterator[Complaint]:
    """Require enough replicas: with fewer replicas than min.insync.replicas, producers with
    acks=all are refused.

    Kafka lowers a replication factor below it without a warning. A partition that has too few
    already may move.
    """
    min_isr_by_topic = dict(rows_of(checked.snapshot.topics, "topic", "min_insync_replicas"))
    for move, row in checked.known_moves:
        min_isr = min_isr_by_topic.get(move.topic) or 0
        number = len(move.replicas_after)
        if number < min(min_isr, len(row.replicas)):
            what = f"would have {number} replicas, fewer than min.insync.replicas = {min_isr}"
            yield about(move, what)


def in_sync_replicas_kept(checked: CheckedPlan) -> Iterator[Complaint]:
    """Require that, where replicas are removed, in-sync ones are kept: as many as fit the smaller
    number.
    """
    for move, row in checked.known_moves:
        in_sync, number = _in_sync(checked, row), len(move.replicas_after)
        kept, needed = len(in_sync & set(move.replicas_after)), min(len(in_sync), number)
        if number < len(row.replicas) and kept < needed:
            holding = list_brokers(sorted(in_sync))
            what = f"would keep {kept} of its in-sync replicas on {holding}, not {needed}"
            yield about(move, what)


def _in_sync(checked: CheckedPlan, row: PartitionRow) -> frozenset[int]:
    """Return the live in-sync replicas; all live ones where the snapshot has no ISR."""
    return frozenset(row.replicas if row.isr is None else row.isr) & checked.live


def _max_kept(checked: CheckedPlan, row: PartitionRow, number: int) -> tuple[int, int]:
    """Return how many in-sync replicas can be kept when `number` replicas of a partition stay, and
    then with how few pairs of them in the same rack, as a negative number.

    Return (-1, -held x held) where none may be removed.

    Brokers out of scope keep their replicas, and none of them becomes the leader instead of a
    broker that gives up its replica. Example: replicas 1, 2, 3 on racks a, a, b, all in sync, two
    stay: (2, 0), by removing 1 or 2.
    """
    in_scope = checked.plan.scope.may_touch_broker
    in_sync = _in_sync(checked, row)
    removable = [b for b in row.replicas if in_scope(b)]
    best = (-1, -(len(row.replicas) ** 2))
    for removed in combinations(removable, len(row.replicas) - number):
        kept = [b for b in row.replicas if b not in removed]
        keeps_leader = checked.leader_of(row) not in removed
        if keeps_leader or any(in_scope(b) and b in checked.live for b in kept):
            best = max(best, (len(in_sync.intersection(kept)), -_pairs_in_racks(checked, kept)))
    return best


def _pairs_in_racks(checked: CheckedPlan, replicas: Iterable[int]) -> int:
    stacks = Counter(checked.snapshot.racks.get(broker_id) for broker_id in replicas)
    return sum(count * (count - 1) // 2 for count in stacks.values())


# -- Rules of single goals: what each may move, and what must hold in the end


def old_brokers_receive_nothing(checked: CheckedPlan) -> Iterator[Complaint]:
    if checked.plan.goal is not Goal.ADD_BROKERS:
        return
    for move in checked.plan.moves:
        if old := sorted(set(move.adding) - checked.named):
            what = (
                f"would add replicas on {list_brokers(old)}; only the added brokers may receive any"
            )
            yield about(move, what)


def removed_brokers_end_empty(checked: CheckedPlan) -> Iterator[Complaint]:
    """Require that no replica stays but those that the request, or a budget, leaves out, and those
    of partitions that goal repair has to come to first: with a replica on another dead broker.
    These may be led by another replica meanwhile.
    """
    if checked.plan.goal is not Goal.REMOVE_BROKERS or checked.plan.deferred.partitions:
        return
    for move, row in checked.known_moves:
        staying = sorted(checked.named & set(move.replicas_after))
        if staying and not checked.is_left_to_repair(row):
            what = f"would keep a replica on {list_brokers(staying)}, which the plan is to empty"
            yield about(move, what)
    for name, row in _rows_with(checked, checked.named).items():
        is_out_of_scope = name.topic in checked.topics_out_of_scope
        is_named = name in checked.rows
        if not is_named and not is_out_of_scope and not checked.is_left_to_repair(row):
            message = (
                f"{name} has a replica on a broker that the plan is to empty, and is not in the "
                "plan"
            )
            yield Complaint(str(name), message)


def only_drained_replicas_move(checked: CheckedPlan) -> Iterator[Complaint]:
    if checked.plan.goal is not Goal.REMOVE_BROKERS:
        return
    for move in checked.plan.moves:
        if others := sorted(set(move.removing) - checked.named):
            what = (
                f"would lose its replica on {list_brokers(others)}; only those on removed "
                "brokers may move"
            )
            yield about(move, what)


def replaced_in_place(checked: CheckedPlan) -> Iterator[Complaint]:
    """Require the replica lists of before with new ids, and none of the old ones elsewhere."""
    if checked.plan.goal is not Goal.REPLACE_BROKERS:
        return
    new_ids = dict(zip(checked.plan.broker_ids, checked.plan.new_broker_ids, strict=False))
    for move in checked.plan.moves:
        wanted = tuple(new_ids.get(one, one) for one in move.replicas_before)
        if move.replicas_after != wanted:
            yield about(move, f"would be {list(move.replicas_after)}, not {list(wanted)}")
    if checked.plan.deferred.partitions:
        return
    for name, row in _rows_with(checked, checked.named).items():
        may_change = _may_change(checked, row) and not checked.is_left_to_repair(row)
        if may_change and name not in checked.rows:
            yield Complaint(str(name), f"{name} keeps a broker that is replaced")


def relieved_below(checked: CheckedPlan) -> Iterator[Complaint]:
    """Require that replicas leave only brokers with a disk above the mark, in place, and that each
    disk whose replicas or figures tell so ends below it: those that give, and those that receive.
    """
    plan, mark = checked.plan, checked.plan.below_percent
    if plan.goal is not Goal.RELIEF or mark is None:
        return
    above = {disk.broker_id for disk in checked.disks if disk.is_at_least(mark, disk.used_bytes)}
    given: Counter[int] = Counter()
    for move, row in checked.known_moves:
        pairs = zip(move.replicas_before, move.replicas_after, strict=False)
        changed = [(before, after) for before, after in pairs if before != after]
        given.update({before: row.size_bytes or 0 for before, _ in changed})
        if len(changed) != 1 or changed[0][0] not in above:
            yield about(move, f"is to give one replica of a disk above {mark} % another place")
    for disk in checked.disks:
        broker_id = disk.broker_id
        gives, receives = given[broker_id], checked.arriving[broker_id]
        used = disk.used_bytes + receives
        if broker_id in above and not plan.deferred.partitions and not disk.is_one_of_several:
            used -= gives
        elif not receives:
            continue
        is_concerned = broker_id in checked.live and plan.scope.may_touch_broker(broker_id)
        if is_concerned and disk.is_at_least(mark, used):
            message = f"a disk of broker {broker_id} would not be below {mark} %"
            yield Complaint(f"broker {broker_id}", message)


def only_dead_replicas_move(checked: CheckedPlan) -> Iterator[Complaint]:
    if checked.plan.goal is not Goal.REPAIR:
        return
    for move in checked.plan.moves:
        if alive := sorted(set(move.removing) & checked.live):
            what = (
                f"would lose its live replica on {list_brokers(alive)}; only dead ones may be "
                "replaced"
            )
            yield about(move, what)


def leaders_move_no_bytes(checked: CheckedPlan) -> Iterator[Complaint]:
    """Require that goals about leaders reorder replicas, and leave their sets as they are."""
    if checked.plan.goal not in (Goal.LEADERS, Goal.DEMOTE_BROKERS):
        return
    for move in checked.plan.moves:
        if move.adding or move.removing:
            what = "would change its set of replicas; this goal changes their order only"
            yield about(move, what)


def demoted_brokers_lead_nothing(checked: CheckedPlan) -> Iterator[Complaint]:
    """Require that they lead only what no other replica can lead.

    Nor are they the first replica: Kafka's own leader rebalance would make them leaders again.
    """
    if checked.plan.goal is not Goal.DEMOTE_BROKERS:
        return
    for move, row in checked.known_moves:
        if move.replicas_after[0] in checked.named and (able := _able_to_lead(checked, row)):
            leader = move.replicas_after[0]
            what = f"would be led by broker {leader}, though {list_brokers(able)} could lead it"
            yield about(move, what)
    if checked.plan.deferred.partitions:
        return
    for name, row in _rows_with(checked, checked.named).items():
        leads = checked.named & {checked.leader_of(row), row.replicas[0]}
        if (
            name not in checked.rows
            and leads
            and _may_change(checked, row)
            and (able := _able_to_lead(checked, row))
        ):
            message = (
                f"{name} stays with broker {min(leads)}, though {list_brokers(able)} could lead it"
            )
            yield Complaint(str(name), message)


def _able_to_lead(checked: CheckedPlan, row: PartitionRow) -> list[int]:
    """Return the replicas that could lead instead of the demoted brokers."""
    in_sync = row.replicas if row.isr is None else row.isr
    able = [b for b in row.replicas if b in in_sync and b in checked.live - checked.named]
    return [b for b in able if checked.plan.scope.may_touch_broker(b)]


def _may_change(checked: CheckedPlan, row: PartitionRow) -> bool:
    """Whether the request and the state of the partition let a plan name it."""
    leader = checked.leader_of(row)
    if row.is_moving or leader is None or not checked.plan.scope.may_touch_broker(leader):
        return False
    return row.topic not in checked.topics_out_of_scope and not matching(
        checked.policy.excluded_topics, [row.topic]
    )


def _rows_with(
    checked: CheckedPlan, broker_ids: Collection[int]
) -> Mapping[TopicPartition, PartitionRow]:
    """Return the partitions with a replica on any of the brokers."""
    row_of_replica, replica_ids = flat_lists(checked.snapshot.partitions["replicas"])
    is_on_these = np.isin(replica_ids, sorted(broker_ids))
    return rows_at(checked.snapshot.partitions, pa.array(np.unique(row_of_replica[is_on_these])))


# -- Rules about limits: topics and brokers left out, the budget of a plan, the room on a disk


def excluded_topics_untouched(checked: CheckedPlan) -> Iterator[Complaint]:
    excluded = matching(checked.policy.excluded_topics, {move.topic for move in checked.plan.moves})
    for move in checked.plan.moves:
        if move.topic in excluded:
            yield about(move, "is of a topic that the policy excludes")


def constraints_kept(checked: CheckedPlan) -> Iterator[Complaint]:
    """Require that replicas go only to brokers of their topic's set, that take new ones, and that
    no broker gets more than it may hold.
    """
    constraints = checked.constraints
    closed = set(constraints.no_new_replicas_on)
    for move in checked.plan.moves:
        if outside := sorted(
            set(move.adding) & checked.live - checked.allowed_by_topic[move.topic]
        ):
            what = f"would add replicas on {list_brokers(outside)}, outside of its broker set"
            yield about(move, what)
        if added := sorted(closed & set(move.adding)):
            what = f"would add replicas on {list_brokers(added)}; no_new_replicas_on has them"
            yield about(move, what)
    max_count = constraints.max_replicas_per_broker
    for figure in checked.plan.figures:
        if max_count is not None and figure.replicas_after > max(max_count, figure.replicas_before):
            message = (
                f"broker {figure.broker_id} would hold {figure.replicas_after} replicas, more than "
                f"max_replicas_per_broker {max_count}"
            )
            yield Complaint(f"broker {figure.broker_id}", message)


def scope_respected(checked: CheckedPlan) -> Iterator[Complaint]:
    """Require that topics outside the request's scope stay as they are; brokers outside of it gain,
    lose and begin to lead nothing.
    """
    for move, row in checked.known_moves:
        if move.topic in checked.topics_out_of_scope:
            yield about(move, "is of a topic outside the request's scope")
        if outside := _touched_outside(checked, move, row):
            has = verb(len(outside), "holds or leads", "hold or lead")
            what = f"would change what {list_brokers(outside)} {has}, outside the request's scope"
            yield about(move, what)


def _touched_outside(checked: CheckedPlan, move: Move, row: PartitionRow) -> list[int]:
    touched = {*move.adding, *(b for b in move.removing if b not in checked.leaving)}
    if move.replicas_after[0] != checked.leader_of(row):
        touched.add(move.replicas_after[0])
    return sorted(b for b in touched if not checked.plan.scope.may_touch_broker(b))


def budget_respected(checked: CheckedPlan) -> Iterator[Complaint]:
    """Require that the plan copies no more than its budget."""
    plan, budget = checked.plan, checked.plan.budget
    if budget.max_bytes is not None and plan.copied_bytes > budget.max_bytes:
        message = (
            f"the plan copies {plan.copied_bytes} bytes, more than its budget of {budget.max_bytes}"
        )
        yield Complaint("plan", message)


def disks_not_overfilled(checked: CheckedPlan) -> Iterator[Complaint]:
    """Require that all that a broker receives fits on its fullest disk below the policy's limit,
    with nothing removed from it yet.

    A broker chooses the log dir of a new replica by the number of replicas there, not by room
    (KIP-113).
    """
    for broker_id, room_afterwards in sorted(checked.room_left.items()):
        received_bytes = checked.arriving[broker_id]
        room_bytes = max(0, room_afterwards + received_bytes)
        if received_bytes > room_bytes:
            message = (
                f"broker {broker_id} would receive {format_bytes(received_bytes)}, but a log dir "
                f"of it has room for {format_bytes(room_bytes)} below "
                f"{checked.policy.disk_limit_percent} %"
            )
            yield Complaint(f"broker {broker_id}", message)


# -- The rule about a plan's figures: counts them anew, from the snapshot and the moves alone
#
#     expected_figures(checked)      # a CountedFigure per registered broker, by id
#
# Example: broker 1 holds 3 replicas of 10 bytes each, broker 4 is empty, and one move takes a
# replica from 1 to 4. Expected are for broker 1 `replicas_after` 2 and `bytes_after` 20, for broker
# 4 1 and 10, and `bytes_peak` 30 on broker 1: its replica goes only after the new one has arrived.


@dataclass(frozen=True, slots=True)
class CountedFigure:
    """What of a plan's figure can be counted; the best possible is the planner's to say.

    Bytes-in is None where the snapshot knows no rate at all; single unknown rates count as 0.
    """

    broker_id: int
    rack: str | None
    leaders_before: int
    leaders_after: int
    replicas_before: int
    replicas_after: int
    bytes_before: int
    bytes_after: int
    bytes_peak: int
    bytes_in_before: int | None
    bytes_in_after: int | None
    network_in_before: int | None
    network_in_after: int | None

    @classmethod
    def of(cls, figure: BrokerFigure) -> "CountedFigure":
        return cls(*(getattr(figure, name) for name in cls.__slots__))

    def difference(self, stated: "CountedFigure") -> str:
        """Return what a plan states otherwise, like "leaders_after 4 instead of 5"."""
        pairs = ((name, getattr(stated, name), getattr(self, name)) for name in self.__slots__)
        return "; ".join(
            f"{name} {stated_value} instead of {counted_value}"
            for name, stated_value, counted_value in pairs
            if stated_value != counted_value
        )


@dataclass(slots=True)
class _Loads:
    """What each broker leads and holds, by its id."""

    leaders: Counter[int]
    replicas: Counter[int]
    held_bytes: Counter[int]
    bytes_in: Counter[int]
    network_in: Counter[int]

    def copy(self) -> "_Loads":
        return _Loads(
            self.leaders.copy(),
            self.replicas.copy(),
            self.held_bytes.copy(),
            self.bytes_in.copy(),
            self.network_in.copy(),
        )


def figures_agree(checked: CheckedPlan) -> Iterator[Complaint]:
    """Require that what the plan says of every broker is what its moves come to, counted anew."""
    expected = expected_figures(checked)
    stated_ids = [figure.broker_id for figure in checked.plan.figures]
    if stated_ids != [figure.broker_id for figure in expected]:
        message = (
            "the plan must have figures for each registered broker, in the order of ids; it has "
            f"them for {list_brokers(stated_ids)}"
        )
        yield Complaint("plan", message)
        return
    for planned, counted in zip(checked.plan.figures, expected, strict=True):
        stated = CountedFigure.of(planned)
        if stated.network_in_before is None and stated.network_in_after is None:
            # made before it was told
            counted = replace(counted, network_in_before=None, network_in_after=None)
        if stated != counted:
            subject = f"broker {planned.broker_id}"
            message = (
                f"the plan's figures of {subject} are not what snapshot and moves come to: "
                f"{counted.difference(stated)}"
            )
            yield Complaint(subject, message)


def expected_figures(checked: CheckedPlan) -> tuple[CountedFigure, ...]:
    """Return what the plan's figures have to be, in the order of broker ids.

    Partitions that the plan does not name keep replicas and leader.
    """
    before = _loads_before(checked)
    after = before.copy()
    arriving_bytes: Counter[int] = Counter()
    for move, row in checked.known_moves:
        size_bytes = row.size_bytes or 0
        rate = row.bytes_in_per_second or 0
        old_leader = checked.leader_of(row)
        new_leader = move.replicas_after[0]
        if old_leader is not None:
            after.leaders[old_leader] -= 1
            after.bytes_in[old_leader] -= rate
        after.leaders[new_leader] += 1
        after.bytes_in[new_leader] += rate
        for broker_id in move.adding:
            after.replicas[broker_id] += 1
            after.held_bytes[broker_id] += size_bytes
            after.network_in[broker_id] += rate
            arriving_bytes[broker_id] += size_bytes
        for broker_id in move.removing:
            after.replicas[broker_id] -= 1
            after.held_bytes[broker_id] -= size_bytes
            after.network_in[broker_id] -= rate
    rates = checked.snapshot.partitions["bytes_in_per_second"]
    knows_rates = rates.null_count < len(rates)
    return tuple(
        CountedFigure(
            broker_id=broker_id,
            rack=checked.snapshot.racks[broker_id],
            leaders_before=before.leaders[broker_id],
            leaders_after=after.leaders[broker_id],
            replicas_before=before.replicas[broker_id],
            replicas_after=after.replicas[broker_id],
            bytes_before=before.held_bytes[broker_id],
            bytes_after=after.held_bytes[broker_id],
            bytes_peak=before.held_bytes[broker_id] + arriving_bytes[broker_id],
            bytes_in_before=before.bytes_in[broker_id] if knows_rates else None,
            bytes_in_after=after.bytes_in[broker_id] if knows_rates else None,
            network_in_before=before.network_in[broker_id] if knows_rates else None,
            network_in_after=after.network_in[broker_id] if knows_rates else None,
        )
        for broker_id in checked.snapshot.registered_broker_ids
    )


def _loads_before(checked: CheckedPlan) -> _Loads:
    partitions = checked.snapshot.partitions
    row_of_replica, replica_ids = flat_lists(partitions["replicas"])
    sizes = numbers_of(partitions["size_bytes"], missing=0)
    rates = numbers_of(partitions["bytes_in_per_second"], missing=0)
    if checked.has_leaders:
        leader_ids = numbers_of(partitions["leader"])
    else:
        is_first = np.diff(row_of_replica, prepend=-1) > 0
        leader_ids = replica_ids[is_first]
    has_leader = leader_ids >= 0
    return _Loads(
        leaders=_sums(leader_ids[has_leader], np.ones(int(has_leader.sum()), dtype=np.int64)),
        replicas=_sums(replica_ids, np.ones(len(replica_ids), dtype=np.int64)),
        held_bytes=_sums(replica_ids, sizes[row_of_replica]),
        bytes_in=_sums(leader_ids[has_leader], rates[has_leader]),
        network_in=_sums(replica_ids, rates[row_of_replica]),
    )


def _sums(broker_ids: Ints, weights: Ints) -> Counter[int]:
    """Return the exact sum of weights by broker: ids 1, 2, 1 with 5, 6, 7 give {1: 12, 2: 6}."""
    unique_ids, id_indexes = np.unique(broker_ids, return_inverse=True)
    totals = np.zeros(len(unique_ids), dtype=np.int64)
    np.add.at(totals, id_indexes, weights)
    return Counter(dict(zip(unique_ids.tolist(), totals.tolist(), strict=True)))


Rule = Callable[[CheckedPlan], Iterator[Complaint]]

# A person may want these all the same, and writes a reassignment that breaks them: a warning then.
OVERRIDABLE_RULES: Final = ("racks_not_worse", "min_isr_reachable", "constraints_kept")
# Only the snapshot that a plan was made from has exactly its sizes and rates.
RULES_OF_ONE_SNAPSHOT: Final = ("figures_agree",)

RULES: Final[tuple[Rule, ...]] = (
    of_this_snapshot,
    partition_named_once,
    known_partition,
    same_topic,
    before_values_hold,
    changes_something,
    no_broker_twice,
    replication_factor_kept,
    targets_are_live,
    leaders_are_live,
    racks_not_worse,
    nothing_under_reassignment,
    led_by_somebody,
    min_isr_reachable,
    in_sync_replicas_kept,
    old_brokers_receive_nothing,
    removed_brokers_end_empty,
    only_drained_replicas_move,
    replaced_in_place,
    relieved_below,
    only_dead_replicas_move,
    leaders_move_no_bytes,
    demoted_brokers_lead_nothing,
    excluded_topics_untouched,
    constraints_kept,
    scope_respected,
    budget_respected,
    disks_not_overfilled,
    figures_agree,
    reason_when_empty,
)


def find_violations(
    plan: RebalancePlan, snapshot: ClusterSnapshot, policy: BalancePolicy
) -> tuple[Violation, ...]:
    """Return every broken rule; `policy` is the one that the plan is made with."""
    checked = CheckedPlan.of(plan, snapshot, policy)
    return tuple(
        Violation(rule.__name__, *complaint) for rule in RULES for complaint in rule(checked)
    )
