"""Budgets: the best part of a plan that is larger than what it may cost.

    keep_copies_within(placement, before, budget)          # takes back the copies that there is no budget for
    outcome = keep_named_within(outcome, budget)           # the same for changes that copy nothing

The best part is even itself. Partitions that get better racks come first; the others in such an
order that every broker has given and taken about the same part of what the whole plan would have it
give and take, small ones first, since they bring replicas where they are missing for the fewest
bytes.
"""

from dataclasses import replace

import numpy as np

from counterpoise.model.columns import Flags, Ints, missing_from
from counterpoise.model.plan import Left
from counterpoise.model.request import Budget
from counterpoise.planning.explanation.final_assignment import FinalAssignment
from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.racks import racks_missing


def keep_copies_within(placement: Placement, before: Placement, budget: Budget) -> Left:
    """Takes copies (and removals) back until the rest fits; what was taken back."""
    if budget == Budget():
        return Left()
    changed = np.flatnonzero((placement.replicas != placement.original).any(axis=1))
    new = missing_from(before.replicas[changed], placement.replicas[changed])
    copies = new.sum(axis=1)
    weights = copies * placement.cluster.size_bytes[changed]
    order = _best_first(placement, before, changed, new, weights)
    kept = _fitting(order, weights, budget)
    if kept.all():
        return Left()
    rows = placement.replicas.copy()
    rows[changed[~kept]] = placement.original[changed[~kept]]
    placement.reset_to(rows)
    return Left(int((~kept).sum()), int(copies[~kept].sum()), int(weights[~kept].sum()))


def keep_named_within(outcome: FinalAssignment, budget: Budget) -> tuple[FinalAssignment, int]:
    """The outcome with no more partitions than the budget allows, and how many are left.

    Partitions that are copied stay; of the others those that move leaders from the brokers that
    lead most to those that lead least.
    """
    most, named = budget.max_partitions, np.flatnonzero(outcome.is_named)
    if most is None or len(named) <= most:
        return outcome, 0
    cluster = outcome.cluster
    led = cluster.led(cluster.leaders_now)
    led = np.append(led, led.max(initial=0))  # nobody leads: most in need of a leader
    gain = led[cluster.leaders_now[named]] - led[outcome.replicas[named, 0]]
    resized = (
        np.sort(outcome.replicas[named], axis=1) != np.sort(outcome.before[named], axis=1)
    ).any(axis=1)
    order = np.lexsort((named, -gain, ~resized))
    dropped = named[order[most:]]
    replicas, is_named = outcome.replicas.copy(), outcome.is_named.copy()
    replicas[dropped], is_named[dropped] = outcome.before[dropped], False
    return replace(outcome, replicas=replicas, is_named=is_named), len(dropped)


def _best_first(
    placement: Placement, before: Placement, changed: Ints, new: Flags, weights: Ints
) -> Ints:
    rows, original = placement.replicas[changed], placement.original[changed]
    destinations = np.where(new, rows, -1).max(axis=1)
    sources = np.where(missing_from(rows, original), original, -1).max(axis=1)
    anyone = placement.cluster.is_live
    cures = racks_missing(before, anyone)[changed] > racks_missing(placement, anyone)[changed]
    smallest_first = np.lexsort((changed, weights))
    parts = _part_done(sources, smallest_first)
    # Along that order takers are served as evenly as givers give.
    parts = np.maximum(parts, _part_done(destinations, np.lexsort((changed, weights, parts))))
    return np.lexsort((changed, weights, parts, ~cures))


def _part_done(brokers: Ints, order: Ints) -> "np.typing.NDArray[np.float64]":
    """Per item: how much of its broker's items is done with it, 0 to 1, when they come in the given
    order.
    """
    by_broker = order[np.argsort(brokers[order], kind="stable")]
    ordered = brokers[by_broker]
    starts, ends = (
        np.searchsorted(ordered, ordered, side="left"),
        np.searchsorted(ordered, ordered, side="right"),
    )
    done = np.empty(len(brokers), dtype=np.float64)
    done[by_broker] = (np.arange(len(brokers)) - starts + 1) / (ends - starts)
    return done


def _fitting(order: Ints, weights: Ints, budget: Budget) -> Flags:
    """Which items fit, tried in order."""
    kept = np.zeros(len(order), dtype=np.bool_)
    bytes_left, items_left = budget.max_bytes, budget.max_partitions
    for item, weight in zip(order.tolist(), weights[order].tolist(), strict=True):
        if items_left is not None and items_left <= 0:
            break
        if bytes_left is None or weight <= bytes_left:
            kept[item] = True
            bytes_left = None if bytes_left is None else bytes_left - weight
            items_left = None if items_left is None else items_left - 1
    return kept
