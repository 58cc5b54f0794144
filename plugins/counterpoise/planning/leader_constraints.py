"""Constraints on leaders: topics of which every broker leads some, and a limit of bytes-in.

    leaders = keep_constraints(candidates, leaders, choose, constraints)

They come after the choice of even leaders. Where a broker leads too little of a topic
(`min_topic_leaders`), the leaders of that topic are chosen anew, and the others are evened around
them. Partitions of one topic are few, so each is a node of a flow:

    partition -> a broker that may lead it -> sink
    cost: first the leaders that a broker lacks, then 2k + 1 for its leader number k + 1 (so the
    topic is led evenly), then changes (`Candidates.cost`)

Worked example: orders-0, -1 and -2 may all be led by brokers 1, 2 and 3, and broker 1 leads them.
With a minimum of 1 leader each, brokers 2 and 3 get one of them. A broker without a replica of the
topic cannot lead any: `placing.topics` brings it some, where the goal may move replicas.

Then brokers are brought below what they may lead (`max_leader_bytes_in_per_second`):

    for the broker that is furthest above the limit:
        another broker leads one of its partitions instead, for a lower rate of its own: the counts
        of leaders stay; else it just gives one away
        of these what leaves least above the limit on both brokers, an exchange before a gift
    until none is above, or nothing helps

Worked example: the limit is 50 MB/s; brokers 1 and 2 lead 40 + 20 and 15 + 10 MB/s. Broker 1 gives
the 20 for the 10: 50 and 35 MB/s, and each leads two partitions as before.

Limits: exchanges of two only. A broker alone with a partition that has one replica keeps it, and a
partition whose own rate is above the limit stays so: a warning says.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from counterpoise.model.columns import Flags, Ints, count_within, rank_within
from counterpoise.model.constraints import Constraints
from counterpoise.planning.leader_candidates import Candidates, LeaderChange, Leadership
from counterpoise.planning.placing.exchanges import improve_worst

_MAX_TURNS: Final = 20
_MAX_CHANGES_PER_PARTITION: Final = 4

_Choose: TypeAlias = Callable[[Candidates], Ints]  # the even leaders of some candidates


def leaders_lacking(
    topics: Ints, leaders: Ints, min_topic_leaders: Ints, is_counted: Flags
) -> Ints:
    """Return, per topic, the leaders that the counted brokers lack, of which each has to lead some.

    `topics` and `leaders` have one entry per partition, `min_topic_leaders` one per topic.
    """
    lacking = np.zeros_like(min_topic_leaders)
    for topic in np.flatnonzero(min_topic_leaders).tolist():
        of_topic = leaders[(topics == topic) & (leaders >= 0)]
        counts = np.bincount(of_topic, minlength=len(is_counted))[is_counted]
        lacking[topic] = np.maximum(0, min_topic_leaders[topic] - counts).sum()
    return lacking


def bytes_above(led_bytes: Ints, max_led_bytes: Ints, is_counted: Flags) -> int:
    """Return the bytes per second that the counted brokers lead above what they may."""
    return int(np.maximum(0, led_bytes - max_led_bytes)[is_counted].sum())


def keep_constraints(
    candidates: Candidates, leaders: Ints, choose: _Choose, constraints: Constraints
) -> Ints:
    """Return leaders that keep what constraints say, as even as that leaves them.

    They are chosen again from each result for as long as they get better, so another plan would
    change nothing.

    Example: orders is led evenly with 2, 1, 1 and 2 leaders, and brokers 3 and 4 lead 2 and 1 of
    other topics. Chosen again, broker 2 leads two of orders and broker 4 one: 2, 2, 3 and 2 in all.
    """
    has_limit = constraints.max_leader_bytes_in_per_second is not None

    def constrained(candidates: Candidates, leaders: Ints) -> Ints:
        if candidates.min_topic_leaders.any():
            leaders = _with_topics_led(candidates, leaders, choose)
        return _keep_below(candidates, leaders) if has_limit else leaders

    leaders = constrained(candidates, leaders)
    if has_limit:
        leaders = _better_or_present(candidates, leaders)
    for _ in range(_MAX_TURNS):
        again = candidates.led_by(leaders)
        found = constrained(again, choose(again))
        if _badness(candidates, found) >= _badness(candidates, leaders):
            break
        leaders = found
    return leaders


def _better_or_present(candidates: Candidates, leaders: Ints) -> Ints:
    """Return chosen leaders if they are better than those of now."""
    may_stay = (candidates.replicas == candidates.leaders_now[:, None]).any(axis=1)
    present = np.where(may_stay, candidates.leaders_now, leaders)
    return present if _badness(candidates, present) <= _badness(candidates, leaders) else leaders


def _badness(candidates: Candidates, leaders: Ints) -> tuple[int, int, int]:
    """Return bytes above the limits, leaders that topics lack, and unevenness by number."""
    leaders = np.where(candidates.is_free, leaders, candidates.leaders_now)
    led_bytes = candidates.led_bytes(leaders)
    is_eligible = candidates.is_eligible
    excess = bytes_above(led_bytes, candidates.max_led_bytes, is_eligible)
    lacking = int(_lacking_by_topic(candidates, leaders).sum())
    counts = candidates.counts(leaders)[is_eligible]
    return excess, lacking, int((counts * counts).sum())


# -- a minimum of leaders of a topic


def _with_topics_led(candidates: Candidates, leaders: Ints, choose: _Choose) -> Ints:
    """Return leaders chosen for topics that a broker leads too little of, and others around."""
    below = np.flatnonzero(_lacking_by_topic(candidates, leaders))
    if not len(below):
        return leaders
    rows = np.flatnonzero(candidates.is_free & np.isin(candidates.topic_numbers, below))
    for topic in below.tolist():
        of_topic = rows[candidates.topic_numbers[rows] == topic]
        if len(of_topic):
            leaders[of_topic] = _lead_topic(candidates, of_topic)
    rows = rows[_is_needed(candidates, rows, leaders)]
    others = candidates.with_leaders(rows, leaders[rows])
    if not len(others.free_partitions):
        return leaders
    return np.where(others.is_free, choose(others), leaders)


def _lacking_by_topic(candidates: Candidates, leaders: Ints) -> Ints:
    """Return, per topic, how many leaders the eligible brokers lack."""
    topics = candidates.topic_numbers
    min_topic_leaders = candidates.min_topic_leaders
    return leaders_lacking(topics, leaders, min_topic_leaders, candidates.is_eligible)


def _is_needed(candidates: Candidates, rows: Ints, leaders: Ints) -> Flags:
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


def _lead_topic(candidates: Candidates, rows: Ints) -> Ints:
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


# -- a limit of bytes-in


class _Option(NamedTuple):
    changes: list[LeaderChange]  # a gift; in an exchange also what comes back
    key: tuple[int, int, int, int]  # the smallest is the best


def _keep_below(candidates: Candidates, leaders: Ints) -> Ints:
    """Return leaders with as little above the limits of brokers as the search finds.

    `leaders` have one broker per partition; those that are not free stay.
    """
    leaders = np.where(candidates.is_free, leaders, candidates.leaders_now)
    leadership = Leadership.of(candidates, leaders)

    def improve(broker: int) -> bool:
        changes = _best_changes(leadership, broker)
        leadership.take(changes)
        return bool(changes)

    improve_worst(
        candidates.is_eligible,
        lambda: leadership.loads - candidates.max_led_bytes,
        improve,
        max_steps=_MAX_CHANGES_PER_PARTITION * len(leaders),
    )
    return leadership.leaders


def _best_changes(leadership: Leadership, broker: int) -> list[LeaderChange]:
    """Return the changes that take most off what two brokers lead above the limit; maybe none."""
    usable = (
        option
        for destination in leadership.candidates.eligible_brokers.tolist()
        for option in _options(leadership, broker, destination)
        if _keeps_topics(leadership, option.changes)
    )
    best = min(usable, key=lambda option: option.key, default=None)
    return [] if best is None else best.changes


def _options(leadership: Leadership, source: int, destination: int) -> Iterator[_Option]:
    """Yield the best exchange and the best gift from one broker to another, if any helps."""
    loads = leadership.loads
    limits = leadership.candidates.max_led_bytes
    going = leadership.passable(source, destination)
    returning = leadership.passable(destination, source)
    rates = leadership.candidates.bytes_in
    shifts = np.subtract.outer(rates[going], np.append(rates[returning], 0))

    def above_limits(shifts: Ints | int) -> Ints:
        source_above = np.maximum(0, loads[source] - shifts - limits[source])
        destination_above = np.maximum(0, loads[destination] + shifts - limits[destination])
        return np.asarray(source_above + destination_above)

    further = above_limits(shifts) - above_limits(0)
    exchanges = slice(0, len(returning))
    gifts = slice(len(returning), None)
    for is_gift, columns in ((False, exchanges), (True, gifts)):
        rows, numbers = np.nonzero(further[:, columns] < 0)
        if not len(rows):
            continue
        above = further[:, columns][rows, numbers]
        shift = shifts[:, columns][rows, numbers]
        best = int(np.lexsort((numbers, rows, shift, above))[0])
        partition = int(going[rows[best]])
        changes = [(partition, destination)]
        if not is_gift:
            changes.append((int(returning[numbers[best]]), source))
        yield _Option(changes, (int(above[best]), int(is_gift), partition, destination))


def _keeps_topics(leadership: Leadership, changes: list[LeaderChange]) -> bool:
    """Return whether who gives a leader up keeps the leaders of its topic that it has to have."""
    for partition, _ in changes:
        topic = leadership.candidates.topic_numbers[partition]
        min_count = leadership.candidates.min_topic_leaders[topic]
        count = leadership.topic_counts[topic, leadership.leaders[partition]]
        if min_count and count <= min_count:
            return False
    return True
