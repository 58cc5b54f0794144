"""The rules that a plan must keep, whoever made it. Small functions; `RULES` is all of them.

    find_violations(plan, snapshot, policy)    # () means that the plan may be shown for approval

A rule yields one violation per offending subject. Its name is the function's name.
"""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import Goal
from counterpoise.validation.figures import CountedFigure, expected_figures
from counterpoise.validation.violation import Case, Violation

Rule = Callable[[Case], Iterator[Violation]]


def find_violations(plan: RebalancePlan, snapshot: ClusterSnapshot, policy: BalancePolicy) -> tuple[Violation, ...]:
    """Every broken rule. The policy is the one the plan is to be made with."""
    case = Case.of(plan, snapshot, policy)
    return tuple(violation for rule in RULES for violation in rule(case))


def of_this_snapshot(case: Case) -> Iterator[Violation]:
    """The plan was made of this cluster and this snapshot, with this policy."""
    plan, snapshot = case.plan, case.snapshot
    pairs = (
        ("cluster", plan.cluster, snapshot.cluster),
        ("cluster id", plan.cluster_id, snapshot.cluster_id),
        ("snapshot", plan.snapshot_id, snapshot.snapshot_id),
        ("policy", plan.policy_digest, case.policy.digest),
    )
    for what, planned, present in pairs:
        if planned != present:
            message = f"the plan is for {what} {planned!r}, not {present!r}; make a new plan"
            yield Violation("of_this_snapshot", "plan", message)


def partition_named_once(case: Case) -> Iterator[Violation]:
    seen: set[TopicPartition] = set()
    for move in case.plan.moves:
        if move.topic_partition in seen:
            yield _of("partition_named_once", move, "is named more than once")
        seen.add(move.topic_partition)


def known_partition(case: Case) -> Iterator[Violation]:
    for move in case.plan.moves:
        if move.topic_partition not in case.rows:
            yield _of("known_partition", move, "is not in the snapshot; was its topic deleted?")


def same_topic(case: Case) -> Iterator[Violation]:
    """A topic that was deleted and made anew has another id (KIP-516)."""
    for move, _ in case.known_moves:
        present = case.snapshot.topic_ids.get(move.topic) or ""
        if move.topic_id != present:
            yield _of("same_topic", move, f"is of the topic with id {present!r}, the plan has {move.topic_id!r}")


def before_values_hold(case: Case) -> Iterator[Violation]:
    for move, row in case.known_moves:
        planned = (move.replicas_before, move.leader_before, move.size_bytes)
        present = (row.replicas, -1 if row.leader is None else row.leader, row.size_bytes or 0)
        for what, old, now in zip(("replicas", "leader", "size"), planned, present, strict=True):
            if old != now:
                yield _of("before_values_hold", move, f"has {what} {_show(now)}, the plan has {_show(old)}")


def changes_something(case: Case) -> Iterator[Violation]:
    for move, row in case.known_moves:
        if move.replicas_after and move.replicas_after == row.replicas and row.leader == move.replicas_after[0]:
            yield _of("changes_something", move, "would stay as it is")


def no_broker_twice(case: Case) -> Iterator[Violation]:
    for move in case.plan.moves:
        if len(set(move.replicas_after)) != len(move.replicas_after):
            yield _of("no_broker_twice", move, f"would have a broker twice: {_show(move.replicas_after)}")


def replication_factor_kept(case: Case) -> Iterator[Violation]:
    for move, row in case.known_moves:
        if len(move.replicas_after) != len(row.replicas):
            message = f"has {len(row.replicas)} replicas and would have {len(move.replicas_after)}"
            yield _of("replication_factor_kept", move, message)


def targets_are_live(case: Case) -> Iterator[Violation]:
    """KRaft accepts fenced targets (it only checks that they are registered), so we check."""
    registered, live = set(case.snapshot.registered_broker_ids), set(case.snapshot.live_broker_ids)
    for move in case.plan.moves:
        for broker_id in move.adding:
            if broker_id not in live:
                why = "is not live" if broker_id in registered else "is not registered"
                yield _of("targets_are_live", move, f"would go to broker {broker_id}, which {why}")


def racks_not_worse(case: Case) -> Iterator[Violation]:
    """Never on fewer racks than before, unless a rack has no broker left."""
    racks = case.snapshot.racks
    gone = set(case.plan.broker_ids) if case.plan.goal is Goal.REMOVE_BROKERS else set()
    racks_left = len({racks[b] for b in case.snapshot.live_broker_ids if b not in gone})
    for move, row in case.known_moves:
        before = len({racks.get(b) for b in row.replicas})
        after = len({racks.get(b) for b in move.replicas_after})
        if after < min(before, racks_left):
            yield _of("racks_not_worse", move, f"is on {before} racks and would be on {after}")


def old_brokers_receive_nothing(case: Case) -> Iterator[Violation]:
    if case.plan.goal is not Goal.ADD_BROKERS:
        return
    for move in case.plan.moves:
        old = sorted(set(move.adding) - set(case.plan.broker_ids))
        if old:
            yield _of("old_brokers_receive_nothing", move, f"would go to {_show(old)}, not among the added brokers")


def removed_brokers_end_empty(case: Case) -> Iterator[Violation]:
    if case.plan.goal is not Goal.REMOVE_BROKERS:
        return
    removed = set(case.plan.broker_ids)
    for move in case.plan.moves:
        if removed & set(move.replicas_after):
            message = f"would have replicas {_show(move.replicas_after)}, with a broker that leaves"
            yield _of("removed_brokers_end_empty", move, message)
    for name in _left_behind(case, removed):
        if name not in case.rows:
            message = f"{name} has a replica on a broker that leaves and is not in the plan"
            yield Violation("removed_brokers_end_empty", str(name), message)


def only_drained_replicas_move(case: Case) -> Iterator[Violation]:
    if case.plan.goal is not Goal.REMOVE_BROKERS:
        return
    for move in case.plan.moves:
        others = sorted(set(move.removing) - set(case.plan.broker_ids))
        if others:
            yield _of("only_drained_replicas_move", move, f"would leave {_show(others)}, which stays in the cluster")


def leaders_move_no_bytes(case: Case) -> Iterator[Violation]:
    if case.plan.goal is not Goal.LEADERS:
        return
    for move in case.plan.moves:
        if move.adding or move.removing:
            yield _of("leaders_move_no_bytes", move, "would change its set of replicas, not just their order")


def nothing_under_reassignment(case: Case) -> Iterator[Violation]:
    """A second request would replace the first one (KIP-455)."""
    for move, row in case.known_moves:
        if row.is_moving:
            yield _of("nothing_under_reassignment", move, "is being reassigned already")


def excluded_topics_untouched(case: Case) -> Iterator[Violation]:
    excluded = set(case.policy.excluded_topics)
    for move in case.plan.moves:
        if move.topic in excluded:
            yield _of("excluded_topics_untouched", move, "is of a topic that the policy excludes")


def min_isr_reachable(case: Case) -> Iterator[Violation]:
    """With fewer replicas than min.insync.replicas, producers that wait for all acknowledgements are refused."""
    topics = case.snapshot.topics
    least = dict(zip(topics["topic"].to_pylist(), topics["min_insync_replicas"].to_pylist(), strict=True))
    for move in case.plan.moves:
        wanted = least.get(move.topic)
        if wanted is not None and len(move.replicas_after) < wanted:
            message = f"would have {len(move.replicas_after)} replicas, fewer than min.insync.replicas = {wanted}"
            yield _of("min_isr_reachable", move, message)


def figures_agree(case: Case) -> Iterator[Violation]:
    expected = expected_figures(case)
    if [figure.broker_id for figure in case.plan.figures] != [figure.broker_id for figure in expected]:
        yield Violation("figures_agree", "plan", "the figures are not one per registered broker, by id")
        return
    for planned, counted in zip(case.plan.figures, expected, strict=True):
        if (stated := CountedFigure.of(planned)) != counted:
            message = f"the plan says {stated}, the moves come to {counted}"
            yield Violation("figures_agree", f"broker {planned.broker_id}", message)


def reason_when_empty(case: Case) -> Iterator[Violation]:
    if case.plan.is_empty and not case.plan.reason:
        yield Violation("reason_when_empty", "plan", "nothing moves and the plan does not say why")


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
    racks_not_worse,
    old_brokers_receive_nothing,
    removed_brokers_end_empty,
    only_drained_replicas_move,
    leaders_move_no_bytes,
    nothing_under_reassignment,
    excluded_topics_untouched,
    min_isr_reachable,
    figures_agree,
    reason_when_empty,
)


def _of(rule: str, move: Move, what: str) -> Violation:
    return Violation(rule, str(move.topic_partition), f"{move.topic_partition} {what}")


def _show(value: object) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)


def _left_behind(case: Case, removed: set[int]) -> list[TopicPartition]:
    """Partitions with a replica on a broker that leaves."""
    partitions = case.snapshot.partitions
    lists = partitions["replicas"].combine_chunks()
    rows = np.repeat(np.arange(len(lists)), np.asarray(lists.value_lengths(), dtype=np.int64))
    hit = np.unique(rows[np.isin(np.asarray(lists.flatten(), dtype=np.int64), sorted(removed))])
    found = partitions.select(["topic", "partition"]).take(hit).to_pylist()
    return [TopicPartition(row["topic"], row["partition"]) for row in found]
