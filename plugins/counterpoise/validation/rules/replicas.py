"""Rules about replica sets: as many as wanted, on live brokers and enough racks, and nothing in
sync given up.
"""

from collections.abc import Iterable, Iterator
from itertools import combinations

from counterpoise.model.plan import Move
from counterpoise.model.request import Goal
from counterpoise.validation.violation import Case, PartitionRow, Violation, listed


def no_broker_twice(case: Case) -> Iterator[Violation]:
    for move in case.plan.moves:
        if len(set(move.replicas_after)) != len(move.replicas_after):
            what = f"would have a broker twice: {listed(move.replicas_after)}"
            yield Violation.of_move("no_broker_twice", move, what)


def replication_factor_kept(case: Case) -> Iterator[Violation]:
    """As many replicas as before; where their number is the goal, the wanted one, with none moved
    on the way.
    """
    is_goal = case.plan.goal is Goal.REPLICATION_FACTOR
    for move, row in case.known_moves:
        number, held = len(move.replicas_after), len(row.replicas)
        wanted = case.plan.replication_factor if is_goal else held
        if number != wanted and not (is_goal and _is_as_near_as_can_be(case, move, row)):
            what = f"has {held} replicas and would have {number}, not {wanted}"
            yield Violation.of_move("replication_factor_kept", move, what)
        elif is_goal and move.adding and move.removing:
            what = f"would move from {listed(move.removing)} to {listed(move.adding)}; replicas may only come or go"
            yield Violation.of_move("replication_factor_kept", move, what)


def _is_as_near_as_can_be(case: Case, move: Move, row: PartitionRow) -> bool:
    """Short of the wanted number because no other broker may take a replica, or above it because
    none may give one.

    A budget may leave some of it for later.
    """
    wanted, held, number = (
        case.plan.replication_factor or 0,
        len(row.replicas),
        len(move.replicas_after),
    )
    in_scope = case.plan.scope.may_touch_broker
    if case.plan.left.partitions:
        return min(held, wanted) <= number <= max(held, wanted)
    if held <= number < wanted:
        others = [b for b in case.live - set(move.replicas_after) if in_scope(b)]
        return all(case.room_left.get(b, move.size_bytes) < move.size_bytes for b in others)
    return wanted < number <= held and _most_kept(case, row, number - 1)[0] < min(
        len(_in_sync(case, row)), number - 1
    )


def targets_are_live(case: Case) -> Iterator[Violation]:
    """KRaft accepts fenced targets (it only checks that they are registered), so we check."""
    registered = set(case.snapshot.registered_broker_ids)
    for move in case.plan.moves:
        for broker_id in move.adding:
            if broker_id not in case.live:
                why = "is not live" if broker_id in registered else "is not registered"
                yield Violation.of_move(
                    "targets_are_live", move, f"would go to broker {broker_id}, which {why}"
                )


def leaders_are_live(case: Case) -> Iterator[Violation]:
    """The first replica is elected in the end; while its broker is dead that cannot be."""
    for move in case.plan.moves:
        if move.replicas_after and move.replicas_after[0] not in case.live:
            what = f"would be led by broker {move.replicas_after[0]}, which is not live"
            yield Violation.of_move("leaders_are_live", move, what)


def racks_not_worse(case: Case) -> Iterator[Violation]:
    """Never on fewer racks than before, unless no broker of a rack can take a replica or there are
    fewer replicas.
    """
    for move, row in case.known_moves:
        before, after = _rack_count(case, row.replicas), _rack_count(case, move.replicas_after)
        number = len(move.replicas_after)
        if after >= min(before, number):
            continue
        if number < len(row.replicas):
            _, least = _most_kept(case, row, number)
        else:
            least = min(before, _rack_count(case, _able_to_hold(case, move, row)))
        if after < least:
            what = f"is on {before} racks and would be on {after}; {least} are possible"
            yield Violation.of_move("racks_not_worse", move, what)


def _able_to_hold(case: Case, move: Move, row: PartitionRow) -> list[int]:
    """Brokers that have a replica and keep it, and those in scope that have room for one."""
    takers = [b for b in case.live - case.leaving if case.plan.scope.may_touch_broker(b)]
    roomy = [b for b in takers if case.room_left.get(b, move.size_bytes) >= move.size_bytes]
    return [*roomy, *move.adding, *(b for b in row.replicas if b not in case.leaving)]


def nothing_under_reassignment(case: Case) -> Iterator[Violation]:
    """A second request would replace the first one (KIP-455)."""
    for move, row in case.known_moves:
        if row.is_moving:
            yield Violation.of_move(
                "nothing_under_reassignment", move, "is being reassigned already"
            )


def led_by_somebody(case: Case) -> Iterator[Violation]:
    """New replicas copy from the leader: where there is none, a move never ends."""
    for move, row in case.known_moves:
        if case.leader_of(row) is None:
            yield Violation.of_move(
                "led_by_somebody", move, "is offline: it has no leader to copy from"
            )


def min_isr_reachable(case: Case) -> Iterator[Violation]:
    """With fewer replicas than min.insync.replicas, producers that wait for all acknowledgements
    are refused.

    Kafka lowers a replication factor below it without a word. A partition that has too few already
    may move.
    """
    topics = case.snapshot.topics
    least = dict(
        zip(topics["topic"].to_pylist(), topics["min_insync_replicas"].to_pylist(), strict=True)
    )
    for move, row in case.known_moves:
        wanted = least.get(move.topic) or 0
        if len(move.replicas_after) < min(wanted, len(row.replicas)):
            what = f"would have {len(move.replicas_after)} replicas, fewer than min.insync.replicas = {wanted}"
            yield Violation.of_move("min_isr_reachable", move, what)


def in_sync_replicas_kept(case: Case) -> Iterator[Violation]:
    """Of fewer replicas than before, as many as there is place for are such that are in sync now."""
    for move, row in case.known_moves:
        in_sync, number = _in_sync(case, row), len(move.replicas_after)
        kept, needed = len(in_sync & set(move.replicas_after)), min(len(in_sync), number)
        if number < len(row.replicas) and kept < needed:
            what = (
                f"would keep {kept} of its in-sync replicas {listed(sorted(in_sync))}, not {needed}"
            )
            yield Violation.of_move("in_sync_replicas_kept", move, what)


def _in_sync(case: Case, row: PartitionRow) -> frozenset[int]:
    """Live replicas that are in sync; those that are live where the snapshot does not tell."""
    return frozenset(row.replicas if row.isr is None else row.isr) & case.live


def _most_kept(case: Case, row: PartitionRow, number: int) -> tuple[int, int]:
    """In-sync replicas, and then racks, that so many of a partition's replicas can keep; (-1, -1)
    where none may go.

    Brokers out of scope give up nothing, and none of them gets to lead instead of a broker that
    gives up its replica.
    """
    in_scope, in_sync = case.plan.scope.may_touch_broker, _in_sync(case, row)
    best = (-1, -1)
    for gone in combinations([b for b in row.replicas if in_scope(b)], len(row.replicas) - number):
        kept = [b for b in row.replicas if b not in gone]
        if case.leader_of(row) not in gone or any(in_scope(b) and b in case.live for b in kept):
            best = max(best, (len(in_sync.intersection(kept)), _rack_count(case, kept)))
    return best


def _rack_count(case: Case, replicas: Iterable[int]) -> int:
    return len({case.snapshot.racks.get(broker_id) for broker_id in replicas})
