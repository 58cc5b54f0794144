"""Clusters whose responses contradict themselves: their snapshots are bad.

name_a_broker_twice(kafka, "orders", monkeypatch)
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from counterpoise.model.kafka import TopicDescription
from tests.simulated_kafka.cluster import SimulatedCluster


def name_a_broker_twice(
    kafka: SimulatedCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster tells of a partition that has two replicas on one broker."""
    describe = kafka.describe_topics

    def contradict(topics: Sequence[str] | None = None) -> tuple[TopicDescription, ...]:
        return tuple(
            replace(
                described,
                partitions=tuple(
                    replace(partition, replicas=(*partition.replicas, partition.replicas[0]))
                    for partition in described.partitions
                ),
            )
            if described.topic == topic
            else described
            for described in describe(topics)
        )

    monkeypatch.setattr(kafka, "describe_topics", contradict)
