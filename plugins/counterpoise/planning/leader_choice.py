"""The choice of leaders: who leads each partition, over the replica sets that were found.

    candidates = Candidates.of(placement, is_eligible, may_change, elects=True)
    leaders = choose_leaders(candidates, policy)

By number (the default):
    1. `leader_flow`: the most even counts per broker that the replica sets allow, with the fewest
       changes of leader; an exact optimum.
    2. `leader_topics`: brokers exchange leadership, each keeping its count, until no topic can be
       led more evenly that way.
    3. `leader_bytes_in`, where rates are known and the goal evens traffic: exchanges that bring
       bytes-in within the tolerance, and leave counts and topics as they are.
By bytes-in: `leader_bytes_in` starts from the same flow and evens out the bytes from producers per
broker, then the counts; a local optimum, since the exact one is NP-hard.

Constraints come after that. Where a broker leads too little of a topic (`min_topic_leaders`), the
leaders of that topic are chosen anew, and the others are evened around them. Partitions of one
topic are few, so each is a node of a flow:

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

Limits: replicas that are out of sync are not chosen (`leader_candidates`); what is promised holds
for the others. Of the limit: exchanges of two only. A broker alone with a partition that has one
replica keeps it, and a partition whose own rate is above the limit stays so: a warning says.
Choosing again once the chosen leaders lead changes nothing.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from counterpoise.model.columns import Flags, Ints, count_within, rank_within
from counterpoise.model.policy import BalancePolicy, LeaderWeight
from counterpoise.planning.leader_bytes_in import even_bytes_in, even_leader_traffic
from counterpoise.planning.leader_candidates import (
    Candidates,
    LeaderChange,
    Leadership,
    bytes_above,
)
from counterpoise.planning.leader_flow import even_leaders
from counterpoise.planning.leader_topics import even_topics
from counterpoise.planning.placing.exchanges import improve_worst

_MAX_TURNS: Final = 20
_MAX_CHANGES_PER_PARTITION: Final = 4


def choose_leaders(
    candidates: Candidates, policy: BalancePolicy, *, evens_traffic: bool = False
) -> Ints:
    """Return the broker that is to be the first replica of each partition.

    Partitions that are not free keep their first replica, and count for the broker that leads them.
    With `evens_traffic`, leaders chosen by number bring bytes-in within the tolerance, too.
    When no rate of bytes-in is known, leaders are chosen by number, whatever the policy says.
    """
    if not len(candidates.free_partitions):
        return candidates.preferred
    leaders = _constrained(candidates, policy, evens_traffic=evens_traffic)
    if policy.constraints.max_leader_bytes_in_per_second is not None:
        leaders = _better_or_present(candidates, leaders)
    if policy.constraints.limits_leaders:
        leaders = _search_on(candidates, leaders, policy, evens_traffic=evens_traffic)
    return np.where(candidates.is_free, leaders, candidates.preferred)


def _better_or_present(candidates: Candidates, leaders: Ints) -> Ints:
    """Return chosen leaders if they are better than those of now."""
    may_stay = (candidates.replicas == candidates.leaders_now[:, None]).any(axis=1)
    present = np.where(may_stay, candidates.leaders_now, leaders)
    return present if _badness(candidates, present) <= _badness(candidates, leaders) else leaders


def _search_on(
    candidates: Candidates, leaders: Ints, policy: BalancePolicy, *, evens_traffic: bool
) -> Ints:
    """Return leaders chosen again from each result for as long as they get better.

    So another plan would change nothing.

    Example: orders is led evenly with 2, 1, 1 and 2 leaders, and brokers 3 and 4 lead 2 and 1 of
    other topics. Chosen again, broker 2 leads two of orders and broker 4 one: 2, 2, 3 and 2 in all.
    """
    for _ in range(_MAX_TURNS):
        again = candidates.led_by(leaders)
        found = _constrained(again, policy, evens_traffic=evens_traffic)
        if _badness(candidates, found) >= _badness(candidates, leaders):
            break
        leaders = found
    return leaders


def _badness(candidates: Candidates, leaders: Ints) -> tuple[int, int, int]:
    """Return bytes above the limits, leaders that topics lack, and unevenness by number."""
    leaders = np.where(candidates.is_free, leaders, candidates.leaders_now)
    led_bytes, is_eligible = candidates.led_bytes(leaders), candidates.is_eligible
    excess = bytes_above(led_bytes, candidates.max_led_bytes, is_eligible)
    lacking = int(candidates.topic_leaders_lacking(leaders).sum())
    counts = candidates.counts(leaders)[is_eligible]
    return excess, lacking, int((counts * counts).sum())


def _constrained(candidates: Candidates, policy: BalancePolicy, *, evens_traffic: bool) -> Ints:
    """Return leaders that are even, and keep what constraints say of leaders."""
    leaders = _choose(candidates, policy, evens_traffic=evens_traffic)
    if candidates.min_topic_leaders.any():
        leaders = _with_topics_led(candidates, leaders, policy, evens_traffic=evens_traffic)
    if policy.constraints.max_leader_bytes_in_per_second is not None:
        leaders = _keep_below(candidates, leaders)
    return leaders


def _choose(candidates: Candidates, policy: BalancePolicy, *, evens_traffic: bool) -> Ints:
    """Return leaders that are even by what the policy says; one partition or more is free."""
    leaders = even_leaders(candidates)
    if policy.leader_weight is LeaderWeight.BYTES_IN and candidates.knows_rates:
        return even_bytes_in(candidates, leaders, policy.ignorable_permille)
    leaders = even_topics(candidates, leaders)
    if evens_traffic:
        leaders = _with_even_traffic(candidates, leaders, policy.bytes_in_tolerance_percent)
    return leaders


def _with_even_traffic(candidates: Candidates, leaders: Ints, tolerance_percent: int) -> Ints:
    """Return leaders exchanged for traffic, then for topics, until neither changes any."""
    for _ in range(_MAX_TURNS):
        evened = even_leader_traffic(candidates, leaders, tolerance_percent)
        if (evened == leaders)[candidates.is_free].all():
            break
        leaders = even_topics(candidates, evened)
    return leaders


# -- a minimum of leaders of a topic


def _with_topics_led(
    candidates: Candidates, leaders: Ints, policy: BalancePolicy, *, evens_traffic: bool
) -> Ints:
    """Return leaders chosen for topics that a broker leads too little of, and others around."""
    below = np.flatnonzero(candidates.topic_leaders_lacking(leaders))
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
    chosen = _choose(others, policy, evens_traffic=evens_traffic)
    return np.where(others.is_free, chosen, leaders)


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
    loads, limits = leadership.loads, leadership.candidates.max_led_bytes
    going = leadership.passable(source, destination)
    returning = leadership.passable(destination, source)
    rates = leadership.candidates.bytes_in
    shifts = np.subtract.outer(rates[going], np.append(rates[returning], 0))

    def above_limits(shifts: Ints | int) -> Ints:
        source_above = np.maximum(0, loads[source] - shifts - limits[source])
        destination_above = np.maximum(0, loads[destination] + shifts - limits[destination])
        return np.asarray(source_above + destination_above)

    further = above_limits(shifts) - above_limits(0)
    exchanges, gifts = slice(0, len(returning)), slice(len(returning), None)
    for is_gift, columns in ((False, exchanges), (True, gifts)):
        rows, numbers = np.nonzero(further[:, columns] < 0)
        if not len(rows):
            continue
        above, shift = further[:, columns][rows, numbers], shifts[:, columns][rows, numbers]
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
