"""Evenness of a result: whether a plan gains enough to notice, and what it leaves uneven.

    is_worth_copying(result), is_worth_moving(result)
    EVENNESS_WARNINGS           # sentences, "" where they do not apply; `plan_warnings` shows them

A gain that nobody would notice counts as balanced, so that clusters do not churn:

    for each measure: gain = what is uneven before - what is uneven after
    worth moving: any gain is more than IGNORABLE_PERMILLE of what it is measured against

Worked example: 10,000 replicas, 2 permille, so 20 may be ignored. If the counts of replicas per
broker are uneven by 30 before (squared distances from the mean) and by 5 after, the gain is 25: the
plan is worth it. What breaks a constraint is always worth mending.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final

import numpy as np

from counterpoise.model.columns import NOBODY, Flags, Ints
from counterpoise.model.evenness import ByteBand, highest_share, units_misplaced
from counterpoise.model.grouping import grouped
from counterpoise.model.request import Goal, Scope
from counterpoise.model.words import join_names, pluralize, verb
from counterpoise.planning.arrays import MIN_KNOWN_PERCENT, UNBOUNDED
from counterpoise.planning.fair_shares import TopicShares, bytes_outside_band, shares_of_bytes
from counterpoise.planning.placement import Placement, Roles
from counterpoise.planning.planning_result import PlanningResult, as_range
from counterpoise.units import format_bytes

IGNORABLE_PERMILLE: Final = 2  # less than what a cluster changes by itself from day to day
_LEFT_BY_BUDGET: Final = "the budget of the request leaves the rest for a later plan"

# -- is the plan worth it


def is_worth_moving(result: PlanningResult) -> bool:
    """Return whether any measure that goals about evenness serve gains more than may be ignored.

    True for all other goals, and for the part of a plan that a budget leaves.
    """
    if result.goal.copy_reason is not None or result.deferred.partitions:
        return True
    return any(
        _is_noticed(part, chain(_replica_gains(part), _leader_gains(part)))
        for part in result.results_by_part
    )


def is_worth_copying(result: PlanningResult) -> bool:
    """Return whether the replicas alone, whoever leads, are worth what they copy."""
    if result.goal.copy_reason is not None or not result.goal.moves_replicas:
        return True
    return any(_is_noticed(part, _replica_gains(part)) for part in result.results_by_part)


def _is_noticed(result: PlanningResult, gains: Iterator[tuple[int, int]]) -> bool:
    return any(gain > total * IGNORABLE_PERMILLE // 1000 for gain, total in gains)


def _replica_gains(result: PlanningResult) -> Iterator[tuple[int, int]]:
    """Yield the gain in each measure of replicas, and what it is measured against."""
    roles, before, after = result.roles, result.before, result.after
    replica_count = int(after.counts.sum())
    racks_gained = before.rack_moves(roles.staying) - after.rack_moves(roles.staying)
    yield int(racks_gained.sum()), 0
    yield _constraints_broken(before, result) - _constraints_broken(after, result), 0
    misplaced = _replicas_misplaced(before, roles) - _replicas_misplaced(after, roles)
    yield misplaced, replica_count
    percent = result.request.policy.bytes_tolerance_percent
    bytes_before = bytes_outside_band(before, roles, percent)
    yield bytes_before - bytes_outside_band(after, roles, percent), int(after.bytes_held.sum())
    yield _above_topic_share(before, result) - _above_topic_share(after, result), replica_count
    if result.evens_traffic:
        outside = _traffic_outside(before, result) - _traffic_outside(after, result)
        yield outside, int(after.traffic.sum())


def _leader_gains(result: PlanningResult) -> Iterator[tuple[int, int]]:
    """Yield the gain in each measure of leaders, and what it is measured against."""
    cluster, roles, partition_count = result.cluster, result.roles, result.cluster.partition_count
    leaders_before, leaders_after = cluster.leaders_now, result.assignment.leaders
    rows_before, rows_after = cluster.replicas, result.assignment.replicas
    leaders_misplaced = _misplaced(cluster.leader_load(leaders_before), roles.leading)
    yield leaders_misplaced - _misplaced(result.leader_counts, roles.leading), partition_count
    outside_before = int(cluster.is_outside(leaders_before).sum())
    yield outside_before - int(cluster.is_outside(leaders_after).sum()), partition_count
    leaders_above = _leaders_above_share(result, leaders_before)
    yield leaders_above - _leaders_above_share(result, leaders_after), partition_count
    not_preferred = _not_preferred(rows_before, leaders_before)
    yield not_preferred - _not_preferred(rows_after, leaders_after), partition_count
    if result.evens_traffic:
        percent = result.request.policy.bytes_in_tolerance_percent
        gained = _bytes_in_above(result, leaders_before, percent)
        gained -= _bytes_in_above(result, leaders_after, percent)
        yield gained, int(cluster.bytes_in.sum())


def _constraints_broken(placement: Placement, result: PlanningResult) -> int:
    """Return the replicas outside of their broker set, and those above what a broker may hold."""
    too_many = np.maximum(0, placement.counts - placement.cluster.max_counts)
    return int(replicas_outside_sets(placement).sum() + too_many[result.roles.sharing].sum())


def replicas_outside_sets(placement: Placement) -> Ints:
    """Return, per partition, how many replicas are not on the brokers of its broker set."""
    cluster = placement.cluster
    sets = np.append(cluster.broker_sets, NOBODY)[placement.replicas]
    is_outside = sets != cluster.sets_of_partitions[:, None]
    return np.asarray((is_outside & (placement.replicas >= 0)).sum(axis=1))


def _traffic_outside(placement: Placement, result: PlanningResult) -> int:
    outside = result.traffic_band.bytes_outside(placement.traffic)
    return int(outside[result.roles.sharing].sum())


def _misplaced(counts: Ints, is_counted: Flags) -> int:
    return units_misplaced(counts[is_counted].tolist())


def _replicas_misplaced(placement: Placement, roles: Roles) -> int:
    """Return about how many replicas are on the wrong broker."""
    cluster, sharing = placement.cluster, roles.sharing
    weights = cluster.weights(sharing)[sharing]
    return units_misplaced(placement.counts[sharing].tolist(), weights.tolist())


def _above_topic_share(placement: Placement, result: PlanningResult) -> int:
    """Return the replicas above the highest share of their topic, over all topics and brokers."""
    shares = TopicShares.of(placement, result.roles, placement.counts)
    total = 0
    for broker in np.flatnonzero(result.roles.sharing).tolist():
        above = placement.topic_counts[:, broker] - shares.highest(broker)
        total += int(np.maximum(0, above).sum())
    return total


def _leaders_above_share(result: PlanningResult, leaders: Ints) -> int:
    """Return the leaders above the highest share of their topic, over all topics and brokers."""
    cluster = result.cluster
    has_leader = leaders >= 0
    cells = cluster.topic_numbers[has_leader] * cluster.broker_count + leaders[has_leader]
    used_cells, counts = np.unique(cells, return_counts=True)
    partition_counts = np.bincount(cluster.topic_numbers, minlength=len(cluster.topic_names))
    shares = highest_share(partition_counts, int(result.roles.leading.sum()))
    topics = used_cells // cluster.broker_count
    return int(np.maximum(0, counts - shares[topics]).sum())


def _bytes_in_above(result: PlanningResult, leaders: Ints, tolerance_percent: int) -> int:
    """Return the bytes per second that leaders take in above the mean and the tolerance."""
    bytes_in = result.cluster.leader_load(leaders, result.cluster.bytes_in)[result.roles.leading]
    highest = int(bytes_in.sum()) * (100 + tolerance_percent) // (100 * max(1, len(bytes_in)))
    return int(np.maximum(0, bytes_in - highest).sum())


def _not_preferred(replicas: Ints, leaders: Ints) -> int:
    """Return the partitions that another replica than the preferred one leads."""
    return int(((leaders >= 0) & (replicas[:, 0] != leaders)).sum())


# -- what will not be even


def shares_by_disk(result: PlanningResult) -> str:
    """Return what the share of each broker is, where it is not the same for all."""
    cluster, sharing = result.cluster, result.roles.sharing
    if not result.goal.evens_replicas or result.has_equal_shares:
        return ""
    total = max(1, int(result.band.fair[sharing].sum()))
    brokers_by_share = grouped(
        (f"{result.band.fair[broker] / total:.1%}".replace("%", " %"), broker)
        for broker in np.flatnonzero(sharing).tolist()
    )
    shares = "; ".join(
        f"{result.list_brokers(np.array(brokers))} {share}{' each' if len(brokers) > 1 else ''}"
        for share, brokers in brokers_by_share.items()
    )
    if cluster.broker_weight.named:
        return f"shares of replicas and bytes are by broker_weight of the policy: {shares}"
    disks = cluster.disk_bytes[sharing]
    sizes = f"{format_bytes(int(disks.min()))} to {format_bytes(int(disks.max()))}"
    return f"shares of replicas and bytes are by disk, since disks differ ({sizes}): {shares}"


def beside_giants(result: PlanningResult) -> str:
    """Return which band can be reached where a replica is larger than a fair share."""
    if not result.goal.evens_replicas:
        return ""
    percent = result.request.policy.bytes_tolerance_percent
    giants = result.by_broker(lambda part: shares_of_bytes(part.after, part.roles, percent).bottoms)
    holders, others = np.flatnonzero(giants), result.roles.sharing & (giants == 0)
    if not len(holders) or not others.any():
        return ""
    cluster, band = result.cluster, result.band
    is_held = np.isin(result.after.replicas, holders).any(axis=1)
    largest = int(np.where(is_held, cluster.size_bytes, -1).argmax())
    lowest, highest = int(band.lowest[others].min()), int(band.highest[others].max())
    return (
        f"{cluster.name(largest)} of {format_bytes(int(cluster.size_bytes[largest]))} is larger "
        f"than a fair share: {result.list_brokers(holders)} "
        f"{verb(len(holders), 'holds', 'hold')} such replicas, and the band that the others can "
        f"reach is {format_bytes(lowest)} to {format_bytes(highest)}"
    )


def _racks_not_repaired(result: PlanningResult) -> str:
    sentence = "{has} more replicas in one rack than needed, though the racks would allow better"
    if result.request.goal is not Goal.REBALANCE:
        sentence += "; goal rebalance can repair that"
    return result.name_partitions(result.rack_moves(result.after) > 0, sentence)


def _racks_lost(result: PlanningResult) -> str:
    """Return a warning of partitions that the plan itself spreads less evenly over racks."""
    is_lost = result.rack_moves(result.after) > result.rack_moves(result.before)
    return result.name_partitions(
        is_lost & result.assignment.is_in_plan,
        "will be less even over racks than now, since no broker of another rack has room for a "
        "replica, is in scope, and may have it; add brokers or disk there, or widen the scope",
    )


def _uneven_racks(result: PlanningResult) -> str:
    sharing = result.roles.sharing
    best = result.ideal_counts[sharing]
    low, high = int(best.min(initial=UNBOUNDED)), int(best.max(initial=0))
    reached = int(np.ptp(result.after.counts[sharing]))
    if high - low <= 1 or reached < high - low or not result.goal.evens_replicas:
        return ""
    if not result.has_equal_shares:
        return ""
    if result.has_sets:
        return (
            f"replicas per broker cannot be more even than {low} to {high}: each broker set holds "
            "the replicas of its own topics; more brokers in the set that holds most would help"
        )
    return (
        f"replicas per broker cannot be more even than {low} to {high}: the racks have different "
        "numbers of brokers and each needs its part of every partition; one more broker in the "
        "smallest rack would help"
    )


def _left_alone_uneven(result: PlanningResult) -> str:
    """Return a warning of counts that what is left alone keeps from being more even."""
    best, ideal = result.best_counts, result.ideal_counts
    left_alone = int((~result.cluster.may_change).sum())
    if not result.goal.evens_replicas or not left_alone or not result.is_less_even(best, ideal):
        return ""
    sharing = result.roles.sharing
    partitions = pluralize(left_alone, "partition", "partitions")
    return (
        f"replicas per broker cannot be more even than {as_range(best[sharing])}, where "
        f"{as_range(ideal[sharing])} "
        f"would be possible: {partitions} must be left alone; exclude fewer topics, bring dead "
        "brokers back, or wait until reassignments are done"
    )


def _counts_not_reached(result: PlanningResult) -> str:
    counts, best = result.after.counts, result.best_counts
    if not result.goal.evens_replicas or not result.is_less_even(counts, best):
        return ""
    sharing = result.roles.sharing
    if result.is_less_even(result.ideal_counts, best):  # that is only with racks as they are
        best = result.ideal_counts
    what = f"replicas per broker will be {as_range(counts[sharing])}; {as_range(best[sharing])}"
    if result.deferred.partitions:
        return f"{what} is possible: {_LEFT_BY_BUDGET}"
    limits = f"{_limits_that_bind(result)}{result.or_rebalance}"
    return f"{what} is possible, but not by the moves this goal allows{limits}"


def _bytes_outside_band(result: PlanningResult) -> str:
    if not result.goal.evens_replicas or not len(result.out_of_band):
        return ""
    brokers = result.list_brokers(result.out_of_band)
    percent = result.request.policy.bytes_tolerance_percent
    return (
        f"{brokers} will hold bytes more than {percent} % away from the fair share; "
        + _why_outside(result, result.out_of_band, result.cluster.size_bytes, result.band)
    )


def _why_outside(result: PlanningResult, outside: Ints, weights: Ints, band: ByteBand) -> str:
    """Return which reasons bind: brokers are `outside` their band of bytes, or of rates.

    Only what is proven is called the best there is.
    """
    cluster, after = result.cluster, result.after
    if result.deferred.partitions:
        return _LEFT_BY_BUDGET
    fixed = cluster.load(np.where(cluster.may_change[:, None], NOBODY, after.replicas), weights)
    has_fixed = (fixed > band.highest)[outside]
    is_giant = weights[:, None] > np.append(band.highest, UNBOUNDED)[after.replicas]
    has_giant = ~has_fixed & np.isin(outside, after.replicas[is_giant])
    reasons = []
    if has_fixed.any():
        left_alone = "what is left alone there (excluded topics, reassignments) is more than that"
        reasons.append((has_fixed, left_alone))
    if has_giant.any():
        is_there = is_giant & np.isin(after.replicas, outside[has_giant])
        largest = int(np.where(is_there.any(axis=1), weights, -1).argmax())
        name, holders = cluster.name(largest), after.replicas[largest]
        is_the_same = np.isin(outside[has_giant], holders).all()
        alone = f"{name} alone" if is_the_same else f"one replica alone (such as {name})"
        reasons.append((has_giant, f"{alone} is more than a fair share"))
    others = ~has_giant & ~has_fixed
    if others.any():
        reasons.append((others, _why_no_better(result, is_bytes=weights is cluster.size_bytes)))
    if len(reasons) == 1:
        return reasons[0][1]
    return "; ".join(f"{result.list_brokers(outside[which])}: {why}" for which, why in reasons)


def _why_no_better(result: PlanningResult, *, is_bytes: bool) -> str:
    after, within = result.after, _limits_that_bind(result)
    is_proven = after.bound is not None and after.bound.is_reached
    if is_proven and is_bytes:
        return f"no plan for this goal does better{within}, as is proven{result.or_rebalance}"
    if after.has_budget_ended or not (is_proven or after.bound is None):
        return "the search ended by its budget; a scope of fewer topics may find better"
    how = "no move or exchange of two replicas that this goal allows is better"
    return f"{how}{within}{result.or_rebalance}"


def _limits_that_bind(result: PlanningResult) -> str:
    """Return ` within broker_sets, ...`: all that keeps brokers from getting replicas."""
    cluster, counts, sharing = result.cluster, result.after.counts, result.roles.sharing
    receiving = result.roles.destinations
    left_out, scope = result.left_out, result.request.scope
    is_partial = bool(left_out and left_out.partition_count) or bool(cluster.is_excluded.any())
    is_full = result.after.room < int(cluster.size_bytes.max(initial=0))
    limits = {
        "broker_sets": result.has_sets,
        "max_replicas_per_broker": (receiving & (counts >= cluster.max_counts)).any(),
        "no_new_replicas_on": (sharing & cluster.takes_none).any(),
        "disk_limit_percent": (receiving & is_full).any(),
        "the topics of the plan": is_partial,
        "the brokers of the plan": bool(scope.broker_ids or scope.excluded_broker_ids),
    }
    names = [name for name, binds in limits.items() if binds]
    return f" within {join_names(names)}" if names else ""


def traffic_at_least(result: PlanningResult) -> str:
    """Return a note of rates of topics that are or may be compacted, by which this plan weighs:
    they are lower bounds.
    """
    count = int(result.cluster.is_rate_at_least.sum())
    if not result.evens_traffic or not count:
        return ""
    subject = "rate of 1 partition is a lower bound: its topic is compacted, or may be"
    if count > 1:
        subject = (
            f"rates of {count} partitions are lower bounds: their topics are compacted, or may be"
        )
    return (
        f"the {subject} (where the cleanup policy is not known). Compaction removes records "
        "unnoticed, so brokers that lead or follow them may take in more than the plan says"
    )


def _traffic_unknown(result: PlanningResult) -> str:
    """Return a warning where too few rates are known to even traffic."""
    cluster = result.cluster
    if not result.goal.evens_replicas or not cluster.bytes_in.any() or result.evens_traffic:
        return ""
    unknown_count = int((~cluster.is_rate_known).sum())
    return (
        f"traffic is not evened: the rates of {unknown_count} of {cluster.partition_count} "
        f"partitions are not known, and {MIN_KNOWN_PERCENT} % have to be; take another snapshot, "
        "so that more are known"
    )


def _traffic_outside_band(result: PlanningResult) -> str:
    """Return a warning of brokers that take in too much or too little."""
    if not result.evens_traffic or not len(result.out_of_traffic_band):
        return ""
    percent = result.request.policy.bytes_in_tolerance_percent
    brokers = result.list_brokers(result.out_of_traffic_band)
    return (
        f"{brokers} will take in (as leader and as follower) more than {percent} % away from "
        "the fair share; "
        + _why_outside(
            result, result.out_of_traffic_band, result.cluster.bytes_in, result.traffic_band
        )
    )


def _full_disks(result: PlanningResult) -> str:
    """Return a warning of brokers that would get more if their fullest log dir allowed it."""
    after = result.after
    has_few_replicas = after.counts < result.best_counts
    has_few_bytes = after.bytes_held < result.band.lowest
    is_resized = result.request.goal is Goal.REPLICATION_FACTOR
    is_lacking = has_few_replicas | has_few_bytes | is_resized
    is_full = after.room < int(result.cluster.size_bytes.max(initial=0))
    full = np.flatnonzero(result.roles.destinations & is_lacking & is_full)
    if result.goal.keeps_order or not len(full):
        return ""
    percent = result.request.policy.disk_limit_percent
    return (
        f"{result.list_brokers(full)} can take no more: a log dir would be over {percent} % of its "
        "disk while old copies are still there; more disk, fewer bytes (retention), or a higher "
        "disk_limit_percent would help"
    )


def _cordoned_log_dirs(result: PlanningResult) -> str:
    """Return a warning of brokers that take no new replicas, or only in some log dirs."""
    cluster = result.cluster
    if not result.goal.moves_replicas:
        return ""
    has_cordoned = cluster.is_live & cluster.is_in_scope & (cluster.cordoned_dirs > 0)
    closed = np.flatnonzero(has_cordoned & ~cluster.takes_replicas)
    partly = np.flatnonzero(has_cordoned & cluster.takes_replicas & result.roles.destinations)
    sentences = []
    if len(closed):
        sentences.append(
            f"{result.list_brokers(closed)} can take no new replicas: all log dirs are cordoned; "
            "delete cordoned.log.dirs when the drain has ended"
        )
    if len(partly):
        sentences.append(
            f"{result.list_brokers(partly)} have log dirs that are cordoned; which of the others "
            "new replicas go to is chosen by the broker"
        )
    return "; ".join(sentences)


def _leaders_uneven(result: PlanningResult) -> str:
    counts = result.leader_counts[result.roles.leading]
    if result.goal.keeps_order or np.ptp(counts) <= 1:
        return ""
    idle_count = int((counts == 0).sum())
    idle = ""
    if idle_count:
        idle = f"; {pluralize(idle_count, 'broker leads', 'brokers lead')} nothing"
    is_scoped = result.request.scope != Scope() and _could_lead_more_evenly(result)
    is_narrow = result.deferred.partitions or is_scoped
    limit = "scope and budget of the request" if is_narrow else "the replica sets"
    help_ = "" if is_narrow else result.or_rebalance
    return (
        f"leaders per broker will be {counts.min()} to {counts.max()}{idle}: "
        f"{limit} allow no better{help_}"
    )


def _could_lead_more_evenly(result: PlanningResult) -> bool:
    """Return whether the same replicas could lead more evenly, whatever the scope of the request.

    They could where a broker that leads two more than another can pass leadership on to it, from
    broker to broker, each to a replica of the same partition (Harvey et al. 2003, "Semi-matchings
    for bipartite graphs and load balancing").
    """
    replicas, is_leading = result.assignment.replicas, result.roles.leading
    leaders, counts = result.assignment.leaders, result.leader_counts
    rows, columns = np.nonzero((replicas >= 0) & (leaders >= 0)[:, None])
    passes_on = np.zeros((len(counts), len(counts)), dtype=np.bool_)
    passes_on[leaders[rows], replicas[rows, columns]] = True
    passes_on &= is_leading & is_leading[:, None]
    is_reached = np.zeros_like(is_leading)
    for level in np.unique(counts[is_leading])[::-1].tolist():
        is_new = is_leading & (counts == level) & ~is_reached
        while is_new.any():
            is_reached |= is_new
            is_new = passes_on[is_new].any(axis=0) & ~is_reached
        if (counts[is_reached] <= level - 2).any():
            return True
    return False


def _leaders_outside(result: PlanningResult) -> str:
    """Return how many leaders will stand outside of the policy's `leader_racks`, and why."""
    cluster, preferences = result.cluster, result.request.policy.leader_racks
    unknown = sorted({*chain(*preferences.values())} - set(result.snapshot.racks.values()))
    sentences = [f"no broker is in a rack of leader_racks: {', '.join(unknown)}"] if unknown else []
    is_outside = cluster.is_outside(result.assignment.leaders)
    replicas = result.assignment.replicas
    has_one = ((replicas >= 0) & ~cluster.is_outside(replicas)).any(axis=1)
    if without := int((is_outside & ~has_one).sum()):
        stand = pluralize(without, "leader stands", "leaders stand")
        sentences.append(f"{stand} outside of leader_racks, without a replica there")
    if others := int((is_outside & has_one).sum()):
        stand = pluralize(others, "leader stands", "leaders stand")
        sentences.append(
            f"{stand} outside of leader_racks: this goal leaves them, leaders per broker would be "
            "less even, or no replica there may lead"
        )
    return "; ".join(sentences)


EVENNESS_WARNINGS: Final[tuple[Callable[[PlanningResult], str], ...]] = (
    _racks_not_repaired,
    _racks_lost,
    _uneven_racks,
    _left_alone_uneven,
    _counts_not_reached,
    _bytes_outside_band,
    _traffic_unknown,
    _traffic_outside_band,
    _full_disks,
    _cordoned_log_dirs,
    _leaders_uneven,
    _leaders_outside,
)
