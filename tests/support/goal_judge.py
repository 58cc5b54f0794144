"""Judges a plan against the cluster it was made for, knowing nothing of the planner.

    verdict = judge(snapshot, plan)
    assert verdict.errors == ()

Leaders are counted as if a preferred leader election followed over every partition: the first
replica leads.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.constraints import matching
from counterpoise.model.document import from_document_text, to_document
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.request import Goal

Assignment = Mapping[TopicPartition, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Verdict:
    errors: tuple[str, ...]
    leaders: Mapping[int, int]  # after the plan, per broker that stays
    replicas: Mapping[int, int]
    bytes_held: Mapping[int, int]
    copied_replicas: int
    max_new_replicas: int  # that one partition gets
    rack_violations: int

    @property
    def leaders_max_minus_min(self) -> int:
        return max(self.leaders.values()) - min(self.leaders.values())

    @property
    def replicas_max_minus_min(self) -> int:
        return max(self.replicas.values()) - min(self.replicas.values())


def assignment_of(snapshot: ClusterSnapshot) -> dict[TopicPartition, tuple[int, ...]]:
    return {
        TopicPartition(row["topic"], row["partition"]): tuple(row["replicas"])
        for row in snapshot.partitions.to_pylist()
    }


def assignment_after(
    snapshot: ClusterSnapshot, plan: RebalancePlan
) -> dict[TopicPartition, tuple[int, ...]]:
    return assignment_of(snapshot) | {
        move.topic_partition: move.replicas_after for move in plan.moves
    }


def judge(snapshot: ClusterSnapshot, plan: RebalancePlan) -> Verdict:
    before, after = assignment_of(snapshot), assignment_after(snapshot, plan)
    case = Case(snapshot, plan, before, after)
    new = {
        key: set(replicas) - set(before[key]) for key, replicas in after.items() if key in before
    }
    return Verdict(
        errors=(*_errors_of_moves(case, new), *_errors_of_goal(case), *_rack_errors(case)),
        leaders=_per_broker(case.staying, Counter(replicas[0] for replicas in after.values())),
        replicas=_per_broker(
            case.staying, Counter(b for replicas in after.values() for b in replicas)
        ),
        bytes_held={
            b: sum(case.sizes[k] for k, replicas in after.items() if b in replicas)
            for b in case.staying
        },
        copied_replicas=sum(len(added) for added in new.values()),
        max_new_replicas=max((len(added) for added in new.values()), default=0),
        rack_violations=rack_violations(after, snapshot, case.staying),
    )


def rack_violations(assignment: Assignment, snapshot: ClusterSnapshot, staying: list[int]) -> int:
    """Partitions that a replica could make more even over racks: by going from one rack to another
    with two fewer, and a broker left, of those that stay.
    """
    sizes = Counter(snapshot.racks[b] for b in staying)

    def is_uneven(replicas: tuple[int, ...]) -> bool:
        stacks = Counter(snapshot.racks[b] for b in replicas)
        able = [stacks[rack] for rack, size in sizes.items() if stacks[rack] < size]
        return bool(stacks) and max(stacks.values()) > min(able, default=len(replicas)) + 1

    return sum(is_uneven(replicas) for replicas in assignment.values())


@dataclass(frozen=True)
class Case:
    snapshot: ClusterSnapshot
    plan: RebalancePlan
    before: Assignment
    after: Assignment

    @cached_property
    def named(self) -> set[int]:
        return set(self.plan.broker_ids)

    @cached_property
    def moved(self) -> set[TopicPartition]:
        return {move.topic_partition for move in self.plan.moves}

    @cached_property
    def live(self) -> set[int]:
        return set(self.snapshot.live_broker_ids)

    @cached_property
    def leaving(self) -> set[int]:
        """Brokers whose replicas the goal takes away."""
        if self.plan.goal is Goal.REPAIR:
            dead = {b for replicas in self.before.values() for b in replicas} - self.live
            return {b for b in dead & (self.named or dead) if self.plan.scope.may_touch_broker(b)}
        empties = self.plan.goal in (Goal.REMOVE_BROKERS, Goal.REPLACE_BROKERS)
        return self.named if empties else set()

    @cached_property
    def staying(self) -> list[int]:
        return sorted(self.live - self.leaving)

    @cached_property
    def in_scope(self) -> set[int]:
        """Live brokers that stay and that the request lets the plan touch."""
        return {b for b in self.staying if self.plan.scope.may_touch_broker(b)}

    @cached_property
    def leaders(self) -> Mapping[TopicPartition, int | None]:
        rows = self.snapshot.partitions.to_pylist()
        tells = any(row["leader"] is not None for row in rows)
        return {
            TopicPartition(r["topic"], r["partition"]): r["leader"] if tells else r["replicas"][0]
            for r in rows
        }

    @cached_property
    def free(self) -> set[TopicPartition]:
        """Partitions that the plan may change: in scope, led by somebody, and not under
        reassignment.
        """
        scope, rows = self.plan.scope, self.snapshot.partitions.to_pylist()
        topics = {row["topic"] for row in rows}
        included = matching(scope.topics or ("*",), topics) - matching(
            scope.excluded_topics, topics
        )
        still = {
            TopicPartition(row["topic"], row["partition"])
            for row in rows
            if row["topic"] in included
            and not row["adding_replicas"]
            and not row["removing_replicas"]
        }
        return {key for key in still if self.leaders[key] is not None}

    @cached_property
    def in_sync(self) -> Mapping[TopicPartition, set[int]]:
        """The live replicas that are in sync; all live ones where the snapshot does not tell."""
        return {
            TopicPartition(row["topic"], row["partition"]): self.live
            & set(row["replicas"] if row["isr"] is None else row["isr"])
            for row in self.snapshot.partitions.to_pylist()
        }

    @cached_property
    def sizes(self) -> Mapping[TopicPartition, int]:
        rows = self.snapshot.partitions.to_pylist()
        return {
            TopicPartition(row["topic"], row["partition"]): row["size_bytes"] or 0 for row in rows
        }

    @cached_property
    def room_left(self) -> Mapping[int, int]:
        """On the fullest log dir of brokers that tell theirs, below 85 %, when all that comes came
        there.
        """
        rooms: dict[int, int] = {}
        for row in self.snapshot.log_dirs.to_pylist():
            if row["error"] is None:
                room = row["total_bytes"] * 85 // 100 - (row["total_bytes"] - row["usable_bytes"])
                rooms[row["broker_id"]] = min(room, rooms.get(row["broker_id"], room))
        for move in self.plan.moves:
            for broker_id in set(move.adding) & set(rooms):
                rooms[broker_id] -= self.sizes[move.topic_partition]
        return rooms

    def could_take(self, key: TopicPartition) -> set[int]:
        """Brokers that have no replica of a partition yet, and could have one."""
        size = self.sizes[key]
        return {
            b for b in self.in_scope - set(self.after[key]) if self.room_left.get(b, size) >= size
        }

    def stacked(self, broker_ids: Iterable[int]) -> int:
        """Pairs of brokers in the same rack."""
        stacks = Counter(self.snapshot.racks.get(b) for b in broker_ids)
        return sum(count * (count - 1) // 2 for count in stacks.values())

    def racks(self, broker_ids: Iterable[int]) -> int:
        return len({self.snapshot.racks.get(b) for b in broker_ids})


def _errors_of_moves(case: Case, new: Mapping[TopicPartition, set[int]]) -> list[str]:
    plan, errors = case.plan, []
    if len({move.topic_partition for move in plan.moves}) != len(plan.moves):
        errors.append("partition named twice")
    for move in plan.moves:
        key, after = move.topic_partition, move.replicas_after
        before, added = case.before[key], new[key]
        touched = added | (set(move.removing) - case.leaving)
        if move.replicas_after[0] != case.leaders[key]:
            touched.add(move.replicas_after[0])
        complaints = {
            "replica twice": len(set(after)) != len(after),
            "replication factor changed": len(after) != len(before)
            and plan.goal is not Goal.REPLICATION_FACTOR,
            "another before-value": move.replicas_before != before,
            "changes nothing": after == before and case.leaders[key] == after[0],
            "sent to a broker that is not live": not added <= case.live,
            "may not be touched": key not in case.free,
            "touches a broker out of scope": any(
                not plan.scope.may_touch_broker(b) for b in touched
            ),
            **_complaints_by_goal(case, move, added),
        }
        errors += [f"{key}: {complaint}" for complaint, applies in complaints.items() if applies]
    return errors


def _complaints_by_goal(case: Case, move: Move, new: set[int]) -> dict[str, bool]:
    goal, after = case.plan.goal, move.replicas_after
    could_not_end = bool(
        new and set(after) - case.live
    )  # Kafka waits until all replicas are in sync
    if goal is Goal.ADD_BROKERS:
        return {"sent to an old broker": not new <= case.named, "could not end": could_not_end}
    if goal is Goal.REBALANCE:
        return {"could not end": could_not_end}
    if goal in (Goal.REMOVE_BROKERS, Goal.REPAIR):
        return {
            "moved though it stays": not set(move.removing) <= case.leaving,
            "could not end": could_not_end,
        }
    if goal is Goal.REPLACE_BROKERS:
        new_ids = dict(zip(case.plan.broker_ids, case.plan.new_broker_ids, strict=True))
        return {
            "not in place": after != tuple(new_ids.get(b, b) for b in move.replicas_before),
            "could not end": could_not_end,
        }
    if goal is Goal.LEADERS:
        return {"data moved": bool(new)}
    if goal is Goal.DEMOTE_BROKERS:
        given_up = [b in case.named for b in after]
        return {
            "data moved": bool(new),
            "demoted broker not last": move.leader_before in case.named
            and given_up != sorted(given_up),
            "not about a demoted broker": not case.named
            & {move.replicas_before[0], case.leaders[move.topic_partition]},
        }
    if goal is Goal.REPLICATION_FACTOR:
        good = case.in_sync[move.topic_partition]
        return {
            "could not end": could_not_end,
            "moved": bool(new) and bool(move.removing),
            "an in-sync replica lost": len(good & set(after)) < min(len(good), len(after)),
        }
    return {}


def _errors_of_goal(case: Case) -> list[str]:
    """What the plan leaves undone, though it could be done."""
    undone = {
        Goal.REMOVE_BROKERS: _left_on_leaving,
        Goal.REPAIR: _left_on_leaving,
        Goal.REPLACE_BROKERS: _left_on_replaced,
        Goal.DEMOTE_BROKERS: _left_to_demoted,
        Goal.REPLICATION_FACTOR: _left_with_another_factor,
    }.get(case.plan.goal)
    if undone is None or case.plan.deferred.partitions:
        return []
    return [f"{key}: left undone" for key in sorted(case.free) if undone(case, key)]


def _left_on_leaving(case: Case, key: TopicPartition) -> bool:
    dead = set(case.after[key]) - case.live - case.leaving  # beside such a one no copy could end
    return bool(set(case.after[key]) & case.leaving and case.could_take(key) and not dead)


def _left_on_replaced(case: Case, key: TopicPartition) -> bool:
    first, leader = case.before[key][0], case.leaders[key] or -1
    may_lead = first == leader or all(map(case.plan.scope.may_touch_broker, (first, leader)))
    dead = set(case.after[key]) - case.live - case.leaving
    return bool(set(case.after[key]) & case.leaving and may_lead and not dead)


def _left_to_demoted(case: Case, key: TopicPartition) -> bool:
    leads = (
        {case.after[key][0], case.leaders[key]} if key not in case.moved else {case.after[key][0]}
    )
    able = set(case.after[key]) & case.in_scope & case.in_sync[key] - case.named
    return bool(
        leads & case.named and able and case.plan.scope.may_touch_broker(case.leaders[key] or -1)
    )


def _left_with_another_factor(case: Case, key: TopicPartition) -> bool:
    after, factor = case.after[key], case.plan.replication_factor or 0
    if len(after) < factor:
        return (
            bool(case.could_take(key)) and not set(after) - case.live
        )  # beside a dead replica no copy could end
    may_go = {b for b in after if case.plan.scope.may_touch_broker(b)}
    if len(may_go) < len(after):
        may_go -= {
            after[0] if key in case.moved else case.leaders[key] or -1
        }  # or a broker out of scope had to lead
    bad = set(after) - case.in_sync[key]
    return len(after) > factor and bool(bad & may_go if bad - may_go else may_go)


def _rack_errors(case: Case) -> list[str]:
    """Partitions on fewer racks than before, or than replicas that came or went had to leave."""
    errors = []
    for move in case.plan.moves:
        before, after = move.replicas_before, move.replicas_after
        destinations = case.named if case.plan.goal is Goal.ADD_BROKERS else case.in_scope
        reachable = case.racks({*before, *destinations} - case.leaving)
        if case.room_left:
            reachable = 1  # the right rack may have had no room
        least = min(case.racks(before), reachable)
        if len(after) > len(before):
            least = min(case.racks(before) + len(move.adding), reachable)
        if len(after) < len(before):
            good = case.in_sync[move.topic_partition]
            may_go = all(case.plan.scope.may_touch_broker(b) for b in before)
            least = min(len(after), case.racks(good)) if may_go and len(good) >= len(after) else 1
        if case.racks(after) < least:
            errors.append(
                f"{move.topic_partition}: on {case.racks(after)} racks, {least} are possible"
            )
        is_free_to_stay = len(after) == len(before) and not case.leaving & set(before)
        if is_free_to_stay and case.stacked(after) > case.stacked(before):
            errors.append(f"{move.topic_partition}: less even over racks than before")
    return errors


def _per_broker(brokers: list[int], counts: Counter[int]) -> dict[int, int]:
    return {b: counts[b] for b in brokers}


def executed(
    snapshot: ClusterSnapshot, plan: RebalancePlan, *, undo: bool = False
) -> ClusterSnapshot:
    """The cluster once the plan is executed: replicas as planned, the first one leads each
    partition it names, and a log dir alone on its broker has what came and lacks what went.
    """
    wanted = {
        m.topic_partition: m.replicas_before if undo else m.replicas_after for m in plan.moves
    }
    document = to_document(snapshot)
    for row in document["partitions"]:
        replicas = wanted.get(TopicPartition(row[0], row[1]))
        if replicas is not None:
            row[2], row[3] = list(replicas), replicas[0]
    for broker in document["brokers"]:
        (disk, *others) = broker.get("log_dirs") or [None]
        if disk is None or others:
            continue
        for move in plan.moves:
            arrives = (broker["id"] in move.adding) - (broker["id"] in move.removing)
            disk["usable_bytes"] += move.size_bytes * arrives * (1 if undo else -1)
        broker.pop("disk_total_bytes", None)
        broker.pop("disk_usable_bytes", None)
    document["snapshot_id"] = f"{snapshot.snapshot_id}-after"
    return replace(from_document_text(json.dumps(document)), observed_at=snapshot.observed_at)
