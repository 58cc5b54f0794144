"""What the person who approves should know: plain sentences, each with a count and some names.

    warnings_of(situation)     # ("2 partitions are being reassigned already and are left alone: a-0, a-1", ...)

A caution is a small function from a situation to a sentence or None; `CAUTIONS` is all of them, in print order.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from counterpoise.model.columns import Ints
from counterpoise.model.movement import COORDINATOR_TOPICS
from counterpoise.model.policy import LeaderWeight
from counterpoise.model.request import Goal, Scope
from counterpoise.model.words import few, many
from counterpoise.planning.placing.racks import badly_racked
from counterpoise.planning.telling.shortfalls import left_to_repair, not_repaired_yet, short_of_replicas
from counterpoise.planning.telling.situation import Situation, is_worse
from counterpoise.planning.wording import partition_names
from counterpoise.units import format_bytes

_EVENING_REPLICAS: Final = frozenset({Goal.ADD_BROKERS, Goal.REMOVE_BROKERS, Goal.REBALANCE})
_USUAL_REPLICATION_FACTOR = 3


def warnings_of(situation: Situation) -> tuple[str, ...]:
    """All sentences that apply."""
    sentences = (caution(situation) for caution in CAUTIONS)
    return tuple(sentence for sentence in sentences if sentence is not None)


def _partitions(situation: Situation, which: Ints, one: str, more: str) -> str | None:
    """A sentence that names the first few partitions; None when there are none."""
    if not len(which):
        return None
    names = partition_names(situation.cluster, which)
    return f"{many(len(which), f'partition {one}', f'partitions {more}')}: {names}"


def _brokers(situation: Situation, which: Ints) -> str:
    ids = [str(broker_id) for broker_id in situation.cluster.broker_ids[which].tolist()]
    return f"broker{'s' if len(which) > 1 else ''} {few(ids)}"


def _under_reassignment(situation: Situation) -> str | None:
    left_alone = "being reassigned already and left alone"
    which = np.flatnonzero(situation.cluster.is_moving)
    return _partitions(situation, which, f"is {left_alone}", f"are {left_alone}")


def _without_leader(situation: Situation) -> str | None:
    cluster = situation.cluster
    if cluster.partition_count and not (cluster.leaders >= 0).any():
        return "the snapshot tells no leaders; each partition's first replica is taken for its leader"
    return _partitions(
        situation,
        np.flatnonzero(cluster.is_leaderless),
        "has no leader; bring one of its brokers back",
        "have no leader; bring one of their brokers back",
    )


def _excluded(situation: Situation) -> str | None:
    count = int(situation.cluster.is_excluded.sum())
    excluded = "left alone: the policy or the request excludes"
    return (
        many(count, f"partition is {excluded} its topic", f"partitions are {excluded} their topics") if count else None
    )


def _on_dead_brokers(situation: Situation) -> str | None:
    dead = np.flatnonzero(~situation.cluster.is_live & (situation.after.counts > 0))
    if not len(dead):
        return None
    count = int(situation.after.counts[dead].sum())
    return f"{many(count, 'replica stays', 'replicas stay')} on {_brokers(situation, dead)}, not live now"


def _left_to_repair(situation: Situation) -> str | None:
    return left_to_repair(situation).sentence or None


def _few_replicas(situation: Situation) -> str | None:
    which = np.flatnonzero(situation.after.replica_counts < _USUAL_REPLICATION_FACTOR)
    return _partitions(
        situation,
        which,
        "has fewer than 3 replicas; one broker less may stop it",
        "have fewer than 3 replicas; one broker less may stop them",
    )


def _unknown_sizes(situation: Situation) -> str | None:
    unknown = np.flatnonzero(~situation.cluster.is_size_known)
    if len(unknown) and len(unknown) == situation.cluster.partition_count:
        return "no partition size is known; bytes count as 0, so the plan goes by counts alone"
    counts_as = "has no known size and counts as 0 bytes", "have no known size and count as 0 bytes"
    return _partitions(situation, unknown, *counts_as)


def _racks_not_cured(situation: Situation) -> str | None:
    which = badly_racked(situation.after, situation.roles.staying)
    if situation.request.goal is Goal.REBALANCE:
        end = "though the racks would allow better"
    else:
        end = "though the racks would allow better; goal rebalance can cure that"
    return _partitions(
        situation,
        which,
        f"has more replicas in one rack than needed, {end}",
        f"have more replicas in one rack than needed, {end}",
    )


def _uneven_racks(situation: Situation) -> str | None:
    best = situation.best_counts[situation.sharing]
    low, high = int(best.min(initial=1 << 60)), int(best.max(initial=0))
    if high - low <= 1 or situation.request.goal not in _EVENING_REPLICAS:
        return None
    return (
        f"replicas per broker cannot be more even than {low} to {high}: the racks have different numbers of brokers "
        "and each needs its part of every partition; a broker more in the smallest rack would help"
    )


def _counts_not_reached(situation: Situation) -> str | None:
    if situation.request.goal not in _EVENING_REPLICAS:
        return None
    best, reached = situation.best_counts[situation.sharing], situation.after.counts[situation.sharing]
    if not is_worse(reached, best):
        return None
    return (
        f"replicas per broker will be {reached.min()} to {reached.max()}; {best.min()} to {best.max()} is possible, "
        "but not by the moves this goal allows" + _offer_rebalance(situation)
    )


def _bytes_outside_band(situation: Situation) -> str | None:
    which = situation.out_of_band
    if situation.request.goal not in _EVENING_REPLICAS or not len(which):
        return None
    percent = situation.request.policy.bytes_tolerance_percent
    return (
        f"{_brokers(situation, which)} will hold bytes more than {percent} % away from the fair share; "
        "the partition sizes or the moves this goal allows leave no better" + _offer_rebalance(situation)
    )


def _full_disks(situation: Situation) -> str | None:
    """Brokers that would have got more if their fullest log dir allowed it."""
    cluster, after = situation.cluster, situation.after
    resizes = situation.request.goal is Goal.REPLICATION_FACTOR
    lacking = (after.counts < situation.best_counts) | (after.bytes_held < situation.band.lowest) | resizes
    largest = int(cluster.size_bytes.max(initial=0))
    which = np.flatnonzero(situation.roles.takers & lacking & (after.room < largest))
    if not len(which):
        return None
    percent = situation.request.policy.disk_limit_percent
    return (
        f"{_brokers(situation, which)} can take no more: a log dir would be over {percent} % of its disk while old "
        "copies are still there; more disk, fewer bytes (retention), or a higher disk_limit_percent would help"
    )


def _coordinators(situation: Situation) -> str | None:
    cluster, named = situation.cluster, situation.outcome.is_named
    names = [name for name in cluster.topic_names if name in COORDINATOR_TOPICS]
    numbers = [cluster.topic_names.index(name) for name in names]
    count = int((named & np.isin(cluster.topic_numbers, numbers)).sum())
    if not count:
        return None
    touched = many(count, "partition of", "partitions of")
    return (
        f"{touched} {', '.join(names)} {'is' if count == 1 else 'are'} touched: where their leader changes, groups and "
        "transactions find a new coordinator, which takes clients a moment"
    )


def _min_insync_is_all(situation: Situation) -> str | None:
    cluster = situation.cluster
    least = cluster.min_insync_replicas[cluster.topic_numbers]
    which = np.flatnonzero(situation.outcome.is_named & (least >= situation.after.replica_counts) & (least > 1))
    needs = "as many in-sync replicas as it has (min.insync.replicas); one slow broker stops its producers"
    need = "as many in-sync replicas as they have (min.insync.replicas); one slow broker stops their producers"
    return _partitions(situation, which, f"of the plan needs {needs}", f"of the plan need {need}")


def _rates_unknown(situation: Situation) -> str | None:
    if situation.request.policy.leader_weight is not LeaderWeight.BYTES_IN or situation.cluster.is_rate_known.any():
        return None
    return "leaders are to be weighed by bytes-in, but the snapshot tells no rates; they are even in number instead"


def _left_by_budget(situation: Situation) -> str | None:
    left = situation.left
    if not left.partitions:
        return None
    copies = f" with {many(left.replicas, 'replica')} and {format_bytes(left.bytes)} to copy"
    return (
        f"the budget leaves {many(left.partitions, 'partition')}"
        f"{copies if left.replicas else ''} for a later plan; plan again when this one is done"
    )


def _still_leading(situation: Situation) -> str | None:
    """Of a demoted broker: what nobody else can lead."""
    if situation.request.goal is not Goal.DEMOTE_BROKERS:
        return None
    demoted = np.append(situation.roles.sharing & ~situation.roles.leading, False)
    return _partitions(
        situation,
        np.flatnonzero(demoted[situation.outcome.leaders]),
        "is still led by a demoted broker: no other live replica may lead it",
        "are still led by a demoted broker: no other live replica may lead them",
    )


def _offer_rebalance(situation: Situation) -> str:
    return "" if situation.request.goal is Goal.REBALANCE else "; goal rebalance may do more"


def _leaders_uneven(situation: Situation) -> str | None:
    led = situation.led[situation.roles.leading]
    if np.ptp(led) <= 1:
        return None
    idle = int((led == 0).sum())
    idlers = f"; {many(idle, 'broker leads', 'brokers lead')} nothing" if idle else ""
    is_narrow = situation.left.partitions or situation.request.scope != Scope()
    limit = "scope and budget of the request" if is_narrow else "the replica sets"
    return f"leaders per broker will be {led.min()} to {led.max()}{idlers}: {limit} allow no better" + (
        "" if is_narrow else _offer_rebalance(situation)
    )


CAUTIONS: Final[tuple[Callable[[Situation], str | None], ...]] = (
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
