"""The best choice of replicas, proven: all in small clusters, racks and counts in larger ones.

    is_placed = place_best(placement, choice, find_band, is_counted)
    make_counts_best(placement, choice)

    1. racks, counts and least bytes by a flow (`flow`)
    2. if that leaves bytes outside the band: an integer program (`byte_program`)

Limits: up to as many replicas to choose as `SearchLimits` say. What is larger, or would fill a disk
too far, is left to the ways of large clusters, which come near; False says so. Where they leave
racks or counts less even than can be, `make_counts_best` finds the nearest choice that is.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from counterpoise.model.columns import Flags, Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.planning.placement import CopyBound, Placement, Roles
from counterpoise.planning.placing.byte_program import BandAnswer, within_band
from counterpoise.planning.placing.choice import ReplicaChoice, stands_of
from counterpoise.planning.placing.flow import (
    are_costs_exact,
    copy_fewest_bytes,
    copy_fewest_replicas,
    nearest_to,
)

_MIN_GAIN: Final = 10  # a tenth
_MAX_SEARCHES: Final = 4
_MAX_CELLS: Final = 300_000  # partitions x brokers of a flow that takes some seconds


def is_affordable(placement: Placement, roles: Roles) -> bool:
    """Return whether a flow over all partitions is."""
    partition_count = int(placement.cluster.may_change.sum())
    brokers_of_each = int(roles.destinations.sum()) + int(placement.replicas.shape[1])
    return partition_count * brokers_of_each <= _MAX_CELLS


def place_best(
    placement: Placement,
    choice: ReplicaChoice,
    find_band: Callable[[Placement], ByteBand],
    is_counted: Flags,
) -> bool:
    """Place replicas as well as can be; False where that would fill a disk too far.

    The placement then knows what any plan as good has to copy.
    """
    if not choice.replica_count:
        return True
    chosen = copy_fewest_bytes(choice)
    if not choice.has_room_for(chosen):
        return False
    fewest = int((copy_fewest_replicas(choice) & ~choice.stands).sum())
    bound = CopyBound(fewest, choice.copied_bytes(chosen), is_reached=True)
    after = placement.copy()
    choice.apply(after, chosen)
    band = find_band(after)
    outside = int(band.bytes_outside(after.bytes_held)[is_counted].sum())
    if outside:
        answer, band = _within_its_band(after, choice, chosen, band, find_band, is_counted)
        bound = CopyBound(fewest, max(bound.bytes, answer.min_copied_bytes), answer.is_proven)
        still_outside = int(band.bytes_outside(after.bytes_held)[is_counted].sum())
        is_start_best = bool((chosen == choice.stands).all())
        is_worth_it = still_outside <= outside - outside // _MIN_GAIN
        if answer.is_proven or not is_start_best or is_worth_it:
            chosen = answer.chosen
    choice.apply(placement, chosen)
    placement.bound = bound
    return True


def _within_its_band(
    after: Placement,
    choice: ReplicaChoice,
    chosen: Flags,
    band: ByteBand,
    find_band: Callable[[Placement], ByteBand],
    is_counted: Flags,
) -> tuple[BandAnswer, ByteBand]:
    """Set the replicas nearest to the band which they themselves have; return answer and band.

    `band` is the one of the replicas as they are before.

    Where not every partition can be on as many racks as it should be, what a rack has to hold, and
    with it each fair share, depends on which partitions are. An answer that changes the band is
    asked for again with the new one; without an end to that it is not proven.
    """
    for _ in range(_MAX_SEARCHES):
        answer = within_band(choice, chosen, band, is_counted)
        choice.apply(after, answer.chosen)
        asked_for, band = band, find_band(after)
        if asked_for.is_about(band):
            return answer, band
    return replace(answer, is_proven=False), band


def solve(
    placement: Placement,
    choose: Callable[[Placement], ReplicaChoice],
    find_band: Callable[[Placement], ByteBand],
    is_counted: Flags,
) -> bool:
    """Place replicas as `place_best` does, and return the same; search on where it is unproven.

    An unproven answer has to take a tenth off what is outside the band, or replicas stay as they
    are in racks and counts that are the best already. So the last search here finds what the first
    one of another plan would find: nothing that is worth a move.
    """
    if not place_best(placement, choose(placement), find_band, is_counted):
        return False
    bound = placement.bound
    for _ in range(_MAX_SEARCHES):
        if placement.bound is None or placement.bound.is_reached:
            break
        again = placement.as_cluster()
        if not place_best(again, choose(again), find_band, is_counted):
            break
        if (again.replicas == placement.replicas).all():
            break
        placement.reset_to(again.replicas)
        placement.bound = again.bound
    if bound is not None and not bound.is_reached:
        placement.bound = bound
    return True


def make_counts_best(placement: Placement, choice: ReplicaChoice) -> None:
    """Change as few replicas as can be until racks and counts are the best that there are."""
    if not are_costs_exact(choice):
        return
    chosen = nearest_to(choice, stands_of(placement, choice.partitions))
    if choice.has_room_for(chosen):
        choice.apply(placement, chosen)


def best_counts(placement: Placement, roles: Roles) -> Ints:
    """Return replicas per broker that no moves between all that share could make more even.

    The cluster has to be small.
    """
    choice = ReplicaChoice.to_even(placement, roles.unrestricted)
    return choice.counts_of(copy_fewest_replicas(choice))
