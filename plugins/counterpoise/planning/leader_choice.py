"""The choice of leaders: who leads each partition, over the replica sets that were found.

    assignment = with_leaders(result)             # for each broker set by itself:
    candidates = Candidates.of(placement, is_eligible, may_change, elects=True)
    leaders = choose_leaders(candidates, policy)

By number (the default):
    1. `leader_flow`: the most even counts per broker that the replica sets allow, with the fewest
       changes of leader; an exact optimum.
    2. `leader_topics`: brokers exchange leadership, each keeping its count, until no topic can be
       led more evenly that way.
    3. `leader_traffic`, where rates are known and the goal evens traffic: exchanges that bring
       bytes-in within the tolerance, and leave counts and topics as they are.
By bytes-in: `leader_bytes_in` starts from the same flow and evens out the bytes from producers per
broker, then the counts; a local optimum, since the exact one is NP-hard.
Constraints come after that: the leaders of topics that a broker leads too little of are chosen
(`leader_flow`), and the others are evened around them; then brokers are brought below what they may
lead (`leader_traffic`).

Limits: replicas that are out of sync are not chosen (`leader_candidates`); what is promised holds
for the others. Choosing again once the chosen leaders lead changes nothing.
"""

from dataclasses import replace
from typing import Final

import numpy as np

from counterpoise.model.columns import Flags, Ints, rank_within
from counterpoise.model.policy import BalancePolicy, LeaderWeight
from counterpoise.planning.leader_bytes_in import even_bytes_in
from counterpoise.planning.leader_candidates import Candidates
from counterpoise.planning.leader_flow import even_leaders, lead_topic
from counterpoise.planning.leader_topics import even_topics
from counterpoise.planning.leader_traffic import (
    bytes_above,
    even_leader_traffic,
    keep_below,
)
from counterpoise.planning.placing.topics import leaders_lacking
from counterpoise.planning.planning_result import FinalAssignment, PlanningResult

_MAX_TURNS: Final = 20


def with_leaders(result: PlanningResult) -> FinalAssignment:
    """Return the replicas that were placed, with the leaders that are chosen over them.

    Each broker set is led by itself; what a broker has to lead in others counts for its limit.
    """
    cluster, goal = result.cluster, result.goal
    leaders = result.after.replicas[:, 0].copy()
    is_free = np.zeros(cluster.partition_count, dtype=np.bool_)
    for part, of_part, candidates in zip(
        result.parts, result.results_by_part, _candidates_by_part(result), strict=True
    ):
        evens_traffic = of_part.evens_traffic and goal.copies_for_traffic
        leaders[part.rows] = choose_leaders(
            candidates, result.request.policy, evens_traffic=evens_traffic
        )
        is_free[part.rows] = candidates.is_free
    return FinalAssignment.of(
        result.after, leaders, is_free, result.roles.is_demoted, elects=goal.elects
    )


def _candidates_by_part(result: PlanningResult) -> list[Candidates]:
    """Return the candidates of each broker set."""
    goal = result.goal
    candidates = [
        Candidates.of(
            part.after,
            part.roles.leading,
            goal.may_change_leader(part.cluster, part.roles),
            elects=goal.elects,
        )
        for part in result.results_by_part
    ]
    if len(candidates) == 1:
        return candidates
    fixed_bytes = [of_part.fixed_bytes for of_part in candidates]
    total_bytes = np.sum(fixed_bytes, axis=0)
    return [
        replace(of_part, max_led_bytes=np.maximum(0, of_part.max_led_bytes - (total_bytes - own)))
        for of_part, own in zip(candidates, fixed_bytes, strict=True)
    ]


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
    lacking = int(_lacking_by_topic(candidates, leaders).sum())
    counts = candidates.counts(leaders)[is_eligible]
    return excess, lacking, int((counts * counts).sum())


def _constrained(candidates: Candidates, policy: BalancePolicy, *, evens_traffic: bool) -> Ints:
    """Return leaders that are even, and keep what constraints say of leaders."""
    leaders = _choose(candidates, policy, evens_traffic=evens_traffic)
    if candidates.min_topic_leaders.any():
        leaders = _with_topics_led(candidates, leaders, policy, evens_traffic=evens_traffic)
    if policy.constraints.max_leader_bytes_in_per_second is not None:
        leaders = keep_below(candidates, leaders)
    return leaders


def _with_topics_led(
    candidates: Candidates, leaders: Ints, policy: BalancePolicy, *, evens_traffic: bool
) -> Ints:
    """Return leaders chosen for topics that a broker leads too little of, and others around."""
    below = np.flatnonzero(_lacking_by_topic(candidates, leaders))
    if not len(below):
        return leaders
    rows = np.flatnonzero(candidates.is_free & np.isin(candidates.topic_numbers, below))
    for topic in below.tolist():
        of_topic = rows[candidates.topic_numbers[rows] == topic]
        if len(of_topic):
            leaders[of_topic] = lead_topic(candidates, of_topic)
    rows = rows[_is_needed(candidates, rows, leaders)]
    others = candidates.with_leaders(rows, leaders[rows])
    if not len(others.free_partitions):
        return leaders
    chosen = _choose(others, policy, evens_traffic=evens_traffic)
    return np.where(others.is_free, chosen, leaders)


def _lacking_by_topic(candidates: Candidates, leaders: Ints) -> Ints:
    """Return, per topic, how many leaders eligible brokers lack."""
    min_topic_leaders = candidates.min_topic_leaders
    return leaders_lacking(
        candidates.topic_numbers, leaders, min_topic_leaders, candidates.is_eligible
    )


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
