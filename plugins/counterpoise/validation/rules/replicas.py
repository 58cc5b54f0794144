"""Rules about replica sets: as many as wanted, on live brokers and enough racks, with every in-sync
replica kept that can be kept.
"""

from collections.abc import Iterable, Iterator
from itertools import combinations

from counterpoise.model.plan import Move
from counterpoise.model.request import Goal
from counterpoise.model.tables import rows_of
from counterpoise.model.words import list_brokers
from counterpoise.validation.violation import CheckedPlan, Complaint, PartitionRow, about


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
    """Require that no partition is on fewer racks than before, unless there are fewer replicas or
    no broker of a rack can receive one.
    """
    for move, row in checked.known_moves:
        before, after = (
            _rack_count(checked, row.replicas),
            _rack_count(checked, move.replicas_after),
        )
        number = len(move.replicas_after)
        if after >= min(before, number):
            continue
        if number < len(row.replicas):
            _, possible = _max_kept(checked, row, number)
        else:
            possible = min(before, _rack_count(checked, _able_to_hold(checked, move, row)))
        if after < possible:
            what = f"is on {before} racks and would be on {after}, while {possible} are possible"
            yield about(move, what)


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
    """Return how many in-sync replicas, and then on how many racks, can be kept when `number`
    replicas of a partition stay; (-1, -1) where none may be removed.

    Brokers out of scope keep their replicas, and none of them becomes the leader instead of a
    broker that gives up its replica. Example: replicas 1, 2, 3 on racks a, a, b, all in sync, two
    stay: (2, 2), by removing 1 or 2.
    """
    in_scope = checked.plan.scope.may_touch_broker
    in_sync = _in_sync(checked, row)
    removable = [b for b in row.replicas if in_scope(b)]
    best = (-1, -1)
    for removed in combinations(removable, len(row.replicas) - number):
        kept = [b for b in row.replicas if b not in removed]
        keeps_leader = checked.leader_of(row) not in removed
        if keeps_leader or any(in_scope(b) and b in checked.live for b in kept):
            best = max(best, (len(in_sync.intersection(kept)), _rack_count(checked, kept)))
    return best


def _rack_count(checked: CheckedPlan, replicas: Iterable[int]) -> int:
    return len({checked.snapshot.racks.get(broker_id) for broker_id in replicas})
