"""Several new replicas of a partition: one goes home, and another partition's takes its place.

    for each partition p with several new replicas, for each of them, on broker x:
        for each broker s that p leaves: a partition q on s without a new replica, no larger than p
            p stays on s, and the replica of q goes from s to x: as many copies, and no more bytes

Worked example: brokers 1 and 2 hold p and q, 3 and 4 are new and get both replicas of p. Instead p
gets one on 3, and q one on 4: each keeps an old replica beside its copy.

Only where racks, topics, bytes and traffic stay as even; counts stay what they are. Limits: in
large clusters not all partitions with several new replicas are looked at.
"""

from typing import NamedTuple

import numpy as np

from counterpoise.model.columns import Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.model.policy import BalancePolicy
from counterpoise.planning.fair_shares import byte_band, traffic_band
from counterpoise.planning.placement import Placement, Replicas, Roles

_MAX_TRIED = 8  # partitions, for each pair of brokers
_MAX_LOOKED_AT = 1_000  # partitions with several new replicas


def spread_new_replicas(placement: Placement, roles: Roles, policy: BalancePolicy) -> None:
    """Move new replicas to partitions that have none, as long as that costs nothing."""
    cluster, bound = placement.cluster, placement.bound
    several = np.flatnonzero((placement.new_replicas > 1) & cluster.may_change)
    if not len(several):
        return
    percent = policy.bytes_tolerance_percent
    loads = [_Load(cluster.size_bytes, placement.bytes_held, byte_band(placement, roles, percent))]
    if cluster.knows_traffic:
        band = traffic_band(placement, roles, policy.bytes_in_tolerance_percent)
        loads.append(_Load(cluster.bytes_in, placement.traffic, band))
    is_old = cluster.may_change & (placement.new_replicas == 0)
    held_by = [held.partitions for held in placement.replicas_by_broker(is_old[:, None])]
    for partition in several[:_MAX_LOOKED_AT].tolist():
        while placement.new_replicas[partition] > 1:
            exchange = _find(placement, partition, held_by, loads)
            if exchange is None:
                break
            _take(placement, partition, exchange, loads)
    placement.bound = bound


class _Load(NamedTuple):
    """Bytes, or bytes per second: of each partition, and of each broker with its band."""

    weights: Ints
    held: Ints
    band: ByteBand

    def is_as_even(self, partition: int, exchange: "_Exchange") -> bool:
        """Return whether the two brokers are as near to their bands afterwards."""
        shift = int(self.weights[partition] - self.weights[exchange.other])
        pair = exchange.destination, exchange.home
        outside = self.band.outside_of_two(self.held, *pair, np.array([0, shift]))
        return bool(outside[1] <= outside[0])


class _Exchange(NamedTuple):
    """A new replica goes home from `destination`, and one of the other partition comes there."""

    destination: int
    home: int
    other: int


def _find(
    placement: Placement, partition: int, held_by: list[Ints], loads: list[_Load]
) -> _Exchange | None:
    """Return the first exchange that leaves everything as even, if there is one."""
    row, before = placement.replicas[partition], placement.original[partition]
    for home in before[(before >= 0) & ~np.isin(before, row)].tolist():
        for destination in row[~np.isin(row, before)].tolist():
            if not _suits(placement, partition, destination, home):
                continue
            for other in _others(placement, partition, destination, home, held_by[home]):
                exchange = _Exchange(destination, home, other)
                is_as_even = all(load.is_as_even(partition, exchange) for load in loads)
                if is_as_even and _suits(placement, other, home, destination):
                    return exchange
    return None


def _others(
    placement: Placement, partition: int, destination: int, home: int, at_home: Ints
) -> list[int]:
    """Return partitions that may give their replica at home to the destination, largest first."""
    cluster, counts = placement.cluster, placement.topic_counts
    topic, size_bytes = int(cluster.topic_numbers[partition]), cluster.size_bytes[partition]
    topics, sizes = cluster.topic_numbers[at_home], cluster.size_bytes[at_home]
    may = (topics == topic) | (counts[topics, destination] < counts[topics, home])
    found = at_home[may & (sizes <= size_bytes) & (placement.new_replicas[at_home] == 0)]
    found = found[~(placement.replicas[found] == destination).any(axis=1)]
    is_another_topic = cluster.topic_numbers[found] != topic
    order = np.lexsort((found, -cluster.size_bytes[found], is_another_topic))
    return list(found[order[:_MAX_TRIED]].tolist())


def _suits(placement: Placement, partition: int, source: int, destination: int) -> bool:
    """Return whether a replica may go from one broker to another, as far as racks go."""
    position = np.flatnonzero(placement.replicas[partition] == source)
    replica = Replicas(np.array([partition]), position)
    return bool(placement.suits(replica, int(placement.cluster.racks[destination]))[0])


def _take(placement: Placement, partition: int, exchange: _Exchange, loads: list[_Load]) -> None:
    destination, home, other = exchange
    if partition in placement.traffic_gains:
        placement.traffic_gains.setdefault(other, 0)  # the gain stays with the first
    for load in loads[1:]:  # bytes are the placement's own
        shift = load.weights[partition] - load.weights[other]
        load.held[[destination, home]] += (-shift, shift)
    row = placement.replicas[partition]
    placement.give(partition, int(np.flatnonzero(row == destination)[0]), home)
    row = placement.replicas[other]
    placement.give(other, int(np.flatnonzero(row == home)[0]), destination)
