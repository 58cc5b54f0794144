"""How fast replicas copy in a simulated cluster: the least of what the two ends give, throttles
included (KIP-73).

    speeds(transfers(partitions, configs, live_brokers), configs, full_speed=100e6)

A replica is slowed only when its topic's list names it *and* its broker has a rate. Each broker
shares its full speed evenly among all copies, and its rate evenly among the throttled ones.

Limits: Kafka's own sharing is by who asks first; over some seconds it comes to the same.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from counterpoise.kafka_admin.simulated_configs import SimulatedConfigs
from counterpoise.kafka_admin.simulated_partition import SimulatedPartition
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS

Link = tuple[str, int]  # what is shared: a direction or a throttle, of one broker


@dataclass(frozen=True, slots=True)
class Transfer:
    """A replica that copies from the leader, and all that it shares with others."""

    key: TopicPartition
    destination: int
    links: tuple[Link, ...]


def transfers(
    partitions: Mapping[TopicPartition, SimulatedPartition],
    configs: SimulatedConfigs,
    up: Collection[int],
) -> Iterator[Transfer]:
    """The copies under way: from leaders that are up, to replicas that are up and behind."""
    for key, partition in partitions.items():
        source = partition.leader
        if source is None or source not in up:
            continue
        for to in partition.behind(up):
            links: list[Link] = [("out", source), ("in", to)]
            links += (
                [(LEADER_RATE, source)]
                if _is_slowed(configs, key, source, LEADER_REPLICAS, LEADER_RATE)
                else []
            )
            links += (
                [(FOLLOWER_RATE, to)]
                if _is_slowed(configs, key, to, FOLLOWER_REPLICAS, FOLLOWER_RATE)
                else []
            )
            yield Transfer(key, to, tuple(links))


def _is_slowed(
    configs: SimulatedConfigs, key: TopicPartition, broker_id: int, list_key: str, rate_key: str
) -> bool:
    return configs.rate(broker_id, rate_key) is not None and configs.throttles(
        key.topic, key.partition, broker_id, list_key
    )


def speeds(
    under_way: Sequence[Transfer], configs: SimulatedConfigs, full_speed: float
) -> list[tuple[Transfer, float]]:
    """Bytes per second of each."""
    counts: dict[Link, int] = {}
    for transfer in under_way:
        for link in transfer.links:
            counts[link] = counts.get(link, 0) + 1

    def share(link: Link) -> float:
        kind, broker_id = link
        rate = configs.rate(broker_id, kind) if kind in (LEADER_RATE, FOLLOWER_RATE) else full_speed
        return float(rate or 0) / counts[link]

    return [(transfer, min(share(link) for link in transfer.links)) for transfer in under_way]
