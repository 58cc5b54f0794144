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
from typing import Final

from counterpoise.model.columns import Flags, Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.planning.placement import CopyBound, Placement, Roles
from counterpoise.planning.placing.byte_program import within_band
from counterpoise.planning.placing.choice import ReplicaChoice
from counterpoise.planning.placing.flow import (
    are_costs_exact,
    copy_fewest_bytes,
    copy_fewest_replicas,
    nearest_to,
)
from counterpoise.planning.search_limits import USUAL

_MAX_CELLS: Final = 300_000  # partitions x brokers of a flow that takes some seconds


def is_small(placement: Placement, is_chosen: Flags | None = None) -> bool:
    """Return whether the replicas that are chosen, of some partitions or of all, are so few."""
    is_chosen = placement.cluster.may_change if is_chosen is None else is_chosen
    replica_count = int(placement.replica_counts[is_chosen].sum())
    return replica_count <= placement.cluster.search.max_replicas


def is_usual(placement: Placement) -> bool:
    """Return whether the solver is trusted with the cluster without more time than usual."""
    may_change = placement.cluster.may_change
    return int(placement.replica_counts[may_change].sum()) <= USUAL.max_replicas


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
    """Place replicas as well as can be, and note what any plan as good has to copy."""
    if not choice.replica_count:
        return True
    chosen = copy_fewest_bytes(choice)
    if not choice.has_room_for(chosen):
        return False
    fewest = int((copy_fewest_replicas(choice) & ~choice.stands).sum())
    copied_bytes, is_proven = choice.copied_bytes(chosen), True
    after = placement.copy()
    choice.apply(after, chosen)
    band = find_band(after)
    if band.bytes_outside(after.bytes_held)[is_counted].any():
        answer = within_band(choice, chosen, band, is_counted)
        chosen, is_proven = answer.chosen, answer.is_proven
        copied_bytes = max(copied_bytes, answer.min_copied_bytes)
    choice.apply(placement, chosen)
    placement.bound = CopyBound(fewest, copied_bytes, is_proven)
    return True


def make_counts_best(placement: Placement, choice: ReplicaChoice) -> None:
    """Change as few replicas as can be until racks and counts are the best that there are."""
    if not are_costs_exact(choice):
        return
    chosen = nearest_to(choice, choice.stands_in(placement))
    if choice.has_room_for(chosen):
        choice.apply(placement, chosen)


def best_counts(placement: Placement, roles: Roles) -> Ints | None:
    """Return replicas per broker that no moves between all that share could make more even.

    None where the cluster is not small.
    """
    if not is_small(placement):
        return None
    choice = ReplicaChoice.to_even(placement, roles.unrestricted)
    return choice.counts_of(copy_fewest_replicas(choice))
