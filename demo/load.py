"""The demo's topics: real records, unevenly led and of uneven size on purpose.

Three brokers, three copies of everything: broker 1 leads more than half of the partitions, and the
first partitions of each topic are the large ones.
"""

from local_kafka import TopicSpec
from local_kafka.load import MB

BROKERS = (1, 2, 3)
LEADERS = (1, 1, 2, 1, 3, 1)  # by turns; the others follow
BUSY_TOPIC = "orders"  # somebody keeps writing here

# topic: megabytes by partition
MEGABYTES = {
    "orders": (20, 16, 12, 8, 6, 4, 4, 4, 2, 2, 2, 2),
    "clicks": (8, 8, 6, 6, 4, 4, 3, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1),
    "payments": (6, 4, 4, 2, 2, 2),
    "audit-log": (6, 2, 2, 2),
}
TOTAL_MEGABYTES = sum(sum(sizes) for sizes in MEGABYTES.values())


def topics() -> list[TopicSpec]:
    """What to create, with what production should have: three copies, two of them in sync."""
    return [
        TopicSpec(
            name,
            [_replicas(number) for number in range(len(sizes))],
            configs={"min.insync.replicas": "2"},
        )
        for name, sizes in MEGABYTES.items()
    ]


def partition_bytes(topic: str) -> dict[int, int]:
    """How much to write to each partition of a topic."""
    return {number: megabytes * MB for number, megabytes in enumerate(MEGABYTES[topic])}


def _replicas(number: int) -> tuple[int, ...]:
    leader = LEADERS[number % len(LEADERS)]
    others = [broker_id for broker_id in BROKERS if broker_id != leader]
    return (leader, *(others if number % 2 else reversed(others)))
