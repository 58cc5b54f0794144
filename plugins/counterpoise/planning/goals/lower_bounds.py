"""Lower bounds: what any plan that reaches a goal has to copy, and how even leaders can be.

    evening_bound(result)              # of the whole goal
    reached_bound(result, needed)      # of what the plan reaches

The lower bound is what any plan that reaches the goal within its scope has to copy, and how even
leaders can be at best. Goals that copy certain replicas (drain, repair, a higher factor, a plan
that is imported) copy these and nothing else; goals about leaders copy nothing. For goals that even
the cluster out:

    shares     = water filling of all replicas over racks and brokers, within what may move
    a destination misses at least its share - what it holds
    a source has to give at least what it holds - its share rounded up, as far as there is room
    bound      = the larger of the sums of the two, in each rack if replicas cannot cross racks

Worked example: brokers 1, 2 and 3 (new) hold 6, 6 and 0 replicas. The shares are 4, 4 and 4: broker
3 misses 4, the others have 2 + 2 too many, so at least 4 replicas are copied.

Why no plan does with less:

- Counts. The sum over a rack is bounded: a partition on as many racks as it can be on stays so, so
  each rack has the least to the most of it that `bounds_of_partition` gives; one that must be left
  alone, or of which every destination has a replica, has what it has. On a broker there is at least
  what may not leave it, and at most one replica of each partition. Under such nested bounds the
  most even counts are unique, except for the leftover units; where those stay with the brokers that
  hold most now, the fewest have to arrive. So each destination misses at least what it has less
  than there.
- Surplus. A broker that holds more than that has to give it, as far as the destinations have room
  below their share, rounded up. Where each rack holds a fixed number of each partition, no replica
  crosses racks, and all this holds rack by rack.
- Stacked partitions may be spread or stay as they are. Both ways are counted, and per rack the
  smaller one.
- Bytes. The same with sizes for units; a destination has to reach (1 - tolerance) of its share, and
  a broker that holds more than (1 + tolerance) has to give the rest. Whole partitions only make it
  more. Where replicas are larger than a share, each fills its broker, and the others share what is
  left. Any broker then has to reach the band of the others, whichever of them hold the large ones;
  what has to be given is not counted, since a broker may get a large one instead. Where shares
  differ, this holds for plans that leave the large ones where they are.
- Leaders. Partitions whose leader has to stay are fixed; the others are filled on top. With nothing
  fixed that is the mean, rounded down and up.
- Broker sets. What stands outside of its set leaves its broker, and is part of what arrives.
- Racks. Each copy takes one replica from a rack to another.

A plan below these bounds stopped before the goal was reached; `reached_bound` is for what it does.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from counterpoise.model.columns import NOBODY, Flags, Ints
from counterpoise.model.plan import LowerBound
from counterpoise.model.racks import RackBounds, spread_bounds
from counterpoise.planning.broker_sets import BrokerSetPart
from counterpoise.planning.fair_shares import (
    Weights,
    byte_weights,
    fill_racks,
    has_equal_shares,
    replica_weights,
    shares_of_bytes,
    uneven_counts,
)
from counterpoise.planning.placement import Placement
from counterpoise.planning.planning_result import PlanningResult, min_leader_range


def reached_bound(result: PlanningResult, needed: LowerBound) -> LowerBound:
    """Return what any plan copies that gets as far as this one.

    `needed` is what the whole goal takes. What the plan takes is known exactly where it is the best
    there is. Else, where counts or bytes are less even than they could be, it is what arrives at
    each broker more than leaves it. A linear program may say that it is more bytes. The plan itself
    shows that no more than it copies is needed.
    """
    after, before = result.after, result.before
    if after.bound is not None:
        # The program's sizes are rounded: a plan in the band takes what the whole goal takes.
        known_bytes = 0 if len(result.out_of_band) else needed.bytes
        copied_bytes = max(after.bound.bytes, known_bytes)
        return replace(needed, replicas=after.bound.replicas, bytes=copied_bytes)
    cluster, roles, sizes = result.cluster, result.roles, result.cluster.size_bytes
    reached, best = (
        uneven_counts(cluster, roles, counts) for counts in (after.counts, result.best_counts)
    )
    is_even = reached <= best
    more_counts = int(np.maximum(0, after.counts - before.counts).sum())
    more_bytes = int(np.maximum(0, after.bytes_held - before.bytes_held).sum())
    racks_gained = result.rack_moves_before - result.rack_moves_after
    cures = np.maximum(0, racks_gained * cluster.may_change)
    replicas = needed.replicas if is_even else more_counts
    copied_bytes = more_bytes if len(result.out_of_band) else needed.bytes
    copied_bytes = max(copied_bytes, after.min_copied_bytes)
    copied = result.assignment.is_added.sum(axis=1)
    return replace(
        needed,
        replicas=min(int(copied.sum()), max(replicas, int(cures.sum()))),
        bytes=min(int((copied * sizes).sum()), max(copied_bytes, int((cures * sizes).sum()))),
    )


def evening_bound(result: PlanningResult) -> LowerBound:
    """Return the bounds for goals about evenness; of all broker sets together."""
    percent = result.request.policy.bytes_tolerance_percent
    copies = [_least_copies(part, percent) for part in result.parts]
    replicas = sum(replicas for replicas, _ in copies)
    copied_bytes = sum(copied_bytes for _, copied_bytes in copies)
    return LowerBound(replicas, copied_bytes, min_leader_range(result))


def _least_copies(part: BrokerSetPart, percent: int) -> tuple[int, int]:
    """Return the bounds of one broker set in replicas and bytes, or those of rack cures."""
    cures = part.rack_moves_before * part.cluster.may_change
    sizes = part.cluster.size_bytes
    of_replicas = replica_weights(part.cluster, part.roles)
    of_bytes = byte_weights(part.cluster, part.roles)
    no_giants = np.zeros(part.cluster.broker_count, dtype=np.int64)
    giants = shares_of_bytes(part.before, part.roles, percent).bottoms
    needed = _units_to_copy(part, np.ones_like(sizes), of_replicas, 0, no_giants)
    needed_bytes = _units_to_copy(part, sizes, of_bytes, percent, giants)
    outside = np.minimum(part.before.count_on(part.roles.leaving), part.free_destinations)
    outside *= part.cluster.may_change
    replicas = max(int(cures.sum()), int(outside.sum()), needed)
    return replicas, max(int((cures * sizes).sum()), int((outside * sizes).sum()), needed_bytes)


def _units_to_copy(
    part: BrokerSetPart,
    units: Ints,
    weights: Weights | None,
    tolerance_percent: int,
    giants: Ints,
) -> int:
    """Return the units that have to arrive until the brokers that share are even.

    `units` has one, or the bytes, of each partition; `giants` what a broker holds that is more than
    a share, 0 where nothing is.
    """
    cluster, before, roles = part.cluster, part.before, part.roles
    if not roles.sharing.any():
        return 0
    free_destinations = part.free_destinations
    can_move = cluster.may_change & (free_destinations > 0)
    loads = cluster.load(before.replicas, units)
    movable = cluster.load(np.where(can_move[:, None], before.replicas, NOBODY), units)
    kept = loads - movable
    lower = np.where((roles.sharing & roles.sources) | roles.leaving, kept, loads)
    upper = np.where(roles.leaving, kept, loads)
    upper = np.where(roles.sharing, kept + int(units[can_move].sum()), upper)
    lower = np.where(roles.sharing, np.maximum(lower, giants), lower)
    upper = np.maximum(upper, lower)
    missing = []
    for rack_bounds in _possible_rack_bounds(part, units, can_move):
        shares = fill_racks(
            loads, lower, upper, cluster.racks, rack_bounds, weights, rounds_down=True
        )
        per_rack = rack_bounds.is_closed
        if giants.any():
            # Whoever holds a giant has more than the band of the others, and misses nothing.
            shares = np.where(giants > 0, np.minimum(shares, loads), shares)
        per_group = _missing_units(
            part,
            loads,
            shares,
            tolerance_percent,
            per_rack=per_rack,
            counts_surplus=not giants.any(),
        )
        missing.append(per_group)
    may_go = np.minimum(free_destinations, before.count_on(roles.sources))
    at_most = int((may_go * units)[can_move].sum())
    if len({len(per_group) for per_group in missing}) == 1:
        return min(at_most, int(np.minimum.reduce(missing).sum()))
    return min(at_most, *(int(per_group.sum()) for per_group in missing))


def _missing_units(
    part: BrokerSetPart,
    loads: Ints,
    shares: Ints,
    tolerance_percent: int,
    *,
    per_rack: bool,
    counts_surplus: bool,
) -> Ints:
    """Return what destinations miss, or others have to give as far as there is room.

    One entry per rack, or one in all.
    """
    cluster, roles = part.cluster, part.roles
    lowest = shares - shares * tolerance_percent // 100
    has_no_leftover = not tolerance_percent and (per_rack or shares.sum() == loads.sum())
    has_no_leftover &= has_equal_shares(cluster, roles)
    round_up = _has_peer_with_one_more(part, shares) if has_no_leftover else 1
    rounded_up = shares + round_up
    highest = rounded_up + rounded_up * tolerance_percent // 100
    groups = cluster.racks if per_rack else np.zeros_like(cluster.racks)

    def sum_above_zero(values: Ints, is_counted: Flags) -> Ints:
        sums = np.zeros(int(groups.max()) + 1, dtype=np.int64)
        np.add.at(sums, groups[is_counted], np.maximum(0, values[is_counted]))
        return sums

    everywhere = np.ones_like(roles.sharing)
    missing = sum_above_zero(lowest - loads, roles.destinations)
    if not counts_surplus:
        return missing
    room = sum_above_zero(highest - loads, roles.destinations)
    held_in_all = sum_above_zero(loads, everywhere)
    shares_in_all = sum_above_zero(shares, everywhere)
    leaves_group = np.maximum(0, held_in_all - shares_in_all)
    surplus = sum_above_zero(loads - highest, roles.sharing & roles.sources) - leaves_group
    return np.asarray(np.maximum(missing, np.minimum(surplus, room)))


def _has_peer_with_one_more(part: BrokerSetPart, shares: Ints) -> Flags:
    """Return whether another broker of the rack has a share that is one more.

    Then this one is rounded down, and that one up.
    """
    keys = part.cluster.racks * (int(shares.max()) + 2) + shares
    return np.isin(keys + 1, keys[part.roles.sharing])


def _possible_rack_bounds(
    part: BrokerSetPart, units: Ints, can_move: Flags
) -> Iterator[RackBounds]:
    """Yield the least and the most units per rack: where stacked partitions stay, and where not.

    Partitions with a replica that cannot leave its broker are treated like stacked ones. Those with
    one that has to leave it, for its broker set, may stand on any rack.
    """
    before, counts = part.before, part.before.replica_counts
    rack_sizes = part.cluster.rack_sizes(part.roles.staying)
    roles = part.roles
    is_bound = ~np.append(roles.sharing | roles.leaving, True)[before.replicas].all(axis=1)
    is_going = can_move & ~is_bound & (before.count_on(roles.leaving) > 0)
    is_spread = part.rack_moves_before == 0
    is_regular = can_move & is_spread & ~is_bound & ~is_going
    is_uncertain = can_move & ~is_regular & ~is_going
    regular_low, regular_high = spread_bounds(counts, is_regular, units, rack_sizes)
    spread_low, spread_high = spread_bounds(counts, is_uncertain & ~is_bound, units, rack_sizes)
    fixed = _units_per_rack(before, ~can_move, units, len(rack_sizes))
    lowest, highest = fixed + regular_low, fixed + regular_high
    for factor in np.unique(counts[is_going]).tolist():
        going_units = int(units[is_going & (counts == factor)].sum())
        highest = highest + np.minimum(rack_sizes, factor) * going_units
    if not is_uncertain.any():
        yield RackBounds(lowest, highest)
        return
    staying = _units_per_rack(before, is_uncertain, units, len(rack_sizes))
    yield RackBounds(lowest + staying, highest + staying)
    bound = _units_per_rack(before, is_uncertain & is_bound, units, len(rack_sizes))
    bound_high = bound + int(units[is_uncertain & is_bound].sum())
    yield RackBounds(lowest + spread_low, highest + spread_high + bound_high)


def _units_per_rack(before: Placement, is_counted: Flags, units: Ints, rack_count: int) -> Ints:
    """Return the units per rack of the given partitions, where they are now."""
    racks = before.racks_by_position[before.replicas[is_counted]]
    units_of_replicas = np.broadcast_to(units[is_counted][:, None], racks.shape)
    is_held = racks >= 0
    total = np.zeros(rack_count, dtype=np.int64)
    np.add.at(total, racks[is_held], units_of_replicas[is_held])
    return total
