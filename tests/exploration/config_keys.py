"""Config keys of the simulated cluster, by resource and name, and their entries."""

from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import ConfigResource
from tests.exploration.points import REASSIGNMENTS
from tests.simulated_kafka.cluster import SimulatedCluster

Key = tuple[ConfigResource, str]


def settings_of(cluster: SimulatedCluster) -> dict[Key, str]:
    return {(r, k): v for r, values in cluster.configs.dynamic.items() for k, v in values.items()}


def entries_of(value: str | None) -> list[str]:
    return [entry for entry in (value or "").split(",") if entry]


def named(key: Key) -> str:
    return f"{key[0].type} {key[0].name} {key[1]}"


def kind_of(what: TopicPartition | Key) -> str:
    """What has to be read to see that somebody else changed this."""
    return REASSIGNMENTS if isinstance(what, TopicPartition) else str(what[0].type)
