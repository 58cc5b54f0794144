"""Rules about the plan as a document: it belongs to this snapshot and describes it truly."""

from collections.abc import Iterator

from counterpoise.model.cluster import TopicPartition
from counterpoise.validation.violation import CheckedPlan, Complaint, about


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
