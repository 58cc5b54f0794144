"""Constraint checks: what no plan could satisfy, said before anything is computed.

    refuse_impossible_constraints(result)    # InputError: "broker set payments has 2 live ..."

Each names the topic or the brokers, and what would help. Goals about leaders only are checked for
what concerns leaders.
"""

import numpy as np

from counterpoise.errors import InputError
from counterpoise.model.constraints import names_of_sets
from counterpoise.model.request import Goal
from counterpoise.model.words import name_brokers, pluralize
from counterpoise.planning.broker_sets import BrokerSetPart
from counterpoise.planning.explanation.planning_result import PlanningResult

_EMPTYING = (Goal.REMOVE_BROKERS, Goal.REPAIR)  # these say themselves what fits nowhere


def refuse_impossible_constraints(result: PlanningResult) -> None:
    """Raise InputError when no plan for the goal can satisfy a constraint."""
    _refuse_closed_brokers(result)
    _refuse_few_topic_partitions(result)
    if result.goal.moves_replicas and result.request.goal not in _EMPTYING:
        for part in result.parts:
            _refuse_small_set(result, part)
        _refuse_too_many_replicas(result)


def _refuse_closed_brokers(result: PlanningResult) -> None:
    closed = set(result.request.policy.constraints.no_new_replicas_on)
    named = sorted(closed & set(result.request.broker_ids))
    if named and result.request.goal is Goal.ADD_BROKERS:
        raise InputError(
            f"{name_brokers(named)} cannot be added: no_new_replicas_on says that no new replicas "
            "go there; take the id out of it, or name other brokers"
        )


def _refuse_small_set(result: PlanningResult, part: BrokerSetPart) -> None:
    """Refuse a set with fewer live brokers than a partition of its topics has replicas."""
    if not result.has_sets:
        return
    cluster, name = part.cluster, _name_of(result, part)
    counts = cluster.replica_counts.copy()
    if result.request.replication_factor is not None:
        counts[cluster.may_change] = result.request.replication_factor
    live_count = int((part.brokers & cluster.is_live).sum())
    too_many = np.flatnonzero((counts > live_count) & cluster.may_change)
    if not len(too_many):
        return
    row = int(too_many[0])
    topic, count = cluster.topics[row].as_py(), int(counts[row])
    raise InputError(
        f"broker set {name} has {pluralize(live_count, 'live broker')}, and topic {topic} of it "
        f"{pluralize(count, 'replica')} per partition; add brokers to the set, start those that "
        "are not live, take the topic out of it, or lower the replication factor first"
    )


def _name_of(result: PlanningResult, part: BrokerSetPart) -> str:
    return names_of_sets(result.request.policy.constraints.broker_sets)[part.number]


def _refuse_too_many_replicas(result: PlanningResult) -> None:
    max_count = result.request.policy.constraints.max_replicas_per_broker
    if max_count is None:
        return
    for part in result.parts:
        brokers = part.cluster.is_live & part.brokers
        counts = part.cluster.load(part.cluster.replicas)
        replica_count, live_count = int(counts.sum()), int(brokers.sum())
        if (others := result.left_out) is not None:
            replica_count += int(others.load(others.replicas)[brokers].sum())
        if replica_count > max_count * live_count:
            where = "" if not result.has_sets else f" of broker set {_name_of(result, part)}"
            needed = -(-replica_count // max(1, live_count))
            raise InputError(
                f"max_replicas_per_broker {max_count}: {pluralize(live_count, 'live broker')}"
                f"{where} cannot hold {pluralize(replica_count, 'replica')} with so few each; "
                f"allow {needed} or more, or add brokers"
            )


def _refuse_few_topic_partitions(result: PlanningResult) -> None:
    for part in result.parts:
        cluster = part.cluster
        brokers = int((part.roles.leading & part.brokers).sum())
        partitions = np.bincount(cluster.topic_numbers, minlength=len(cluster.topic_names))
        needed = cluster.min_topic_leaders * brokers
        lacking = np.flatnonzero((partitions < needed) & (partitions > 0))
        if len(lacking):
            topic = int(lacking[0])
            raise InputError(
                f"min_topic_leaders: topic {cluster.topic_names[topic]} has "
                f"{pluralize(int(partitions[topic]), 'partition')}, and "
                f"{pluralize(brokers, 'broker')} with at least "
                f"{pluralize(int(cluster.min_topic_leaders[topic]), 'leader')} of it need "
                f"{int(needed[topic])}; give the topic more partitions, or ask for fewer leaders"
            )
