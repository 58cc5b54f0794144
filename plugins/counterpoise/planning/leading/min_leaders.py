"""At least so many leaders of a topic on every broker that may lead (`min_topic_leaders`).

    for topic in topics_below(candidates, leaders):
        leaders[rows] = lead_topic(candidates, rows)
    rows[is_needed(candidates, rows, leaders)]          # all others are evened around these

One flow for the topic:  partition -> a broker that may lead it -> sink

    cost: first the leaders that a broker lacks, then 2k + 1 for its leader number k + 1 (so the
    topic is led evenly), then changes (`Candidates.cost`)

Worked example: orders-0, -1 and -2 may all be led by brokers 1, 2 and 3, and broker 1 leads them.
With 1 leader each as the least, brokers 2 and 3 get one of them.

Limits: a broker without a replica of the topic cannot lead any. `placing.topic_minimum` brings it
some, where the goal may move replicas.
"""

import numpy as np

from counterpoise.model.columns import Flags, Ints, count_within
from counterpoise.planning.leading.candidates import Candidates


def topics_below(candidates: Candidates, leaders: Ints) -> Ints:
    """Return the topics of which some eligible broker leads fewer than it should."""
    concerned = np.flatnonzero(candidates.min_topic_leaders)
    is_below = [lacking_leaders(candidates, leaders, topic) > 0 for topic in concerned.tolist()]
    return concerned[np.array(is_below, dtype=np.bool_)]


def lacking_leaders(candidates: Candidates, leaders: Ints, topic: int) -> int:
    """Return how many leaders of a topic eligible brokers lack, in all."""
    counts = candidates.counts(leaders[candidates.topics == topic])
    least = candidates.min_topic_leaders[topic]
    return int(np.maximum(0, least - counts)[candidates.eligible_brokers].sum())


def lead_topic(candidates: Candidates, rows: Ints) -> Ints:
    """Return the leader of each of the rows: the free partitions of one topic."""
    from ortools.graph.python import min_cost_flow

    topic = int(candidates.topics[rows[0]])
    numbers, columns = np.nonzero(candidates.replicas[rows] >= 0)
    brokers = candidates.replicas[rows[numbers], columns]
    costs = candidates.cost(rows[numbers], brokers)
    fixed_rows = np.flatnonzero((candidates.topics == topic) & ~candidates.is_free)
    fixed = candidates.counts(candidates.leaders_now[fixed_rows])

    further = np.bincount(brokers, minlength=candidates.broker_count)
    heads = np.repeat(np.arange(candidates.broker_count), further)
    counts_before = fixed[heads] + count_within(further)
    per_count = 8 * (len(rows) + 1)
    per_lacking = per_count * (2 * len(rows) + 2)
    is_lacking = counts_before < candidates.min_topic_leaders[topic]
    sink = candidates.broker_count
    first_row = sink + 1
    solver = min_cost_flow.SimpleMinCostFlow()
    arcs = solver.add_arcs_with_capacity_and_unit_cost(
        first_row + numbers, brokers, np.ones_like(numbers), costs
    )
    solver.add_arcs_with_capacity_and_unit_cost(
        heads,
        np.full_like(heads, sink),
        np.ones_like(heads),
        (2 * counts_before + 1) * per_count - is_lacking * per_lacking,
    )
    solver.set_nodes_supplies(first_row + np.arange(len(rows)), np.ones_like(rows))
    solver.set_nodes_supplies(np.array([sink]), np.array([-len(rows)]))
    status = solver.solve()
    if status != solver.OPTIMAL:
        raise AssertionError(f"each partition has a leader, but the solver says {status}")
    is_chosen = solver.flows(arcs) > 0
    leaders = np.empty_like(rows)
    leaders[numbers[is_chosen]] = brokers[is_chosen]
    return leaders


def is_needed(candidates: Candidates, rows: Ints, leaders: Ints) -> Flags:
    """Return which of the rows a broker has to lead, so that it leads as many as it should.

    Of more than that the first count, and partitions without a choice before all. Example: with 1
    as the least, one of the two that broker 1 leads is needed, the other may be led elsewhere.
    """
    is_counted = np.isin(candidates.topics, candidates.topics[rows]) & (leaders >= 0)
    counted = np.flatnonzero(is_counted)
    cells = candidates.topics[counted] * candidates.broker_count + leaders[counted]
    order = np.lexsort((counted, candidates.is_free[counted], cells))
    _, sizes = np.unique(cells[order], return_counts=True)
    ranks = np.empty(len(candidates.topics), dtype=np.int64)
    ranks[counted[order]] = count_within(sizes)
    return np.asarray(ranks[rows] < candidates.min_topic_leaders[candidates.topics[rows]])
