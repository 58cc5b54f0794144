"""What a plan warns of because of the topics that it is about."""

import numpy as np

from counterpoise.model.movement import COORDINATOR_TOPICS
from counterpoise.model.words import pluralize
from counterpoise.planning.explanation.planning_result import PlanningResult


def without_topic_ids(result: PlanningResult) -> str:
    topic_ids = result.snapshot.topic_ids
    planned = np.unique(result.cluster.topic_numbers[result.assignment.is_in_plan])
    names = [result.cluster.topic_names[number] for number in planned]
    without = [name for name in names if topic_ids.get(name) == ""]
    if not without:
        return ""
    return (
        f"the brokers give no ids of {pluralize(len(without), 'topic')} (inter-broker protocol "
        "before 2.8): one that is deleted and made again under its name is not recognised as "
        "another, and the run would go on with it"
    )


def coordinators(result: PlanningResult) -> str:
    cluster = result.cluster
    names = [name for name in cluster.topic_names if name in COORDINATOR_TOPICS]
    numbers = [cluster.topic_names.index(name) for name in names]
    is_touched = result.assignment.is_in_plan & np.isin(cluster.topic_numbers, numbers)
    count = int(is_touched.sum())
    if not count:
        return ""
    topics = ", ".join(names)
    touched = pluralize(count, f"partition of {topics} is", f"partitions of {topics} are")
    return (
        f"{touched} touched: where their leader changes, groups and transactions find a new "
        "coordinator, which takes clients a moment"
    )


def tiered(result: PlanningResult) -> str:
    cluster, tiered = result.cluster, result.snapshot.tiered_topics
    if not tiered:
        return ""
    is_tiered = np.array([name in tiered for name in cluster.topic_names], dtype=np.bool_)
    is_copied = result.assignment.is_added.any(axis=1) & is_tiered[cluster.topic_numbers]
    return result.name_partitions(
        np.flatnonzero(is_copied),
        "has tiered storage: bytes, time and disks are of what is local, the rest stays remote",
        "have tiered storage: bytes, time and disks are of what is local, the rest stays remote",
    )
