"""Leaders per topic: as even as the replica sets allow, while every broker keeps its number.

    leaders = even_topics(candidates, even_leaders(candidates))

8 partitions of one topic on 5 brokers end with 1, 1, 2, 2 and 2 leaders per broker.

The choice is a minimum-cost flow. A cell is a topic on a broker:

    arc partition -> cell    capacity 1; costs what the choice costs (`Candidates.cost`)
    arc cell -> broker       one for each leader more of the topic there, each dearer than the last
    broker                   takes as many units as it leads partitions

    while topics could be led more evenly, if brokers need not keep their numbers:
        for each batch of these topics, filled up with partitions of others:
            solve the flow
        stop when that has gained nothing, or too little for several batches

So the squares of the leaders per topic and broker are the least there are in a batch, with the
fewest changes of leader that this takes. A topic is left uneven only where it takes more than
`_MAX_CHANGES` changes to lower these squares by one.

Worked example: the partitions A-0, A-1, B-0, B-1 may all be led by brokers 0 and 1; broker 0 leads
A-0 and A-1, broker 1 leads B-0 and B-1. Each broker leads two, but topic A is uneven (2 and 0).
The second leader of A on broker 0 is dearer than the first one on broker 1, so A-0 goes there. Then
broker 1 would lead three, so B-0 comes back: each broker leads one partition of each topic.

Limits: a small cluster is one batch, and its answer is exact. In a larger one, what could be gained
by partitions of several batches only is not found. Time: about 60 ms per batch.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from counterpoise.model.columns import NOBODY, Ints, count_within
from counterpoise.planning.leader_candidates import Candidates

_BATCH: Final = 5_000  # partitions
_OF_UNEVEN_TOPICS: Final = 4_000  # of these
_MIN_GAIN: Final = 200  # of several batches: this part of all that is uneven
_MAX_CHANGES: Final = 32
_MAX_COST: Final = 8  # no choice of a leader costs so much
_GOLDEN_RATIO: Final = 2_654_435_761  # of 2**32, an odd number


def even_topics(candidates: Candidates, leaders: Ints) -> Ints:
    """Return leaders that are as even per topic as found, with as many per broker as `leaders`."""
    leaders = np.where(candidates.is_free, leaders, candidates.leaders_now)
    squares, least = _squares(candidates, leaders), _least_squares(candidates)
    while True:
        batches = _batches(candidates, _improvable_topics(candidates, leaders), seed=squares)
        evened = leaders
        for partitions in batches:
            evened = _solve(candidates, evened, partitions)
        squares_before, squares = squares, _squares(candidates, evened)
        min_gain = (squares_before - least) // _MIN_GAIN if len(batches) > 1 else 0
        if squares_before - squares < max(1, min_gain):
            return leaders
        leaders = evened


# -- cells: how many leaders of a topic a broker has


@dataclass(frozen=True, slots=True, eq=False)
class _Choices:
    """All choices of a leader that some partitions have, one entry each."""

    partitions: Ints
    brokers: Ints
    cells: Ints  # as positions in `cell_keys`
    cell_keys: Ints  # ascending

    @classmethod
    def of(cls, candidates: Candidates, partitions: Ints) -> "_Choices":
        rows, brokers = candidates.alternatives(partitions, NOBODY)
        chosen = partitions[rows]
        keys, cells = np.unique(_cell_keys(candidates, chosen, brokers), return_inverse=True)
        return cls(chosen, brokers, cells, keys)

    def counts(self, keys: Ints) -> Ints:
        """Return how often each cell is among `keys`, which may have others among them."""
        at = np.minimum(np.searchsorted(self.cell_keys, keys), len(self.cell_keys) - 1)
        return np.bincount(at[self.cell_keys[at] == keys], minlength=len(self.cell_keys))


def _cell_keys(candidates: Candidates, partitions: Ints, brokers: Ints) -> Ints:
    return np.asarray(candidates.topic_numbers[partitions] * candidates.broker_count + brokers)


def _led_keys(candidates: Candidates, leaders: Ints) -> Ints:
    """Return the key of the cell that each partition with a leader is in."""
    partitions = np.flatnonzero(leaders >= 0)
    return _cell_keys(candidates, partitions, leaders[partitions])


def _squares(candidates: Candidates, leaders: Ints) -> int:
    _, counts = np.unique(_led_keys(candidates, leaders), return_counts=True)
    return int((counts * counts).sum())


def _least_squares(candidates: Candidates) -> int:
    """Return the squares of topics that are spread evenly over all brokers."""
    has_leader = candidates.is_free | (candidates.leaders_now >= 0)
    led = np.bincount(candidates.topic_numbers[has_leader], minlength=candidates.topic_count)
    brokers = max(1, len(candidates.eligible_brokers))
    low, one_more = np.divmod(led, brokers)
    return int((brokers * low * low + one_more * (2 * low + 1)).sum())


# -- which partitions are chosen for together


def _improvable_topics(candidates: Candidates, leaders: Ints) -> Ints:
    """Return the topics that could be led more evenly, if brokers need not keep their numbers.

    They have a broker that could pass leadership on to one with two less, from broker to broker.
    """
    choices = _Choices.of(candidates, candidates.free_partitions)
    counts = choices.counts(_led_keys(candidates, leaders))
    topics = choices.cell_keys // candidates.broker_count
    most, fewest = np.zeros((2, candidates.topic_count), dtype=np.int64)
    np.maximum.at(most, topics, counts)
    fewest += most
    np.minimum.at(fewest, topics, counts)
    is_uneven = (most - fewest >= 2)[candidates.topic_numbers[choices.partitions]]
    partitions, heads = choices.partitions[is_uneven], choices.cells[is_uneven]
    led = _cell_keys(candidates, partitions, leaders[partitions])
    tails = np.searchsorted(choices.cell_keys, led)
    fewest_reached, is_changed = counts.copy(), True
    while is_changed:
        before = fewest_reached.copy()
        np.minimum.at(fewest_reached, tails, before[heads])
        is_changed = bool((fewest_reached < before).any())
    return np.unique(topics[counts - fewest_reached >= 2])


def _batches(candidates: Candidates, topics: Ints, *, seed: int) -> list[Ints]:
    """Return the partitions of these topics in batches, each filled up with partitions of others.

    They are shuffled, so that another `seed` brings other topics together.
    """
    free = candidates.free_partitions
    is_improvable = np.isin(candidates.topic_numbers[free], topics)
    improvable, others = free[is_improvable], _shuffled(free[~is_improvable], seed)
    batch_count = -(-len(improvable) // _OF_UNEVEN_TOPICS)
    partition_counts = np.bincount(
        candidates.topic_numbers[improvable], minlength=candidates.topic_count
    )
    order = _shuffled(topics, seed)
    partitions_before = np.cumsum(partition_counts[order]) - partition_counts[order]
    batch_of_topic = np.zeros(candidates.topic_count, dtype=np.int64)
    batch_of_topic[order] = partitions_before * batch_count // max(1, len(improvable))
    batch_of = batch_of_topic[candidates.topic_numbers[improvable]]
    batches, start = [], 0
    for number in range(batch_count):
        own = improvable[batch_of == number]
        room = min(max(0, _BATCH - len(own)), len(others))
        filling = np.take(others, np.arange(start, start + room), mode="wrap")
        batches.append(np.concatenate([own, filling]))
        start += room
    return batches


def _shuffled(ids: Ints, seed: int) -> Ints:
    """Return the ids by the remainders of a product (Knuth, multiplicative hashing)."""
    factor = (2 * seed + 1) * _GOLDEN_RATIO % (1 << 32)
    return np.asarray(ids[np.argsort(ids * factor % (1 << 32), kind="stable")])


# -- the flow


def _solve(candidates: Candidates, leaders: Ints, partitions: Ints) -> Ints:
    """Return the leaders with those of the partitions chosen anew.

    Nodes: the partitions, the cells, the brokers.
    """
    from ortools.graph.python import min_cost_flow

    if not len(partitions):
        return leaders
    choices = _Choices.of(candidates, partitions)
    cell_count = len(choices.cell_keys)
    first_cell, first_broker = len(partitions), len(partitions) + cell_count
    nodes = np.empty(len(leaders), dtype=np.int64)
    nodes[partitions] = np.arange(len(partitions))
    led_now = _cell_keys(candidates, partitions, leaders[partitions])
    led_by_others = choices.counts(_led_keys(candidates, leaders)) - choices.counts(led_now)
    capacities = np.bincount(choices.cells, minlength=cell_count)
    tails = np.repeat(np.arange(cell_count), capacities)
    unevenness = led_by_others[tails] + count_within(capacities)
    cost_per_unevenness = _MAX_COST * min(len(partitions), _MAX_CHANGES)

    solver = min_cost_flow.SimpleMinCostFlow()
    add_arcs = solver.add_arcs_with_capacity_and_unit_cost
    to_cells = add_arcs(
        nodes[choices.partitions],
        first_cell + choices.cells,
        np.ones_like(choices.cells),
        candidates.cost(choices.partitions, choices.brokers),
    )
    add_arcs(
        first_cell + tails,
        first_broker + choices.cell_keys[tails] % candidates.broker_count,
        np.ones_like(tails),
        cost_per_unevenness * unevenness,
    )
    sources, between = np.ones_like(partitions), np.zeros_like(choices.cell_keys)
    supplies = np.concatenate([sources, between, -candidates.counts(leaders[partitions])])
    solver.set_nodes_supplies(np.arange(len(supplies)), supplies)
    status = solver.solve()
    if status != solver.OPTIMAL:
        raise AssertionError(f"the leaders of now are a solution, but the solver says {status}")
    is_chosen = solver.flows(to_cells) > 0
    chosen = leaders.copy()
    chosen[choices.partitions[is_chosen]] = choices.brokers[is_chosen]
    return chosen
