"""Explanation: the plan document of a result, all of it written from one `PlanningResult`.

    plan = explain(result)

    moves with their reasons, or why there are none; every broker before, after and at best; and
    what the person who approves should know (`plan_warnings`)

Best means in the figures: what no plan could do better, whatever it moved. Where racks have
different numbers of brokers it is uneven itself.

An empty plan is an answer, not an error: already done, already balanced, or that the goal cannot be
reached, why, and what would help.

The reason of a move is the measure that the change serves first:

    a copy of a plan that evens out      RACKS, TRAFFIC, REPLICAS or BYTES (below)
    no copy, but another leader          LEADERS
    only another order or an election    PREFERRED

Goals that copy for one reason only (drain, repair ...) give that reason instead of the first four.
In plans that even out, the first of these that holds:

    racks      the partition is spread over racks more evenly than before
    traffic    it was moved, or moved on, to even traffic out
    replicas   it takes one of the replicas that a broker has too many, or brings one that a broker
               lacks (below)
    bytes      all others: brokers exchange replicas, and no count changes

Too many and lacking are the replicas that a broker ends up with less, or more, as far as that makes
counts more even: the largest numbers that fall and the smallest that rise are paired, and a pair
counts where they differ by two or more. What takes from one broker and brings to another that way
comes first.

Worked example: brokers 1, 2 and 3 (new) hold 3, 3 and 0 replicas. Partition a goes from broker 1 to
2, b from 2 to 3, c from 2 to 3. So brokers 1 and 2 have one too many, and broker 3 lacks two. First
b takes from 2 and brings to 3, then a takes from 1, and c brings to 3: all three are for replicas.
Were there also d from 1 to 2 and e from 2 to 1, these two would be for bytes.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from counterpoise.model.columns import Flags, Ints, rank_within
from counterpoise.model.kafka import EVERY_BROKER, ConfigResourceType
from counterpoise.model.plan import BrokerFigure, Move, MoveReason, RebalancePlan, SettingBefore
from counterpoise.model.request import Goal
from counterpoise.model.words import pluralize
from counterpoise.planning.arrays import UNBOUNDED, ClusterArrays
from counterpoise.planning.broker_sets import BrokerSetPart
from counterpoise.planning.fair_shares import fill
from counterpoise.planning.minimum_gain import replicas_outside_sets
from counterpoise.planning.plan_warnings import notes_of, warnings_of
from counterpoise.planning.planning_result import PlanningResult
from counterpoise.units import format_bytes


def explain(result: PlanningResult) -> RebalancePlan:
    """Return the plan document; one without moves says in `reason` why nothing moves."""
    snapshot, request = result.snapshot, result.request
    moves = _moves_of(result)
    settings = _settings_before(snapshot.throttles, moves)
    lower_bound, goal_bound = result.bounds
    moves_for_traffic = any(move.why is MoveReason.TRAFFIC for move in moves)
    return RebalancePlan(
        cluster=snapshot.cluster,
        cluster_id=snapshot.cluster_id,
        snapshot_id=snapshot.snapshot_id,
        goal=request.goal,
        broker_ids=tuple(sorted(request.broker_ids)),
        new_broker_ids=request.new_broker_ids,
        below_percent=request.below_percent,
        policy_digest=request.policy.digest,
        moves=moves,
        reason="" if moves else _reason_for_empty_plan(result),
        settings_before=settings,
        figures=_figures_of(result, with_network_in=moves_for_traffic),
        lower_bound=lower_bound,
        goal_bound=goal_bound,
        warnings=warnings_of(result),
        notes=notes_of(result),
        scope=request.scope,
        budget=request.budget,
        replication_factor=request.replication_factor,
        deferred=result.deferred,
    )


# -- moves


def _moves_of(result: PlanningResult) -> tuple[Move, ...]:
    """Return the moves, by topic and partition."""
    cluster, assignment, topic_ids = result.cluster, result.assignment, result.snapshot.topic_ids
    planned = np.flatnonzero(assignment.is_in_plan)
    broker_ids = np.append(cluster.broker_ids, -1)
    rates = np.where(cluster.is_rate_known[planned], cluster.bytes_in[planned], -1)
    gains = result.after.traffic_gains
    rows = zip(
        cluster.topics.take(planned).to_pylist(),
        cluster.numbers[planned].tolist(),
        _broker_ids_of(cluster, assignment.before[planned]),
        _broker_ids_of(cluster, assignment.replicas[planned]),
        broker_ids[cluster.leaders[planned]].tolist(),
        cluster.size_bytes[planned].tolist(),
        rates.tolist(),
        _reasons(result, planned),
        planned.tolist(),
        strict=True,
    )
    return tuple(
        Move(
            topic=topic,
            partition=number,
            topic_id=topic_ids.get(topic) or "",
            replicas_before=before,
            replicas_after=after,
            leader_before=leader,
            size_bytes=size_bytes,
            bytes_in_per_second=rate if rate >= 0 else None,
            why=reason,
            traffic_gain=gains.get(row) if reason is MoveReason.TRAFFIC else None,
        )
        for topic, number, before, after, leader, size_bytes, rate, reason, row in rows
    )


def _settings_before(throttles: pa.Table, moves: Sequence[Move]) -> tuple[SettingBefore, ...]:
    """Return the throttle keys that are set already where moves copy, sorted.

    They are what a run restores in the end, as of the snapshot: it reads the keys again before it
    sets them, and its ledger has what it found. Any of the replicas before may be copied from. The
    default of all brokers is among them.
    """
    broker_ids: set[int] = set()
    topics: set[str] = set()
    for move in moves:
        adding = move.adding
        if adding:
            broker_ids.update(move.replicas_before, adding)
            topics.add(move.topic)
    brokers = {str(broker_id) for broker_id in broker_ids}
    if brokers:
        brokers.add(EVERY_BROKER.name)
    throttled = {ConfigResourceType.BROKER: brokers, ConfigResourceType.TOPIC: topics}
    found = []
    for row in throttles.to_pylist():
        resource_type, name = ConfigResourceType(row["resource_type"]), row["resource_name"]
        if name in throttled[resource_type]:
            found.append(SettingBefore(resource_type, name, row["key"], row["value"]))
    return tuple(sorted(found))


def _broker_ids_of(cluster: ClusterArrays, replicas: Ints) -> list[tuple[int, ...]]:
    """Return the broker ids of each row of replicas, without what fills it up."""
    counts = (replicas >= 0).sum(axis=1).tolist()
    rows = np.append(cluster.broker_ids, -1)[replicas].tolist()
    return [tuple(row[:count]) for row, count in zip(rows, counts, strict=True)]


def _reasons(result: PlanningResult, planned: Ints) -> list[MoveReason]:
    """Return one reason for each partition in the plan, in order."""
    cluster, assignment, copy_reason = result.cluster, result.assignment, result.goal.copy_reason
    if copy_reason in (MoveReason.DEMOTE, MoveReason.IMPORTED):
        return [copy_reason] * len(planned)
    is_leader_change = assignment.leaders[planned] != cluster.leaders_now[planned]
    leaders, preferred = MoveReason.LEADERS.value, MoveReason.PREFERRED.value
    reasons = np.where(is_leader_change, leaders, preferred).astype(object)
    is_copy = assignment.is_added[planned].any(axis=1)
    if copy_reason is None:
        reasons[is_copy] = _evening_reasons(result, planned[is_copy])
    else:
        counts_before = (assignment.before[planned] >= 0).sum(axis=1)
        counts_after = (assignment.replicas[planned] >= 0).sum(axis=1)
        reasons[is_copy | (counts_before != counts_after)] = copy_reason.value
    return [MoveReason(reason) for reason in reasons.tolist()]


# -- what each copy of a plan that evens out is for


def _evening_reasons(result: PlanningResult, copied: Ints) -> list[str]:
    """Return the reason (its value) of each partition that is copied."""
    assignment = result.assignment
    outside_before, outside_after = map(replicas_outside_sets, (result.before, result.after))
    is_for_set = (outside_before > outside_after)[copied]
    racks_gained = result.rack_moves_before - result.rack_moves_after
    is_for_racks = (racks_gained[copied] > 0) & ~is_for_set
    # In a row as many replicas come as go, so the pairs are in the same order.
    rows, columns = np.nonzero(assignment.is_removed[copied])
    sources = assignment.before[copied][rows, columns]
    destinations = assignment.replicas[copied][np.nonzero(assignment.is_added[copied])]
    is_for_traffic = np.isin(copied, list(result.after.traffic_gains))
    counts = result.before.counts.copy()
    is_first = (is_for_set | is_for_racks)[rows]
    np.add.at(counts, sources[is_first], -1)
    np.add.at(counts, destinations[is_first], 1)
    is_for_counts = _serve_counts(counts, sources, destinations, ~is_first)
    serves_counts = np.zeros(len(copied), dtype=np.bool_)
    serves_counts[rows[is_for_counts]] = True
    kinds = MoveReason.BROKER_SET, MoveReason.RACKS, MoveReason.TRAFFIC, MoveReason.REPLICAS
    reasons = np.select(
        [is_for_set, is_for_racks, is_for_traffic, serves_counts],
        [kind.value for kind in kinds],
        MoveReason.BYTES.value,
    )
    return list(reasons.tolist())


def _serve_counts(counts: Ints, sources: Ints, destinations: Ints, is_open: Flags) -> Flags:
    """Return which of the open moves make counts more even."""
    too_many, lacking = _serving_units(counts, sources[is_open], destinations[is_open])
    is_serving = np.zeros(len(sources), dtype=np.bool_)
    for needed in (2, 1):  # what takes from one and brings to another comes first
        for number in np.flatnonzero(is_open & ~is_serving).tolist():
            source, destination = int(sources[number]), int(destinations[number])
            takes, brings = too_many[source] > 0, lacking[destination] > 0
            if takes + brings >= needed:
                is_serving[number] = True
                too_many[source] -= takes
                lacking[destination] -= brings
    return is_serving


def _serving_units(counts: Ints, sources: Ints, destinations: Ints) -> tuple[list[int], list[int]]:
    """Return the replicas that each broker has too many, and those that it lacks."""
    change = np.bincount(destinations, minlength=len(counts))
    change -= np.bincount(sources, minlength=len(counts))
    falling = np.repeat(np.arange(len(counts)), np.maximum(0, -change))
    rising = np.repeat(np.arange(len(counts)), np.maximum(0, change))
    largest = counts[falling] - rank_within(falling, np.arange(len(falling)))
    smallest = counts[rising] + rank_within(rising, np.arange(len(rising)))
    downwards, upwards = np.argsort(-largest, kind="stable"), np.argsort(smallest, kind="stable")
    serves = largest[downwards] - smallest[upwards] >= 2
    too_many = np.bincount(falling[downwards[serves]], minlength=len(counts))
    lacking = np.bincount(rising[upwards[serves]], minlength=len(counts))
    return too_many.tolist(), lacking.tolist()


# -- brokers before, after and at best


def _figures_of(result: PlanningResult, *, with_network_in: bool) -> tuple[BrokerFigure, ...]:
    """Return a figure for every registered broker, by id.

    Network-in is told only by a plan that moves replicas for traffic.
    """
    cluster, before, after = result.cluster, result.before, result.after
    leaders = result.assignment.leaders
    columns = {
        "leaders_before": cluster.leader_load(cluster.leaders_now),
        "leaders_after": result.leader_counts,
        "leaders_best": result.by_broker(
            lambda part: _evened(part, leaders[part.rows], result.most_leaders(part))
        ),
        "replicas_before": before.counts,
        "replicas_after": after.counts,
        "replicas_best": result.best_counts,
        "bytes_before": before.bytes_held,
        "bytes_after": after.bytes_held,
        "bytes_best": result.band.fair,
        "bytes_peak": before.bytes_held + after.arriving,
    }
    everything = (cluster, *([result.left_out] if result.left_out else []))
    knows_rates = any(part.is_rate_known.any() for part in everything)
    if knows_rates:
        columns["bytes_in_before"] = cluster.leader_load(cluster.leaders_now, cluster.bytes_in)
        columns["bytes_in_after"] = cluster.leader_load(leaders, cluster.bytes_in)
        columns["bytes_in_best"] = result.by_broker(
            lambda part: _evened(part, leaders[part.rows], weights=part.cluster.bytes_in)
        )
    if knows_rates and with_network_in:
        columns["network_in_before"] = before.traffic
        columns["network_in_after"] = after.traffic
        columns["network_in_best"] = result.traffic_band.fair
    if result.left_out is not None:
        _add_left_out(columns, result.left_out)
    rows = {row["broker_id"]: row for row in result.snapshot.brokers.to_pylist()}
    figures = []
    for position in np.flatnonzero(cluster.is_registered).tolist():
        row = rows[int(cluster.broker_ids[position])]
        total_bytes, usable_bytes = row["disk_total_bytes"], row["disk_usable_bytes"]
        used_bytes = None
        if total_bytes is not None and usable_bytes is not None:
            used_bytes = total_bytes - usable_bytes
        figure = BrokerFigure(
            broker_id=row["broker_id"],
            rack=row["rack"],
            disk_total_bytes=total_bytes,
            disk_used_bytes=used_bytes,
            **{name: int(column[position]) for name, column in columns.items()},
        )
        figures.append(figure)
    return tuple(figures)


def _add_left_out(columns: dict[str, Ints], left_out: ClusterArrays) -> None:
    """Add what brokers hold and lead of partitions that do not count: the same before and after."""
    loads = {
        "leaders": left_out.leader_load(left_out.leaders_now),
        "replicas": left_out.load(left_out.replicas),
        "bytes": left_out.load(left_out.replicas, left_out.size_bytes),
        "network_in": left_out.load(left_out.replicas, left_out.bytes_in),
        "bytes_in": left_out.leader_load(left_out.leaders_now, left_out.bytes_in),
    }
    for name in columns:
        columns[name] = columns[name] + loads[name.rpartition("_")[0]]


def _evened(
    part: BrokerSetPart,
    leaders: Ints,
    most: Ints | int = UNBOUNDED,
    weights: Ints | None = None,
) -> Ints:
    """Return what leaders bring, shared out over the brokers that may lead; others keep theirs."""
    leading, loads = part.roles.leading, part.cluster.leader_load(leaders, weights)
    highest = np.where(leading, most, loads)
    return fill(int(loads.sum()), np.where(leading, 0, loads), highest, loads)


# -- why an empty plan is empty


def _reason_for_empty_plan(result: PlanningResult) -> str:
    """Return one sentence for the person who requested the plan."""
    if not result.cluster.partition_count and result.request.goal is not Goal.IMPORTED:
        return "already balanced: the cluster has no partitions"
    if result.deferred.partitions:
        return _budget_too_small(result)
    return result.goal.reason(result)


def _budget_too_small(result: PlanningResult) -> str:
    max_bytes, deferred = result.request.budget.max_bytes or 0, result.deferred
    return (
        f"cannot, because no copy that helps is as small as the budget of "
        f"{format_bytes(max_bytes)}: {pluralize(deferred.partitions, 'partition')} with "
        f"{format_bytes(deferred.bytes)} to copy are left; give more with --max-bytes"
    )
