"""Kafka's own reassignment JSON, as `kafka-reassign-partitions` reads and writes it.

    from_reassignment_json('{"version": 1, "partitions": [{"topic": "orders", "partition": 0, ...')
    # {TopicPartition("orders", 0): (4, 2, 3)}

Limits: only version 1 is known; keys that we do not need, such as log_dirs, are ignored.
"""

import json
from dataclasses import dataclass

from counterpoise.errors import InputError, list_complaints
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.json_values import Id, JsonValueError, read_json
from counterpoise.model.plan import RebalancePlan


@dataclass(frozen=True, slots=True)
class _Target:
    topic: str
    partition: Id
    replicas: tuple[Id, ...]


@dataclass(frozen=True, slots=True)
class _Reassignment:
    version: int
    partitions: tuple[_Target, ...]


def to_reassignment_json(plan: RebalancePlan, *, undo: bool = False) -> str:
    """Return the plan's target, or with `undo` the assignment to go back to.

    An empty plan gives an empty list.
    """
    partitions = [
        {
            "topic": move.topic,
            "partition": move.partition,
            "replicas": list(move.replicas_before if undo else move.replicas_after),
        }
        for move in plan.moves
    ]
    rows = ",\n".join(f"  {json.dumps(row)}" for row in partitions)
    return '{"version": 1, "partitions": [' + (f"\n{rows}\n" if rows else "") + "]}\n"


def from_reassignment_json(
    text: str, *, where: str = "reassignment"
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the target replicas by partition.

    Raises InputError for anything Kafka's tool would not read, all at once.
    """
    try:
        reassignment = read_json(_Reassignment, text)
    except JsonValueError as error:
        what = f"{where}: not what kafka-reassign-partitions reads"
        raise InputError(list_complaints(what, error.complaints)) from None
    if reassignment.version != 1:
        raise InputError(f"{where}: version is {reassignment.version}; only version 1 is known")
    targets: dict[TopicPartition, tuple[int, ...]] = {}
    complaints: list[str] = []
    for index, target in enumerate(reassignment.partitions):
        partition = TopicPartition(target.topic, target.partition)
        place = f"partitions[{index}]: {partition}"
        if partition in targets:
            complaints.append(f"{place} is listed twice")
        if not target.replicas:
            complaints.append(f"{place} has no replicas")
        if len(set(target.replicas)) != len(target.replicas):
            complaints.append(f"{place}: a broker is listed twice in {list(target.replicas)}")
        targets[partition] = target.replicas
    if complaints:
        raise InputError(list_complaints(where, complaints))
    return targets
