"""The demo's topics, with uneven leaders and sizes.

There are three brokers and three replicas of each partition. Broker 1 leads two thirds of the
partitions, and the first partitions of each topic are the large ones.
"""

from dev.local_kafka import TopicSpec
from dev.local_kafka.load import MB

BROKERS = (1, 2, 3)
LEADERS = (1, 1, 2, 1, 3, 1)  # of partitions 0, 1, ..., and again from the start
BUSY_TOPIC = "orders"  # a producer keeps writing to it

# By topic, the megabytes of each partition.
MEGABYTES = {
    "orders": (20, 16, 12, 8, 6, 4, 4, 4, 2, 2, 2, 2),
    "clicks": (8, 8, 6, 6, 4, 4, 3, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1),
    "payments": (6, 4, 4, 2, 2, 2),
    "audit-log": (6, 2, 2, 2),
}
TOTAL_MEGABYTES = sum(sum(sizes) for sizes in MEGABYTES.values())


def topics() -> list[TopicSpec]:
    """Return the topics to create, with three replicas and a min ISR of two."""
    return [
        TopicSpec(
            name,
            [_replicas(number) for number in range(len(sizes))],
            configs={"min.insync.replicas": "2"},
        )
        for name, sizes in MEGABYTES.items()
    ]


def partition_bytes(topic: str) -> dict[int, int]:
    """Return the bytes to write to each partition of a topic."""
    return {number: megabytes * MB for number, megabytes in enumerate(MEGABYTES[topic])}


def _replicas(number: int) -> tuple[int, ...]:
    leader = LEADERS[number % len(LEADERS)]
    others = [broker_id for broker_id in BROKERS if broker_id != leader]
    return (leader, *(others if number % 2 else reversed(others)))
