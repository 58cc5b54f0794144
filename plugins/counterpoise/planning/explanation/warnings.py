"""What the person who approves should know: plain sentences, each with a count and some names.

    warnings_of(situation)     # ("2 partitions are being reassigned already and are left alone: a-0, a-1", ...)

A caution is a small function from a situation to a sentence or None; `CAUTIONS` is all of them, in
print order.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from counterpoise.model.columns import Ints
from counterpoise.model.movement import COORDINATOR_TOPICS
from counterpoise.model.policy import LeaderWeight
from counterpoise.model.request import Goal, Scope
from counterpoise.model.words import join_names, pluralize
from counterpoise.planning.explanation.planning_result import PlanningResult, is_worse
from counterpoise.planning.explanation.shortfalls import (
    left_to_repair,
    not_repaired_yet,
    short_of_replicas,
)
from counterpoise.planning.placing.racks import badly_racked
from counterpoise.planning.wording import partition_names
from counterpoise.units import format_bytes

_EVENING_REPLICAS: Final = frozenset({Goal.ADD_BROKERS, Goal.REMOVE_BROKERS, Goal.REBALANCE})
_USUAL_REPLICATION_FACTOR = 3


def warnings_of(planning_result: PlanningResult) -> tuple[str, ...]:
    """All sentences that apply."""
    sentences = (caution(planning_result) for caution in WARNINGS)
    return tuple(sentence for sentence in sentences if sentence is not None)


def _partitions(planning_result: PlanningResult, which: Ints, one: str, more: str) -> str | None:
    """A sentence that names the first few partitions; None when there are none."""
    if not len(which):
        return None
    names = partition_names(planning_result.cluster, which)
    return f"{pluralize(len(which), f'partition {one}', f'partitions {more}')}: {names}"


def _brokers(planning_result: PlanningResult, which: Ints) -> str:
    ids = [str(broker_id) for broker_id in planning_result.cluster.broker_ids[which].tolist()]
    return f"broker{'s' if len(which) > 1 else ''} {join_names(ids)}"


def _under_reassignment(planning_result: PlanningResult) -> str | None:
    left_alone = "being reassigned already and left alone"
    which = np.flatnonzero(planning_result.cluster.is_moving)
    return _partitions(planning_result, which, f"is {left_alone}", f"are {left_alone}")


def _without_leader(planning_result: PlanningResult) -> str | None:
    cluster = planning_result.cluster
    if cluster.partition_count and not (cluster.leaders >= 0).any():
        return (
            "the snapshot tells no leaders; each partition's first replica is taken for its leader"
        )
    return _partitions(
        planning_result,
        np.flatnonzero(cluster.is_leaderless),
        "has no leader; bring one of its brokers back",
        "have no leader; bring one of their brokers back",
    )


def _excluded(planning_result: PlanningResult) -> str | None:
    count = int(planning_result.cluster.is_excluded.sum())
    excluded = "left alone: the policy or the request excludes"
    return (
        pluralize(
            count, f"partition is {excluded} its topic", f"partitions are {excluded} their topics"
        )
        if count
        else None
    )


def _on_dead_brokers(planning_result: PlanningResult) -> str | None:
    dead = np.flatnonzero(~planning_result.cluster.is_live & (planning_result.after.counts > 0))
    if not len(dead):
        return None
    count = int(planning_result.after.counts[dead].sum())
    return f"{pluralize(count, 'replica stays', 'replicas stay')} on {_brokers(planning_result, dead)}, not live now"


def _left_to_repair(planning_result: PlanningResult) -> str | None:
    return left_to_repair(planning_result).sentence or None


def _few_replicas(planning_result: PlanningResult) -> str | None:
    which = np.flatnonzero(planning_result.after.replica_counts < _USUAL_REPLICATION_FACTOR)
    return _partitions(
        planning_result,
        which,
        "has fewer than 3 replicas; one broker less may stop it",
        "have fewer than 3 replicas; one broker less may stop them",
    )


def _unknown_sizes(planning_result: PlanningResult) -> str | None:
    unknown = np.flatnonzero(~planning_result.cluster.is_size_known)
    if len(unknown) and len(unknown) == planning_result.cluster.partition_count:
        return "no partition size is known; bytes count as 0, so the plan goes by counts alone"
    counts_as = "has no known size and counts as 0 bytes", "have no known size and count as 0 bytes"
    return _partitions(planning_result, unknown, *counts_as)


def _racks_not_cured(planning_result: PlanningResult) -> str | None:
    which = badly_racked(planning_result.after, planning_result.roles.staying)
    if planning_result.request.goal is Goal.REBALANCE:
        end = "though the racks would allow better"
    else:
        end = "though the racks would allow better; goal rebalance can cure that"
    return _partitions(
        planning_result,
        which,
        f"has more replicas in one rack than needed, {end}",
        f"have more replicas in one rack than needed, {end}",
    )


def _uneven_racks(planning_result: PlanningResult) -> str | None:
    best = planning_result.best_counts[planning_result.sharing]
    low, high = int(best.min(initial=1 << 60)), int(best.max(initial=0))
    if high - low <= 1 or planning_result.request.goal not in _EVENING_REPLICAS:
        return None
    return (
        f"replicas per broker cannot be more even than {low} to {high}: the racks have different numbers of brokers "
        "and each needs its part of every partition; a broker more in the smallest rack would help"
    )


def _counts_not_reached(planning_result: PlanningResult) -> str | None:
    if planning_result.request.goal not in _EVENING_REPLICAS:
        return None
    best, reached = (
        planning_result.best_counts[planning_result.sharing],
        planning_result.after.counts[planning_result.sharing],
    )
    if not is_worse(reached, best):
        return None
    return (
        f"replicas per broker will be {reached.min()} to {reached.max()}; {best.min()} to {best.max()} is possible, "
        "but not by the moves this goal allows" + _offer_rebalance(planning_result)
    )


def _bytes_outside_band(planning_result: PlanningResult) -> str | None:
    which = planning_result.out_of_band
    if planning_result.request.goal not in _EVENING_REPLICAS or not len(which):
        return None
    percent = planning_result.request.policy.bytes_tolerance_percent
    return (
        f"{_brokers(planning_result, which)} will hold bytes more than {percent} % away from the fair share; "
        "the partition sizes or the moves this goal allows leave no better"
        + _offer_rebalance(planning_result)
    )


def _full_disks(planning_result: PlanningResult) -> str | None:
    """Brokers that would have got more if their fullest log dir allowed it."""
    cluster, after = planning_result.cluster, planning_result.after
    resizes = planning_result.request.goal is Goal.REPLICATION_FACTOR
    lacking = (
        (after.counts < planning_result.best_counts)
        | (after.bytes_held < planning_result.band.lowest)
        | resizes
    )
    largest = int(cluster.size_bytes.max(initial=0))
    which = np.flatnonzero(planning_result.roles.destinations & lacking & (after.room < largest))
    if not len(which):
        return None
    percent = planning_result.request.policy.disk_limit_percent
    return (
        f"{_brokers(planning_result, which)} can take no more: a log dir would be over {percent} % of its disk while old "
        "copies are still there; more disk, fewer bytes (retention), or a higher disk_limit_percent would help"
    )


def _coordinators(planning_result: PlanningResult) -> str | None:
    cluster, named = planning_result.cluster, planning_result.outcome.is_named
    names = [name for name in cluster.topic_names if name in COORDINATOR_TOPICS]
    numbers = [cluster.topic_names.index(name) for name in names]
    count = int((named & np.isin(cluster.topic_numbers, numbers)).sum())
    if not count:
        return None
    touched = pluralize(count, "partition of", "partitions of")
    return (
        f"{touched} {', '.join(names)} {'is' if count == 1 else 'are'} touched: where their leader changes, groups and "
        "transactions find a new coordinator, which takes clients a moment"
    )


def _min_insync_is_all(planning_result: PlanningResult) -> str | None:
    cluster = planning_result.cluster
    least = cluster.min_insync_replicas[cluster.topic_numbers]
    which = np.flatnonzero(
        planning_result.outcome.is_named
        & (least >= planning_result.after.replica_counts)
        & (least > 1)
    )
    needs = "as many in-sync replicas as it has (min.insync.replicas); one slow broker stops its producers"
    need = "as many in-sync replicas as they have (min.insync.replicas); one slow broker stops their producers"
    return _partitions(
        planning_result, which, f"of the plan needs {needs}", f"of the plan need {need}"
    )


def _rates_unknown(planning_result: PlanningResult) -> str | None:
    if (
        planning_result.request.policy.leader_weight is not LeaderWeight.BYTES_IN
        or planning_result.cluster.is_rate_known.any()
    ):
        return None
    return "leaders are to be weighed by bytes-in, but the snapshot tells no rates; they are even in number instead"


def _left_by_budget(planning_result: PlanningResult) -> str | None:
    left = planning_result.left
    if not left.partitions:
        return None
    copies = f" with {pluralize(left.replicas, 'replica')} and {format_bytes(left.bytes)} to copy"
    return (
        f"the budget leaves {pluralize(left.partitions, 'partition')}"
        f"{copies if left.replicas else ''} for a later plan; plan again when this one is done"
    )


def _still_leading(planning_result: PlanningResult) -> str | None:
    """Of a demoted broker: what nobody else can lead."""
    if planning_result.request.goal is not Goal.DEMOTE_BROKERS:
        return None
    demoted = np.append(planning_result.roles.sharing & ~planning_result.roles.leading, False)
    return _partitions(
        planning_result,
        np.flatnonzero(demoted[planning_result.outcome.leaders]),
        "is still led by a demoted broker: no other live replica may lead it",
        "are still led by a demoted broker: no other live replica may lead them",
    )


def _offer_rebalance(planning_result: PlanningResult) -> str:
    return "" if planning_result.request.goal is Goal.REBALANCE else "; goal rebalance may do more"


def _leaders_uneven(planning_result: PlanningResult) -> str | None:
    led = planning_result.led[planning_result.roles.leading]
    if np.ptp(led) <= 1:
        return None
    idle = int((led == 0).sum())
    idlers = f"; {pluralize(idle, 'broker leads', 'brokers lead')} nothing" if idle else ""
    is_narrow = planning_result.left.partitions or planning_result.request.scope != Scope()
    limit = "scope and budget of the request" if is_narrow else "the replica sets"
    return (
        f"leaders per broker will be {led.min()} to {led.max()}{idlers}: {limit} allow no better"
        + ("" if is_narrow else _offer_rebalance(planning_result))
    )


WARNINGS: Final[tuple[Callable[[PlanningResult], str | None], ...]] = (
    _under_reassignment,
    _without_leader,
    _excluded,
    _on_dead_brokers,
    _left_to_repair,
    _few_replicas,
    _unknown_sizes,
    _racks_not_cured,
    _uneven_racks,
    _counts_not_reached,
    _bytes_outside_band,
    _full_disks,
    _leaders_uneven,
    _still_leading,
    _rates_unknown,
    _min_insync_is_all,
    _coordinators,
    _left_by_budget,
    short_of_replicas,
    not_repaired_yet,
)
