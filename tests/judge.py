"""Judges a plan against the cluster it was made for, knowing nothing of the planner.

    verdict = judge(snapshot, plan)
    assert verdict.errors == ()

Leaders are counted as if a preferred leader election followed over every partition: the first replica leads.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
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
    most_new_replicas: int  # that one partition gets
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


def assignment_after(snapshot: ClusterSnapshot, plan: RebalancePlan) -> dict[TopicPartition, tuple[int, ...]]:
    return assignment_of(snapshot) | {move.topic_partition: move.replicas_after for move in plan.moves}


def judge(snapshot: ClusterSnapshot, plan: RebalancePlan) -> Verdict:
    before, after = assignment_of(snapshot), assignment_after(snapshot, plan)
    gone = set(plan.broker_ids) if plan.goal is Goal.REMOVE_BROKERS else set()
    staying = [b for b in snapshot.live_broker_ids if b not in gone]
    sizes = {
        TopicPartition(row["topic"], row["partition"]): row["size_bytes"] or 0
        for row in snapshot.partitions.to_pylist()
    }
    new = {key: set(replicas) - set(before[key]) for key, replicas in after.items() if key in before}
    violations = rack_violations(after, snapshot, staying)
    errors = _errors(snapshot, plan, before, new)
    if violations > rack_violations(before, snapshot, staying):
        errors.append("more rack violations than before")
    return Verdict(
        errors=tuple(errors),
        leaders=_per_broker(staying, Counter(replicas[0] for replicas in after.values())),
        replicas=_per_broker(staying, Counter(b for replicas in after.values() for b in replicas)),
        bytes_held={b: sum(sizes[k] for k, replicas in after.items() if b in replicas) for b in staying},
        copied_replicas=sum(len(added) for added in new.values()),
        most_new_replicas=max((len(added) for added in new.values()), default=0),
        rack_violations=violations,
    )


def rack_violations(assignment: Assignment, snapshot: ClusterSnapshot, staying: list[int]) -> int:
    """Partitions on fewer racks than they could be, by their replicas and the racks of the brokers that stay."""
    rack_count = len({snapshot.racks[b] for b in staying})
    return sum(
        len({snapshot.racks[b] for b in replicas}) < min(len(replicas), rack_count) for replicas in assignment.values()
    )


def _errors(
    snapshot: ClusterSnapshot, plan: RebalancePlan, before: Assignment, new: Mapping[TopicPartition, set[int]]
) -> list[str]:
    errors = []
    if len({move.topic_partition for move in plan.moves}) != len(plan.moves):
        errors.append("partition named twice")
    leaders = {TopicPartition(r["topic"], r["partition"]): r["leader"] for r in snapshot.partitions.to_pylist()}
    live = set(snapshot.live_broker_ids)
    for move in plan.moves:
        key, after = move.topic_partition, move.replicas_after
        complaints = {
            "replica twice": len(set(after)) != len(after),
            "replication factor changed": len(after) != len(before[key]),
            "another before-value": move.replicas_before != before[key],
            "changes nothing": after == before[key] and leaders[key] == after[0],
            "sent to a broker that is not live": not new[key] <= live,
            **_complaints_by_goal(plan, move, new[key]),
        }
        errors += [f"{key}: {complaint}" for complaint, applies in complaints.items() if applies]
    return errors


def _complaints_by_goal(plan: RebalancePlan, move: Move, new: set[int]) -> dict[str, bool]:
    named = set(plan.broker_ids)
    return {
        "sent to an old broker": plan.goal is Goal.ADD_BROKERS and not new <= named,
        "data moved": plan.goal is Goal.LEADERS and bool(new),
        "left on a removed broker": plan.goal is Goal.REMOVE_BROKERS and bool(set(move.replicas_after) & named),
        "moved though it stays": plan.goal is Goal.REMOVE_BROKERS and not set(move.removing) <= named,
    }


def _per_broker(brokers: list[int], counts: Counter[int]) -> dict[int, int]:
    return {b: counts[b] for b in brokers}


def executed(snapshot: ClusterSnapshot, plan: RebalancePlan, *, undo: bool = False) -> ClusterSnapshot:
    """The cluster once the plan is executed: replicas as planned, and the first one leads each partition it names."""
    wanted = {m.topic_partition: m.replicas_before if undo else m.replicas_after for m in plan.moves}
    document = to_document(snapshot)
    for row in document["partitions"]:
        replicas = wanted.get(TopicPartition(row[0], row[1]))
        if replicas is not None:
            row[2], row[3] = list(replicas), replicas[0]
    document["snapshot_id"] = f"{snapshot.snapshot_id}-after"
    return replace(from_document_text(json.dumps(document)), observed_at=snapshot.observed_at)
