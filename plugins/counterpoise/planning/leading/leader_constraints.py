"""Constraints on leaders: so many of a topic on each broker, and no more bytes-in than allowed.

    for topic in np.flatnonzero(lacking_by_topic(candidates, leaders)):
        leaders[rows] = lead_topic(candidates, rows)
    rows[is_needed(candidates, rows, leaders)]          # all others are evened around these
    leaders = keep_below(candidates, leaders)

At least so many leaders of a topic on every broker that may lead (`min_topic_leaders`), by one flow
for the topic:

    partition -> a broker that may lead it -> sink
    cost: first the leaders that a broker lacks, then 2k + 1 for its leader number k + 1 (so the
    topic is led evenly), then changes (`Candidates.cost`)

Worked example: orders-0, -1 and -2 may all be led by brokers 1, 2 and 3, and broker 1 leads them.
With a minimum of 1 leader each, brokers 2 and 3 get one of them. A broker without a replica of the
topic cannot lead any: `placing.topics` brings it some, where the goal may move replicas.

No more bytes-in than a broker may lead (`max_leader_bytes_in_per_second`), where that can be:

    for the broker that is furthest above the limit:
        another broker leads one of its partitions instead, for a lower rate of its own: the counts
        of leaders stay; else it just gives one away
        of these what leaves least above the limit on both brokers, an exchange before a gift
    until none is above, or nothing helps

Worked example: the limit is 50 MB/s; brokers 1 and 2 lead 40 + 20 and 15 + 10 MB/s. Broker 1 gives
the 20 for the 10: 50 and 35 MB/s, and each leads two partitions as before.

Limits: the second is a local search, and a partition whose own rate is above the limit stays so: a
warning says.
"""

from typing import Final, NamedTuple

import numpy as np

from counterpoise.model.columns import Flags, Ints, count_within, rank_within
from counterpoise.planning.leading.candidates import Candidates
from counterpoise.planning.placing.topics import leaders_lacking

_MAX_CHANGES_PER_PARTITION: Final = 4

# -- a minimum of leaders of a topic


def lacking_by_topic(candidates: Candidates, leaders: Ints) -> Ints:
    """Return, per topic, how many leaders eligible brokers lack."""
    min_topic_leaders = candidates.min_topic_leaders
    return leaders_lacking(
        candidates.topic_numbers, leaders, min_topic_leaders, candidates.is_eligible
    )


def lead_topic(candidates: Candidates, rows: Ints) -> Ints:
    """Return the leader of each of the rows: the free partitions of one topic."""
    from ortools.graph.python import min_cost_flow

    topic = int(candidates.topic_numbers[rows[0]])
    numbers, columns = np.nonzero(candidates.replicas[rows] >= 0)
    brokers = candidates.replicas[rows[numbers], columns]
    costs = candidates.cost(rows[numbers], brokers)
    fixed_rows = np.flatnonzero((candidates.topic_numbers == topic) & ~candidates.is_free)
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
    is_counted = np.isin(candidates.topic_numbers, candidates.topic_numbers[rows]) & (leaders >= 0)
    counted = np.flatnonzero(is_counted)
    cells = candidates.topic_numbers[counted] * candidates.broker_count + leaders[counted]
    fixed_first = np.lexsort((counted, candidates.is_free[counted]))
    ranks = np.empty(len(candidates.topic_numbers), dtype=np.int64)
    ranks[counted] = rank_within(cells, fixed_first)
    return np.asarray(ranks[rows] < candidates.min_topic_leaders[candidates.topic_numbers[rows]])


# -- a limit of bytes-in


class _Change(NamedTuple):
    going: int  # a partition
    returning: int | None
    destination: int
    key: tuple[int, int, int, int]  # the smallest is the best


def bytes_above(led_bytes: Ints, max_led_bytes: Ints, is_counted: Flags) -> int:
    """Return the bytes per second that the counted brokers lead above what they may."""
    return int(np.maximum(0, led_bytes - max_led_bytes)[is_counted].sum())


def keep_below(candidates: Candidates, leaders: Ints) -> Ints:
    """Return leaders with as little above the limits of brokers as the search finds.

    `leaders` have one broker per partition; those that are not free stay.
    """
    leaders = np.where(candidates.is_free, leaders, candidates.leaders_now)
    loads, limits = candidates.led_bytes(leaders), candidates.max_led_bytes
    is_hopeless, has_changed = ~candidates.is_eligible, False
    for _ in range(_MAX_CHANGES_PER_PARTITION * len(leaders)):
        above = np.where(is_hopeless, 0, loads - limits)
        broker = int(np.argmax(above))
        if above[broker] <= 0:
            if not has_changed:
                break
            # The changes since may have made others possible.
            is_hopeless, has_changed = ~candidates.is_eligible, False
            continue
        change = _best_change(candidates, leaders, loads, broker)
        if change is None:
            is_hopeless[broker] = True
            continue
        shift = int(candidates.bytes_in[change.going])
        leaders[change.going] = change.destination
        if change.returning is not None:
            shift -= int(candidates.bytes_in[change.returning])
            leaders[change.returning] = broker
        loads[broker] -= shift
        loads[change.destination] += shift
        has_changed = True
    return leaders


def _best_change(candidates: Candidates, leaders: Ints, loads: Ints, broker: int) -> _Change | None:
    """Return the change that takes most off what two brokers lead above the limit."""
    partitions_led = candidates.of_broker(broker)
    partitions_led = partitions_led[leaders[partitions_led] == broker]
    found = []
    for destination in candidates.eligible_brokers.tolist():
        going = np.intersect1d(partitions_led, candidates.of_broker(destination))
        if destination == broker or not len(going):
            continue
        returning = candidates.shared_by(broker, destination)
        returning = returning[leaders[returning] == destination]
        found += _changes(candidates, loads, (broker, destination), going, returning)
    usable = (change for change in found if _keeps_topics(candidates, leaders, change, broker))
    return min(usable, key=lambda change: change.key, default=None)


def _changes(
    candidates: Candidates, loads: Ints, ends: tuple[int, int], going: Ints, back: Ints
) -> list[_Change]:
    """Return the best exchanges and the best gifts from the first of two brokers to the other."""
    rates, (source, destination) = candidates.bytes_in, ends
    shifts = np.subtract.outer(rates[going], np.append(rates[back], 0))
    source_limit, destination_limit = candidates.max_led_bytes[[source, destination]].tolist()
    above_now = max(0, int(loads[source]) - source_limit)
    above_now += max(0, int(loads[destination]) - destination_limit)
    above = np.maximum(0, loads[source] - shifts - source_limit)
    above += np.maximum(0, loads[destination] + shifts - destination_limit)
    is_usable = above < above_now
    found = []
    for is_gift in (False, True):
        columns = slice(len(back), None) if is_gift else slice(0, len(back))
        rows, numbers = np.nonzero(is_usable[:, columns])
        if not len(rows):
            continue
        over = above[:, columns][rows, numbers] - above_now
        best = int(np.lexsort((numbers, rows, shifts[:, columns][rows, numbers], over))[0])
        partition = int(going[rows[best]])
        returning = None if is_gift else int(back[numbers[best]])
        key = (int(over[best]), int(is_gift), partition, destination)
        found.append(_Change(partition, returning, destination, key))
    return found


def _keeps_topics(candidates: Candidates, leaders: Ints, change: _Change, source: int) -> bool:
    """Return whether both brokers keep the leaders of a topic that they have to have."""
    giving = [(change.going, source)]
    if change.returning is not None:
        giving.append((change.returning, change.destination))
    for partition, broker in giving:
        topic = candidates.topic_numbers[partition]
        min_topic_leaders = candidates.min_topic_leaders[topic]
        if not min_topic_leaders:
            continue
        leaders_of_topic = leaders[candidates.topic_numbers == topic]
        if int((leaders_of_topic == broker).sum()) <= min_topic_leaders:
            return False
    return True
