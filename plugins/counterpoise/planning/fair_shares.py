"""What is fair: the replicas, bytes and traffic that racks and brokers should have in the end.

    fill(10, lower=[0, 0, 0], upper=[2, 9, 9], loads=[2, 7, 1])    # [2, 4, 4]
    wanted = count_targets(placement, roles)
    band = byte_band(placement, roles, tolerance_percent=10)
    TopicShares.of(placement, roles, wanted).lowest(broker)        # one number per topic

By water filling (Cover and Thomas, Elements of Information Theory, chapter 9): pour the total into
vessels that stand side by side; all get the same level, except where the bottom of a vessel is
higher (`lower`) or its rim is lower (`upper`).

    level    = the highest one with: sum of clip(level, lower, upper) <= total
    shares   = clip(level, lower, upper)
    leftover = total - sum of shares
    one unit each of the leftover to the brokers that the next level raises, largest `loads` first

Worked example, total 11, lower [0, 0, 0], upper [2, 9, 9], loads [2, 7, 1]: level 4 takes
2 + 4 + 4 = 10 units, level 5 would take 12, so the level is 4 and one unit is left over. The next
level raises the second and the third broker. The second holds more now (7), so it gets the unit:
[2, 5, 4]. That moves least: it has to give 2 replicas, not 3.

Where disks differ (`model/broker_weight.py`), a broker is filled up to its part of the level. Whole
replicas are shared out as seats are by Webster's method (Balinski and Young, Fair Representation):
the next one goes where (2 x replicas + 1) x (largest disks / own disks) is least, which makes the
sum of replicas^2 x (largest disks / own disks) the least there is. Worked example: 10 replicas on
brokers with disks of 1, 1 and 4 TB: 1.67, 1.67 and 6.67, so 2, 2 and 6, or 1, 2 and 7.

Bounds come from racks (`model/racks.py`), and from brokers: counts of sources may only fall, those
of destinations only rise, brokers that leave get 0. Worked example: brokers 1, 2 and 3 hold 6, 6
and 0 replicas, broker 3 is the only destination: each gets 12 / 3 = 4, so brokers 1 and 2 give two
replicas each.

Limits: bounds that contradict the total win over it. Brokers without a rack count as one rack.
Replicas of partitions that the plan leaves alone stay where they are and are part of each count.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterpoise.model.columns import NOBODY, Flags, Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.model.racks import RackBounds, spread_bounds
from counterpoise.planning.arrays import UNBOUNDED, ClusterArrays
from counterpoise.planning.placement import Placement, Roles

AIM_PERCENT: Final = 75  # of the tolerance of rates, so that slightly other ones start nothing new
_MIN_GAINS_IN_MEAN: Final = 2000
_COST_UNIT: Final = 100  # of a replica on the largest broker: disks are told apart to 1 %


@dataclass(frozen=True, slots=True, eq=False)
class ByteWeights:
    """Shares of bytes in proportion to weights: with 0.5 up to half of the common level."""

    parts: NDArray[np.float64]  # the largest is 1.0

    def at(self, level: int) -> Ints:
        return np.floor(level * self.parts).astype(np.int64)

    def level_above(self, need: int) -> int:
        """Return a level at which every broker has at least that much."""
        return int(need / float(self.parts.min(initial=1.0))) + 1

    def of(self, brokers: Ints) -> "ByteWeights":
        return ByteWeights(self.parts[brokers])


@dataclass(frozen=True, slots=True, eq=False)
class ReplicaWeights:
    """Shares of whole replicas: replica number k + 1 of a broker has the level (2k + 1) x cost."""

    costs: Ints  # of one more replica: the largest weight / the broker's, in hundredths

    def at(self, level: int) -> Ints:
        return np.asarray((level + self.costs) // (2 * self.costs))

    def level_above(self, need: int) -> int:
        return (2 * need + 1) * int(self.costs.max(initial=1))

    def of(self, brokers: Ints) -> "ReplicaWeights":
        return ReplicaWeights(self.costs[brokers])


Weights: TypeAlias = ByteWeights | ReplicaWeights


def fill(total: int, lower: Ints, upper: Ints, loads: Ints, weights: Weights | None = None) -> Ints:
    """Return one share per broker: they sum to `total` and are as even as the bounds allow.

    With `weights` shares are even in proportion to them.
    """
    upper = np.maximum(lower, upper)

    def shares_at(level: int) -> Ints:
        return _clip_level(level, lower, upper, weights)

    level = _max_level(lambda level: _exact_sum(shares_at(level)), total, lower, weights)
    shares = shares_at(level)
    leftover = max(0, total - int(shares.sum()))
    rising = np.flatnonzero(shares_at(level + 1) > shares)
    receiving = _largest_first(rising, loads)[:leftover]
    shares[receiving] += 1
    return shares


def fill_racks(
    loads: Ints,
    lower: Ints,
    upper: Ints,
    racks: Ints,
    rack_bounds: RackBounds,
    weights: Weights | None = None,
    *,
    rounds_down: bool = False,
) -> Ints:
    """Return all loads shared out as `fill` does, where the sum over each rack is bounded as well.

    `racks` has the rack of each broker, `rack_bounds` the smallest and the largest sum per rack.
    First the racks are filled to a common level, then each rack shares its total out among its
    brokers. With `rounds_down` no rack gets a unit of the leftover, so the shares sum to less.

    Worked example: 9 units in all, brokers 0 and 1 in rack 0, broker 2 in rack 1, nothing else
    bounded but rack 1, which may have 2 units at most. Level 3 takes (3 + 3) + 2 = 8 units, level 4
    would take 10, so one is left over; it goes to rack 0, which then shares 7 out: [4, 3, 2].
    """
    total, upper = int(loads.sum()), np.maximum(lower, upper)
    brokers_of_rack = [np.flatnonzero(racks == rack) for rack in range(len(rack_bounds.lowest))]
    min_totals, max_totals = _reachable_bounds(brokers_of_rack, lower, upper, rack_bounds)

    def shares_at(level: int) -> Ints:
        return _clip_level(level, lower, upper, weights)

    def rack_totals_at(level: int) -> Ints:
        rack_totals = _sum_per_rack(brokers_of_rack, shares_at(level))
        return np.asarray(np.clip(rack_totals, min_totals, max_totals), dtype=np.int64)

    level = _max_level(lambda level: _exact_sum(rack_totals_at(level)), total, lower, weights)
    rack_totals = rack_totals_at(level)
    if not rounds_down:
        rack_rise = rack_totals_at(level + 1) - rack_totals
        rising = np.flatnonzero(shares_at(level + 1) > shares_at(level))
        receiving_racks = racks[_largest_first(rising, loads)]
        leftover = total - int(rack_totals.sum())
        rack_totals += _leftover_per_rack(receiving_racks, rack_rise, leftover)
    shares = np.zeros_like(lower)
    for rack, brokers in enumerate(brokers_of_rack):
        shares[brokers] = fill(
            int(rack_totals[rack]),
            lower[brokers],
            upper[brokers],
            loads[brokers],
            None if weights is None else weights.of(brokers),
        )
    return shares


def highest_level(total_at: Callable[[int], int], total: int, low: int, high: int) -> int:
    """Return the highest level from `low` to `high` whose total is at most `total`, by bisection.

    `total_at` must not fall as the level rises, and is taken to be at most `total` at `low`.
    """
    while low < high:
        middle = (low + high + 1) // 2
        if total_at(middle) <= total:
            low = middle
        else:
            high = middle - 1
    return low


def _leftover_per_rack(receiving_racks: Ints, rack_rise: Ints, leftover: int) -> Ints:
    """Return the units of the leftover that each rack gets, no more than it may rise."""
    units = np.zeros_like(rack_rise)
    for rack in receiving_racks.tolist():
        if leftover > 0 and units[rack] < rack_rise[rack]:
            units[rack] += 1
            leftover -= 1
    return units


def _reachable_bounds(
    brokers_of_rack: list[Ints], lower: Ints, upper: Ints, rack_bounds: RackBounds
) -> tuple[Ints, Ints]:
    """Return the bounds per rack, widened where the bounds of its brokers contradict them."""
    lower_sums = np.array([lower[brokers].sum() for brokers in brokers_of_rack], dtype=np.int64)
    upper_sums = _sum_per_rack(brokers_of_rack, upper)
    min_totals = np.minimum(np.maximum(rack_bounds.lowest, lower_sums), upper_sums)
    max_totals = np.maximum(rack_bounds.highest, min_totals)
    return min_totals, max_totals


def _sum_per_rack(brokers_of_rack: list[Ints], values: Ints) -> Ints:
    sums = [min(UNBOUNDED, _exact_sum(values[brokers])) for brokers in brokers_of_rack]
    return np.array(sums, dtype=np.int64)


def _clip_level(level: int, lower: Ints, upper: Ints, weights: Weights | None) -> Ints:
    """Return what each broker has when all are filled up to a level, as far as its bounds allow."""
    weighted_level = level if weights is None else weights.at(level)
    return np.asarray(np.clip(weighted_level, lower, upper), dtype=np.int64)


def _exact_sum(values: Ints) -> int:
    """Return the sum as a Python number: with the highest levels tried, 64 bits overflow."""
    return sum(values.tolist())


def _max_level(
    total_at: Callable[[int], int], total: int, lower: Ints, weights: Weights | None
) -> int:
    """Return the highest level whose total is at most `total`, for shares within bounds."""
    largest_need = max(total, int(lower.max(initial=0)))
    low = int(lower.min(initial=0)) if weights is None else 0
    high = largest_need + 1 if weights is None else weights.level_above(largest_need)
    return highest_level(total_at, total, low, high)


def _largest_first(brokers: Ints, loads: Ints) -> Ints:
    return brokers[np.lexsort((brokers, -loads[brokers]))]


# -- racks


def rack_bounds(placement: Placement, roles: Roles, weights: Ints | None = None) -> RackBounds:
    """Return the bounds per rack in replicas, or in bytes when `weights` are the partitions' sizes.

    Partitions that the plan must leave alone stay where they are. Those that are stacked higher
    than they should be, or that have a replica which stays outside of the brokers that count here,
    may end up anywhere.
    """
    cluster = placement.cluster
    if weights is None:
        weights = np.ones(cluster.partition_count, dtype=np.int64)
    rack_sizes = cluster.rack_sizes(roles.staying)
    replica_counts = placement.replica_counts
    is_spread = placement.rack_moves(roles.staying) == 0
    stays_outside = np.append(~roles.staying & ~roles.leaving, False)
    is_bound = stays_outside[placement.replicas].any(axis=1)
    is_regular = cluster.may_change & is_spread & ~is_bound
    is_anywhere = cluster.may_change & ~is_regular
    lowest, highest = spread_bounds(replica_counts, is_regular, weights, rack_sizes)
    for factor in np.unique(replica_counts[is_anywhere]).tolist():
        weight = int(weights[is_anywhere & (replica_counts == factor)].sum())
        highest += np.minimum(rack_sizes, factor) * weight
    fixed = _fixed_load(placement, weights)
    of_rack = np.zeros_like(highest)
    np.add.at(of_rack, cluster.racks, fixed)
    return RackBounds(lowest + of_rack, highest + of_rack)


# -- counts, bytes and traffic per broker


def count_targets(placement: Placement, roles: Roles, max_counts: Ints | None = None) -> Ints:
    """Return replicas per broker in the end; destinations get no more than their `max_counts`.

    What has come to a broker may go on; what was there before stays, unless the broker is a source.
    A source above the limit of a constraint gives what is too many, as far as others can take it.
    """
    counts, limits = placement.counts, placement.cluster.max_counts
    kept = placement.cluster.load(np.where(placement.is_added, NOBODY, placement.replicas))
    one_of_each = placement.cluster.partition_count
    allowed = one_of_each if max_counts is None else np.minimum(one_of_each, max_counts)
    highest = np.maximum(counts, allowed)
    upper = np.where(roles.destinations, highest, counts)
    fixed = _fixed_load(placement)
    fill_all = partial(
        fill_racks,
        loads=counts,
        lower=np.where(roles.leaving, fixed, np.where(roles.sources, fixed, kept)),
        racks=placement.cluster.racks,
        rack_bounds=rack_bounds(placement, roles),
        weights=replica_weights(placement.cluster, roles),
    )
    upper = np.where(roles.leaving, fixed, upper)
    is_above = roles.sources & (counts > limits)
    if is_above.any():
        targets = fill_all(upper=np.where(is_above, limits, upper))
        if targets.sum() == counts.sum():
            return targets
    return fill_all(upper=upper)


def byte_band(placement: Placement, roles: Roles, tolerance_percent: int) -> ByteBand:
    """Return the fair share of bytes of every broker that shares, and the band around it.

    Shares are as even as the racks and the giants allow, and follow the disk sizes (KIP-827) where
    these differ.
    """
    return shares_of_bytes(placement, roles, tolerance_percent).band


def traffic_band(placement: Placement, roles: Roles, tolerance_percent: int) -> ByteBand:
    """Return each broker's fair share of the traffic, as even as racks and giants allow, and the
    band.
    """
    return _traffic_of(placement, roles, tolerance_percent).band


def min_gain_of(band: ByteBand) -> int:
    """Return the bytes per second below which a gain is not worth a change."""
    return max(1, int(band.fair.max(initial=0)) // _MIN_GAINS_IN_MEAN)


@dataclass(slots=True, eq=False)
class LoadShares:
    """The band of a load per broker, and the giants that make it another one.

    A giant is a replica that is larger than the band of any broker without one. It fills its
    broker, and all others can only share what is left. Worked example: 8, 3, 1, 1, 4 and 2 GB on
    three brokers, 10 % tolerated: a share is 6.3 GB, so the replica of 8 GB has a broker of its
    own. Each broker is to hold 2 replicas, so that one has 1 GB beside it: its band is 8.1 to 9.9,
    and the other two share 10 GB: 4.5 to 5.5 each.
    """

    band: ByteBand
    is_giant: Flags  # per partition
    bottoms: Ints  # per broker: a giant, and the smallest that can be beside it; 0 where none is

    @classmethod
    def of(
        cls,
        placement: Placement,
        roles: Roles,
        weights: Ints,
        band_above: Callable[[Ints], ByteBand],
    ) -> "LoadShares":
        """Return the shares; `band_above` returns the band where no broker has less than that."""
        is_giant = np.zeros(len(weights), dtype=np.bool_)
        bottoms = np.zeros(placement.cluster.broker_count, dtype=np.int64)
        while True:
            band = band_above(bottoms)
            is_free = roles.sharing & (bottoms == 0)
            found = (weights > band.highest[is_free].max(initial=0)) & ~is_giant
            if not is_free.any() or not found.any():
                return cls(band, is_giant, bottoms)
            is_giant |= found
            beside = int(placement.counts[roles.sharing].sum()) // int(roles.sharing.sum()) - 1
            smallest = int(np.sort(weights)[: max(0, beside)].sum())
            for partition in np.flatnonzero(found).tolist():
                row = placement.replicas[partition]
                held_by = row[row >= 0]
                bottoms[held_by] = np.maximum(bottoms[held_by], weights[partition] + smallest)


def shares_of_bytes(placement: Placement, roles: Roles, tolerance_percent: int) -> LoadShares:
    """Return the fair shares of bytes, and which partitions are giants beside them."""
    cluster, bytes_held = placement.cluster, placement.bytes_held
    staying = _fixed_load(placement, cluster.size_bytes)
    fixed = np.where(roles.leaving, staying, bytes_held)  # of brokers that do not share
    bounds = rack_bounds(placement, roles, cluster.size_bytes)
    one_of_each = int(cluster.size_bytes.sum())
    # Small clusters are solved, whatever the shares.
    sizes = np.zeros_like(cluster.size_bytes) if placement.is_small() else cluster.size_bytes

    def band_above(bottoms: Ints) -> ByteBand:
        fair = fill_racks(
            loads=bytes_held,
            lower=np.where(roles.sharing, bottoms, fixed),
            upper=np.where(roles.sharing, one_of_each, fixed),
            racks=cluster.racks,
            rack_bounds=bounds,
            weights=byte_weights(cluster, roles),
        )
        return ByteBand.around(fair, tolerance_percent)

    return LoadShares.of(placement, roles, sizes, band_above)


def _traffic_of(placement: Placement, roles: Roles, tolerance_percent: int) -> LoadShares:
    cluster, traffic = placement.cluster, placement.traffic
    fixed = _fixed_load(placement, cluster.bytes_in)
    bounds = rack_bounds(placement, roles, cluster.bytes_in)

    def band_above(bottoms: Ints) -> ByteBand:
        fair = fill_racks(
            loads=traffic,
            lower=np.where(roles.sharing, np.maximum(bottoms, fixed), traffic),
            upper=np.where(roles.sharing, UNBOUNDED, traffic),
            racks=cluster.racks,
            rack_bounds=bounds,
        )
        return ByteBand.around(fair, tolerance_percent)

    return LoadShares.of(placement, roles, cluster.bytes_in, band_above)


def bytes_outside_band(placement: Placement, roles: Roles, tolerance_percent: int) -> int:
    """Return the bytes that would have to move for every broker that shares to be in its band."""
    band = byte_band(placement, roles, tolerance_percent)
    return int(band.bytes_outside(placement.bytes_held)[roles.sharing].sum())


def _fixed_load(placement: Placement, weights: Ints | None = None) -> Ints:
    """Return what each broker holds of partitions that the plan leaves alone: replicas, or their
    `weights`.
    """
    rows = np.flatnonzero(~placement.cluster.may_change)
    weights_of_rows = None if weights is None else weights[rows]
    return placement.cluster.load(placement.replicas[rows], weights_of_rows)


# -- by disk


def has_equal_shares(cluster: ClusterArrays, roles: Roles) -> bool:
    """Return whether a fair share is the same for all brokers that share."""
    weights = cluster.weights(roles.sharing)[roles.sharing]
    return not len(weights) or bool((weights == weights[0]).all())


def replica_costs(cluster: ClusterArrays, roles: Roles) -> Ints:
    """Return what a replica weighs on each broker: 100 / 100 on the largest, 400 on one with a
    fourth of its disks.

    The sum of replicas x replicas x cost is least where counts are as even as can be.
    """
    weights = cluster.weights(roles.sharing)
    largest = int(weights[roles.sharing].max(initial=1))
    costs = np.rint(largest / weights * _COST_UNIT).astype(np.int64)
    return np.where(roles.sharing, costs, _COST_UNIT)


def uneven_counts(cluster: ClusterArrays, roles: Roles, counts: Ints) -> int:
    """Return how uneven replicas per broker are: the smaller, the more even. Replicas above the
    limit of a constraint weigh more than all else.
    """
    costs = replica_costs(cluster, roles)[roles.sharing].tolist()
    held, limits = counts[roles.sharing].tolist(), cluster.max_counts[roles.sharing].tolist()
    too_many: int = sum(max(0, count - most) for count, most in zip(held, limits, strict=True))
    heaviest: int = sum(held) ** 2 * max(costs, default=0)
    uneven: int = sum(count * count * cost for count, cost in zip(held, costs, strict=True))
    return too_many * heaviest + uneven


def replica_weights(cluster: ClusterArrays, roles: Roles) -> ReplicaWeights | None:
    """Return the weights of shares of replicas; None where all shares are the same."""
    if has_equal_shares(cluster, roles):
        return None
    return ReplicaWeights(replica_costs(cluster, roles))


def byte_weights(cluster: ClusterArrays, roles: Roles) -> ByteWeights | None:
    """Return the weights of shares of bytes; None where all shares are the same."""
    if has_equal_shares(cluster, roles):
        return None
    weights = cluster.weights(roles.sharing)
    return ByteWeights(np.where(roles.sharing, weights / weights[roles.sharing].max(), 1.0))


# -- topics


@dataclass(frozen=True, slots=True, eq=False)
class TopicShares:
    """The shares of all brokers in all topics: of each as large a part as of all replicas.

    Worked example: broker 3 is to hold 4 of all 12 replicas. Of a topic with 7 replicas its share
    is 7 x 4 / 12 = 2.33: 2 at least, 3 at most.
    """

    totals: Ints  # per topic: replicas on the brokers that share
    wanted: Ints  # per broker: replicas in the end
    wanted_total: int

    @classmethod
    def of(cls, placement: Placement, roles: Roles, wanted: Ints) -> "TopicShares":
        is_holding = roles.sharing | roles.leaving
        totals = placement.topic_counts[:, is_holding].sum(axis=1, dtype=np.int64)
        wanted_total = max(1, int(wanted[roles.sharing].sum()))
        return cls(totals, wanted, wanted_total)

    def lowest(self, brokers: Ints | int) -> Ints:
        """Return shares rounded down: one per topic; a column per broker if there are several."""
        products = np.multiply.outer(self.totals, self.wanted[brokers])
        return np.asarray(products // self.wanted_total)

    def highest(self, brokers: Ints | int) -> Ints:
        """Return shares rounded up."""
        products = np.multiply.outer(self.totals, self.wanted[brokers])
        return np.asarray(-(-products // self.wanted_total))

    def harm(self, placement: Placement, partitions: Ints, source: int, destination: int) -> Ints:
        """Return, per partition, how many of the two brokers would leave their topic's share.

        It is 0, 1 or 2: by a move to the destination it may get too many, and the source too few.
        """
        topics = placement.cluster.topic_numbers[partitions]
        too_many = placement.topic_counts[topics, destination] >= self.highest(destination)[topics]
        too_few = placement.topic_counts[topics, source] <= self.lowest(source)[topics]
        return np.asarray(too_many.astype(np.int64) + too_few)
