"""Request checks: what is wrong with a request, said before anything is computed.

    check_request(goal, request, snapshot)   # InputError: "broker 9 is not registered ..."
    refuse_impossible_constraints(result)    # InputError: "broker set payments has 2 live ..."

The first needs only the snapshot's lists of brokers and topics. The second names constraints that
no plan could satisfy: the topic or the brokers, and what would help; goals about leaders only are
checked for what concerns leaders. What else only shows in the replicas is refused by the goals.
"""

from collections import Counter
from collections.abc import Sequence, Set
from difflib import get_close_matches
from typing import Final

import numpy as np

from counterpoise.errors import InputError
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.columns import Ints
from counterpoise.model.constraints import matching, names_of_sets
from counterpoise.model.request import (
    FIELDS_OF_GOALS,
    GOALS_WITH_BROKERS,
    KINDS,
    Goal,
    PlanRequest,
    Scope,
)
from counterpoise.model.words import name_brokers, pluralize, verb
from counterpoise.planning.arrays import all_topics
from counterpoise.planning.broker_sets import BrokerSetPart
from counterpoise.planning.planning_result import PlanningGoal, PlanningResult

# What fields of one goal are, and an example.
_FIELDS_IN_WORDS: Final = {
    "replication_factor": ("the number of replicas of a partition", "--replication-factor 3"),
    "new_broker_ids": ("each broker with its new one", "--brokers 3=9,4=10"),
    "below_percent": ("how full disks may be", "--below 80%"),
}
_EMPTYING: Final = (Goal.REMOVE_BROKERS, Goal.REPAIR)  # these say themselves what fits nowhere


def check_request(goal: PlanningGoal, request: PlanRequest, snapshot: ClusterSnapshot) -> None:
    """Raise InputError when the parts of a request do not fit each other or the cluster."""
    check_fits_together(request)
    live = set(snapshot.live_broker_ids)
    _check_registered(request, snapshot)
    if not live:
        name = name_cluster(snapshot)
        raise InputError(f"{name} has no live broker, so nothing can be planned; start one first")
    requested = set(request.broker_ids)
    goal.check_brokers(sorted(requested - live), sorted(requested & live))
    _check_scope_brokers(request, snapshot)
    _check_brokers_left(goal, request, live)
    _check_topics(request.scope, snapshot)


def check_fits_together(request: PlanRequest) -> None:
    """Raise InputError when the parts of a request do not fit each other, whatever the cluster."""
    _check_brokers_given(request)
    _check_numbers(request)
    _check_factor(request)
    _check_pairs(request)


def name_cluster(snapshot: ClusterSnapshot) -> str:
    """Return `cluster demo`, or `this cluster` when the snapshot has no name for it."""
    return f"cluster {snapshot.cluster}" if snapshot.cluster else "this cluster"


def brokers_are(broker_ids: Sequence[int]) -> str:
    """Return `broker 7 is` or `brokers 7, 8 are`."""
    return f"{name_brokers(broker_ids)} {verb(len(broker_ids), 'is', 'are')}"


def _not_registered(snapshot: ClusterSnapshot) -> str:
    """Return `not registered in cluster demo; registered: 1, 2, 3`."""
    registered = ", ".join(map(str, snapshot.registered_broker_ids)) or "none"
    return f"not registered in {name_cluster(snapshot)}; registered: {registered}"


def _brokers_of_replicas(snapshot: ClusterSnapshot) -> frozenset[int]:
    """Return the brokers that replica lists name; some may be gone and no longer registered."""
    return frozenset(snapshot.replicas["broker_id"].unique().to_pylist())


# -- brokers of the goal


def _check_brokers_given(request: PlanRequest) -> None:
    which_brokers = KINDS[request.goal].brokers
    if which_brokers and not request.broker_ids:
        raise InputError(
            f"goal {request.goal} needs the brokers {which_brokers}; name them, like --brokers 7,8"
        )
    if request.goal not in GOALS_WITH_BROKERS | {Goal.REPAIR} and request.broker_ids:
        was = verb(len(request.broker_ids), "was", "were")
        raise InputError(
            f"goal {request.goal} is for the whole cluster and takes no brokers, but "
            f"{name_brokers(request.broker_ids)} {was} given; leave --brokers out, choose one of "
            f"{', '.join(sorted(GOALS_WITH_BROKERS))}, or limit the plan to some brokers with "
            "--only-brokers"
        )
    mentions = Counter(request.broker_ids)
    twice = sorted(broker_id for broker_id, count in mentions.items() if count > 1)
    if twice:
        given = ",".join(str(broker_id) for broker_id in request.broker_ids)
        raise InputError(
            f"--brokers {given}: {brokers_are(twice)} listed twice; list each broker once"
        )


def _check_registered(request: PlanRequest, snapshot: ClusterSnapshot) -> None:
    """Check that brokers are registered.

    Those that only stand in replica lists can only be repaired or replaced.
    """
    unknown = sorted(set(request.broker_ids) - set(snapshot.registered_broker_ids))
    if not unknown:
        return
    in_replica_lists = _brokers_of_replicas(snapshot)
    has_lost = request.goal in (Goal.REPAIR, Goal.REPLACE_BROKERS)
    if has_lost and in_replica_lists >= set(unknown):
        return
    hint = ""
    if still_listed := sorted(in_replica_lists & set(unknown)):
        still_are = brokers_are(still_listed)
        hint = f"; {still_are} still in replica lists: goal repair replaces these replicas"
    raise InputError(f"{brokers_are(unknown)} {_not_registered(snapshot)}{hint}")


# -- topics and brokers of the scope


def _check_topics(scope: Scope, snapshot: ClusterSnapshot) -> None:
    if not scope.names_topics:
        return
    both = sorted(set(scope.topics) & set(scope.excluded_topics))
    if both:
        raise InputError(
            f"topic {both[0]!r} is both included and excluded; name it in --topics or in "
            "--exclude-topics"
        )
    topics = all_topics(snapshot)
    options = ("--topics", scope.topics), ("--exclude-topics", scope.excluded_topics)
    for option, patterns in options:
        for pattern in patterns:
            if not matching((pattern,), topics):
                raise InputError(
                    f"{option} {pattern!r}: no topic of {name_cluster(snapshot)} matches; "
                    + _similar_topics(pattern, topics)
                )
    if not scope.topics_in(topics):
        raise InputError(
            "--exclude-topics leaves none of the topics, so there is nothing to plan; exclude fewer"
        )


def _similar_topics(pattern: str, topics: Sequence[str]) -> str:
    plain = pattern.replace("*", "").replace("?", "")
    similar = get_close_matches(plain, topics, n=3)
    if not similar:
        similar = [topic for topic in topics if plain.lower() in topic.lower()][:3]
    if similar:
        return f"near: {', '.join(similar)}"
    return f"it has {pluralize(len(topics), 'topic')}"


def _check_scope_brokers(request: PlanRequest, snapshot: ClusterSnapshot) -> None:
    scope, requested = request.scope, set(request.broker_ids)
    options = (
        ("--only-brokers", scope.broker_ids),
        ("--exclude-brokers", scope.excluded_broker_ids),
    )
    for option, broker_ids in options:
        unknown = set(broker_ids) - set(snapshot.registered_broker_ids)
        if unknown - _brokers_of_replicas(snapshot):
            raise InputError(
                f"{option}: {brokers_are(sorted(unknown))} {_not_registered(snapshot)}"
            )
    both = sorted(set(scope.broker_ids) & set(scope.excluded_broker_ids))
    if both:
        raise InputError(
            f"{brokers_are(both)} both included and excluded; name each in "
            "--only-brokers or in --exclude-brokers"
        )
    excluded = sorted(requested & set(scope.excluded_broker_ids))
    if excluded:
        raise InputError(
            f"{brokers_are(excluded)} both named in --brokers and excluded; goal "
            f"{request.goal} is about these brokers, so take them out of --exclude-brokers"
        )
    missing = sorted(requested - set(scope.broker_ids)) if scope.broker_ids else []
    if missing:
        raise InputError(
            f"{brokers_are(missing)} named in --brokers, but not in --only-brokers; "
            f"goal {request.goal} is about these brokers, so add them there"
        )


def _check_brokers_left(goal: PlanningGoal, request: PlanRequest, live: Set[int]) -> None:
    """Check that live brokers are left beside those of the request, in its scope.

    Where the request names none, a small cluster is the planner's to tell of.
    """
    scope, named, others_may = request.scope, set(request.broker_ids), goal.others_may
    if others_may and not live - named:
        raise InputError(
            f"goal {goal.name} names every live broker, so none is left to {others_may}; name fewer"
        )
    others, needed = set(filter(scope.may_touch_broker, live - named)), 1 if others_may else 2
    if len(others) < needed and scope.names_brokers:
        lacking = f"no live broker that may {others_may}"
        raise InputError(
            "--only-brokers, --exclude-brokers and brokers that are kept empty leave "
            f"{lacking if others_may else 'fewer than two live brokers'}; include more brokers"
        )


# -- numbers


def _check_numbers(request: PlanRequest) -> None:
    """Check the budget, and options that one goal alone takes."""
    max_bytes = request.budget.max_bytes
    if max_bytes is not None and max_bytes < 1:
        raise InputError(
            f"--max-bytes {max_bytes}: a plan that may copy nothing is no plan; give 1 or more, "
            "or leave it out"
        )
    for field, goal in FIELDS_OF_GOALS.items():
        is_given, is_needed = getattr(request, field) not in (None, ()), request.goal is goal
        what, example = _FIELDS_IN_WORDS[field]
        if is_needed and not is_given:
            raise InputError(f"goal {goal} needs {what}, like {example}")
        if is_given and not is_needed:
            raise InputError(f"{example} is for goal {goal}, not for {request.goal}; leave it out")


def _check_factor(request: PlanRequest) -> None:
    """Check what goal replication-factor needs."""
    factor = request.replication_factor
    if factor is not None and factor < 1:
        raise InputError(f"--replication-factor {factor}: a partition needs 1 replica or more")
    if factor is not None and not request.scope.topics:
        raise InputError(
            "goal replication-factor needs the topics; name them, like --topics 'orders-*', or "
            "--topics '*' for all"
        )


def _check_pairs(request: PlanRequest) -> None:
    """Check which broker replaces which."""
    mentions = Counter(request.new_broker_ids)
    twice = [broker_id for broker_id, count in mentions.items() if count > 1]
    both = sorted(set(request.broker_ids) & set(request.new_broker_ids))
    complaints = [f"broker {one} replaces several; give each one of its own" for one in twice]
    complaints += [f"broker {one} is old and new; plan one step at a time" for one in both]
    refuse_pairs(request, complaints)


def refuse_pairs(request: PlanRequest, complaints: Sequence[str]) -> None:
    """Raise InputError with all that speaks against replacing these brokers, if anything does."""
    if complaints:
        pairs = zip(request.broker_ids, request.new_broker_ids, strict=True)
        given = ",".join(f"{old}={new}" for old, new in pairs)
        raise InputError(f"--brokers {given}: {'; '.join(complaints)}")


# -- constraints that no plan could satisfy


def refuse_impossible_constraints(result: PlanningResult) -> None:
    """Raise InputError when no plan for the goal can satisfy a constraint."""
    _refuse_closed_brokers(result)
    if result.goal.moves_replicas and result.request.goal not in _EMPTYING:
        for part in result.parts:
            _refuse_small_set(result, part)
        _refuse_too_many_replicas(result)


def _refuse_closed_brokers(result: PlanningResult) -> None:
    closed = set(result.request.policy.constraints.no_new_replicas_on)
    named = sorted(closed & set(result.request.broker_ids))
    if named and result.request.goal is Goal.ADD_BROKERS:
        raise InputError(
            f"{name_brokers(named)} cannot be added: no_new_replicas_on says that no new replicas "
            "go there; take the id out of it, or name other brokers"
        )


def _refuse_small_set(result: PlanningResult, part: BrokerSetPart) -> None:
    """Refuse a set with fewer live brokers than a partition of its topics has replicas."""
    if not result.has_sets:
        return
    cluster = part.cluster
    counts = _replicas_wanted(result, part)
    live_count = int((part.brokers & cluster.is_live).sum())
    too_many = np.flatnonzero((counts > live_count) & cluster.may_change)
    if not len(too_many):
        return
    name = names_of_sets(result.request.policy.constraints.broker_sets)[part.number]
    row = int(too_many[0])
    topic, count = cluster.topics[row].as_py(), int(counts[row])
    raise InputError(
        f"broker set {name} has {pluralize(live_count, 'live broker')}, and topic {topic} of it "
        f"{pluralize(count, 'replica')} per partition; add brokers to the set, start those that "
        "are not live, take the topic out of it, or lower the replication factor first"
    )


def _replicas_wanted(result: PlanningResult, part: BrokerSetPart) -> Ints:
    """Return, per partition, how many replicas it has once the goal is reached."""
    counts = part.cluster.replica_counts.copy()
    if result.request.replication_factor is not None:
        counts[part.cluster.may_change] = result.request.replication_factor
    return counts


def _refuse_too_many_replicas(result: PlanningResult) -> None:
    constraints = result.request.policy.constraints
    max_count = constraints.max_replicas_per_broker
    if max_count is None:
        return
    for part in result.parts:
        brokers = part.cluster.is_live & part.brokers
        replica_count, live_count = int(_replicas_wanted(result, part).sum()), int(brokers.sum())
        if (others := result.left_out) is not None:
            replica_count += int(others.load(others.replicas)[brokers].sum())
        if replica_count > max_count * live_count:
            name = names_of_sets(constraints.broker_sets)[part.number]
            where = f" of broker set {name}" if result.has_sets else ""
            needed = -(-replica_count // max(1, live_count))
            raise InputError(
                f"max_replicas_per_broker {max_count}: {pluralize(live_count, 'live broker')}"
                f"{where} cannot hold {pluralize(replica_count, 'replica')} with so few each; "
                f"allow {needed} or more, or add brokers"
            )
