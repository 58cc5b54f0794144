"""Kafka's own reassignment JSON, as `kafka-reassign-partitions` reads and writes it.

{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [4, 2, 3]}]}
"""

import json

from counterpoise.errors import InputError
from counterpoise.model.cluster import TopicPartition, is_id
from counterpoise.model.plan import RebalancePlan


def to_reassignment_json(plan: RebalancePlan, *, undo: bool = False) -> str:
    """The plan's target, or with `undo` the assignment to go back to.

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
    """The wanted replicas by partition.

    Raises InputError for anything Kafka's tool would not read, all at once.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON ({error})") from None
    if not isinstance(document, dict) or not isinstance(document.get("partitions"), list):
        raise InputError(
            f'{where}: no "partitions" list; it should look like kafka-reassign-partitions\' own file'
        )
    if document.get("version") != 1 or document["version"] is True:
        raise InputError(
            f"{where}: version is {document.get('version')!r}; only version 1 is known"
        )
    wanted: dict[TopicPartition, tuple[int, ...]] = {}
    complaints: list[str] = []
    for index, row in enumerate(document["partitions"]):
        complaint = _complaint(row)
        if complaint:
            complaints.append(f"partitions[{index}]: {complaint}")
            continue
        key = TopicPartition(row["topic"], row["partition"])
        if key in wanted:
            complaints.append(f"partitions[{index}]: {key} is named twice")
        wanted[key] = tuple(row["replicas"])
    if complaints:
        raise InputError(
            "\n".join(
                [f"{where}: {len(complaints)} problem(s)", *(f"  {c}" for c in complaints[:20])]
            )
        )
    return wanted


def _complaint(row: object) -> str | None:
    if (
        not isinstance(row, dict)
        or not isinstance(row.get("topic"), str)
        or type(row.get("partition")) is not int
    ):
        return "needs a topic (text) and a partition (whole number)"
    if not is_id(row["partition"]):
        return f"{row['topic']}: partition {row['partition']} is no number from 0 to 2147483647"
    replicas = row.get("replicas")
    if not isinstance(replicas, list) or not replicas or not all(is_id(b) for b in replicas):
        return (
            f"{row['topic']}-{row['partition']}: replicas must be a list of one or more broker ids"
        )
    if len(set(replicas)) != len(replicas):
        return f"{row['topic']}-{row['partition']}: a broker is listed twice in {replicas}"
    return None
