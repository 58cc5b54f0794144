"""Request checks: what is wrong with a request, said before anything is computed.

    check_request(request, snapshot)   # InputError: "broker 9 is not registered in cluster demo"

Only the snapshot's lists of brokers and topics are needed here; what only shows in the replicas is
refused by `refusals`.
"""

from collections.abc import Sequence
from difflib import get_close_matches

from counterpoise.errors import InputError, RefusedError
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.request import (
    GOALS_WITH_BROKERS,
    PLANNED_GOALS,
    Goal,
    PlanRequest,
    matching,
)
from counterpoise.model.words import join_names, name_brokers, pluralize, verb

_WHICH_BROKERS = {
    Goal.ADD_BROKERS: "that were added",
    Goal.REMOVE_BROKERS: "that are to be emptied",
    Goal.DEMOTE_BROKERS: "that are to lead nothing",
}


def check_request(request: PlanRequest, snapshot: ClusterSnapshot) -> None:
    """Raise InputError when the parts of a request do not fit each other or the cluster.

    Raise RefusedError when a broker cannot be removed since a controller runs there.
    """
    if request.goal not in PLANNED_GOALS:
        goals = ", ".join(PLANNED_GOALS)
        raise InputError(f"goal {request.goal} cannot be planned; choose one of {goals}")
    topics = _all_topics(snapshot)
    _check_brokers_given(request)
    _check_registered(request, snapshot)
    if not snapshot.live_broker_ids:
        name = name_cluster(snapshot)
        raise InputError(f"{name} has no live broker, so nothing can be planned; start one first")
    _check_brokers_of_goal(request, snapshot)
    _check_topics(request, topics, snapshot)
    _check_scope_brokers(request, snapshot)
    _check_brokers_left(request, snapshot)
    _check_budget(request)
    _check_replication_factor(request, topics, snapshot)
    _check_voters(request, snapshot)


def name_cluster(snapshot: ClusterSnapshot) -> str:
    """Return `cluster demo`, or `this cluster` when the snapshot has no name for it."""
    return f"cluster {snapshot.cluster}" if snapshot.cluster else "this cluster"


def _are(broker_ids: Sequence[int]) -> str:
    """Return `broker 7 is` or `brokers 7, 8 are`."""
    return f"{name_brokers(broker_ids)} {verb(len(broker_ids), 'is', 'are')}"


def _not_registered(snapshot: ClusterSnapshot) -> str:
    """Return `not registered in cluster demo; registered: 1, 2, 3`."""
    registered = ", ".join(map(str, snapshot.registered_broker_ids)) or "none"
    return f"not registered in {name_cluster(snapshot)}; registered: {registered}"


def _all_topics(snapshot: ClusterSnapshot) -> list[str]:
    described = snapshot.topics["topic"].to_pylist()
    with_partitions = snapshot.partitions["topic"].unique().to_pylist()
    return sorted({*described, *with_partitions})


def _brokers_of_replicas(snapshot: ClusterSnapshot) -> frozenset[int]:
    """Return the brokers that replica lists name; some may be gone and no longer registered."""
    return frozenset(snapshot.replicas["broker_id"].unique().to_pylist())


# -- brokers of the goal


def _check_brokers_given(request: PlanRequest) -> None:
    if request.goal in GOALS_WITH_BROKERS and not request.broker_ids:
        which = _WHICH_BROKERS[request.goal]
        raise InputError(
            f"goal {request.goal} needs the brokers {which}; name them, like --brokers 7,8"
        )
    if request.goal not in GOALS_WITH_BROKERS | {Goal.REPAIR} and request.broker_ids:
        was = verb(len(request.broker_ids), "was", "were")
        raise InputError(
            f"goal {request.goal} is for the whole cluster and takes no brokers, but "
            f"{name_brokers(request.broker_ids)} {was} given; leave --brokers out, choose one of "
            f"{', '.join(sorted(GOALS_WITH_BROKERS))}, or limit the plan to some brokers with "
            "--only-brokers"
        )
    twice = sorted({b for b in request.broker_ids if request.broker_ids.count(b) > 1})
    if twice:
        given = ",".join(str(broker_id) for broker_id in request.broker_ids)
        raise InputError(f"--brokers {given}: {_are(twice)} listed twice; list each broker once")


def _check_registered(request: PlanRequest, snapshot: ClusterSnapshot) -> None:
    """Check that brokers are registered.

    Those that only stand in replica lists can only be repaired.
    """
    unknown = sorted(set(request.broker_ids) - set(snapshot.registered_broker_ids))
    if not unknown:
        return
    in_replica_lists = _brokers_of_replicas(snapshot)
    if request.goal is Goal.REPAIR and in_replica_lists >= set(unknown):
        return
    hint = ""
    if still_listed := sorted(in_replica_lists & set(unknown)):
        hint = f"; {_are(still_listed)} still in replica lists: goal repair replaces these replicas"
    raise InputError(f"{_are(unknown)} {_not_registered(snapshot)}{hint}")


def _check_brokers_of_goal(request: PlanRequest, snapshot: ClusterSnapshot) -> None:
    live, requested = set(snapshot.live_broker_ids), set(request.broker_ids)
    dead, alive = sorted(requested - live), sorted(requested & live)
    names_every_live_broker = live <= requested
    if request.goal is Goal.ADD_BROKERS and dead:
        raise InputError(
            f"{_are(dead)} fenced (not live) and cannot receive replicas; "
            f"start {verb(len(dead), 'it', 'them')}, then try again"
        )
    if request.goal is Goal.ADD_BROKERS and names_every_live_broker:
        raise InputError(
            "goal add-brokers names every live broker, so none is left to give replicas; "
            "name the new ones only, or use goal rebalance"
        )
    if request.goal is Goal.DEMOTE_BROKERS and dead:
        raise InputError(
            f"{_are(dead)} fenced (not live) and {verb(len(dead), 'leads', 'lead')} nothing; name "
            "live brokers only. Goal leaders puts live brokers first where a fenced one is first"
        )
    if request.goal is Goal.DEMOTE_BROKERS and names_every_live_broker:
        raise InputError(
            "goal demote-brokers names every live broker, so none is left to lead; name fewer"
        )
    if request.goal is Goal.REPAIR and alive:
        raise InputError(
            f"{_are(alive)} live, and goal repair is for brokers that are not; to "
            "empty a live broker use goal remove-brokers"
        )


def _check_voters(request: PlanRequest, snapshot: ClusterSnapshot) -> None:
    """Raise RefusedError when a broker to remove votes in the metadata quorum (KIP-595, KIP-853).

    Emptied or not, it could not be stopped: the quorum would lose a voter. Node ids of brokers and
    controllers are one set, so the same id is the same process.
    """
    if request.goal is not Goal.REMOVE_BROKERS:
        return
    quorum = snapshot.tables["quorum"]
    nodes = zip(quorum["node_id"].to_pylist(), quorum["role"].to_pylist(), strict=True)
    all_voters = {node_id for node_id, role in nodes if role in ("leader", "voter")}
    voters = sorted(all_voters & set(request.broker_ids))
    if voters:
        raise RefusedError(
            f"{name_brokers(voters)} cannot be removed yet: a controller runs there, too, and "
            "votes in the metadata quorum. First add a controller elsewhere and take this one out "
            "of the quorum (kafka-metadata-quorum.sh remove-controller, where voters are dynamic; "
            "a new controller.quorum.voters and a rolling restart, where they are static). To "
            "move only the leaders away, use the goal demote-brokers"
        )


# -- topics and brokers of the scope


def _check_topics(request: PlanRequest, topics: list[str], snapshot: ClusterSnapshot) -> None:
    scope = request.scope
    if not scope.topics and not scope.excluded_topics:
        return
    options = (("--topics", scope.topics), ("--exclude-topics", scope.excluded_topics))
    for option, patterns in options:
        for pattern in patterns:
            if not matching((pattern,), topics):
                raise InputError(
                    f"{option} {pattern!r}: no topic of {name_cluster(snapshot)} matches; "
                    + _similar_topics(pattern, topics)
                )
    both = sorted(set(scope.topics) & set(scope.excluded_topics))
    if both:
        raise InputError(
            f"topic {both[0]!r} is both included and excluded; name it in --topics or in "
            "--exclude-topics"
        )
    if not scope.topics_in(topics):
        raise InputError(
            "--exclude-topics leaves none of the topics, so there is nothing to plan; exclude fewer"
        )


def _similar_topics(pattern: str, topics: list[str]) -> str:
    plain = pattern.replace("*", "").replace("?", "")
    similar = get_close_matches(plain, topics, n=3)
    if not similar:
        similar = [topic for topic in topics if plain.lower() in topic.lower()][:3]
    if similar:
        return f"near: {', '.join(similar)}"
    return f"it has {pluralize(len(topics), 'topic')}"


def _check_scope_brokers(request: PlanRequest, snapshot: ClusterSnapshot) -> None:
    scope, requested = request.scope, set(request.broker_ids)
    known = {*snapshot.registered_broker_ids, *_brokers_of_replicas(snapshot)}
    options = (
        ("--only-brokers", scope.broker_ids),
        ("--exclude-brokers", scope.excluded_broker_ids),
    )
    for option, broker_ids in options:
        if set(broker_ids) - known:
            unknown = sorted(set(broker_ids) - set(snapshot.registered_broker_ids))
            raise InputError(f"{option}: {_are(unknown)} {_not_registered(snapshot)}")
    both = sorted(set(scope.broker_ids) & set(scope.excluded_broker_ids))
    if both:
        raise InputError(
            f"{_are(both)} both included and excluded; name each in "
            "--only-brokers or in --exclude-brokers"
        )
    excluded = sorted(requested & set(scope.excluded_broker_ids))
    if excluded:
        raise InputError(
            f"{_are(excluded)} both named in --brokers and excluded; goal "
            f"{request.goal} is about these brokers, so take them out of --exclude-brokers"
        )
    missing = sorted(requested - set(scope.broker_ids)) if scope.broker_ids else []
    if missing:
        raise InputError(
            f"{_are(missing)} named in --brokers, but not in --only-brokers; "
            f"goal {request.goal} is about these brokers, so add them there"
        )


def _check_brokers_left(request: PlanRequest, snapshot: ClusterSnapshot) -> None:
    """Only for requests with a scope: the planner answers where the cluster itself is too small."""
    scope = request.scope
    if not scope.broker_ids and not scope.excluded_broker_ids:
        return
    in_scope = {b for b in snapshot.live_broker_ids if scope.may_touch_broker(b)}
    others = in_scope - set(request.broker_ids)
    lacking = {
        Goal.ADD_BROKERS: "" if others else "no old broker that may give replicas",
        Goal.REMOVE_BROKERS: "" if others else "no live broker that may take the replicas",
        Goal.REPAIR: "" if others else "no live broker that may take the replicas",
        Goal.DEMOTE_BROKERS: "" if others else "no live broker that may lead instead",
        Goal.REPLICATION_FACTOR: "" if in_scope else "no live broker that may get or lose replicas",
        Goal.REBALANCE: "" if len(in_scope) > 1 else "fewer than two live brokers to even out",
        Goal.LEADERS: "" if len(in_scope) > 1 else "fewer than two live brokers to even out",
    }[request.goal]
    if lacking:
        raise InputError(
            f"--only-brokers and --exclude-brokers leave {lacking}; include more brokers"
        )


# -- numbers


def _check_budget(request: PlanRequest) -> None:
    limits = (
        ("--max-bytes", request.budget.max_bytes),
        ("--max-partitions", request.budget.max_partitions),
    )
    for option, limit in limits:
        if limit is not None and limit < 1:
            raise InputError(
                f"{option} {limit}: a plan that may change nothing is no plan; give 1 or more, "
                "or leave it out"
            )


def _check_replication_factor(
    request: PlanRequest, topics: list[str], snapshot: ClusterSnapshot
) -> None:
    factor = request.replication_factor
    if request.goal is not Goal.REPLICATION_FACTOR:
        if factor is not None:
            raise InputError(
                f"--replication-factor {factor} is for goal replication-factor, not for "
                f"{request.goal}; leave it out"
            )
        return
    if factor is None:
        raise InputError(
            "goal replication-factor needs the number of replicas that each partition is to have; "
            "give it, like --replication-factor 3"
        )
    if factor < 1:
        raise InputError(f"--replication-factor {factor}: a partition needs 1 replica or more")
    if not request.scope.topics:
        raise InputError(
            "goal replication-factor needs the topics; name them, like --topics 'orders-*', or "
            "--topics '*' for all"
        )
    live = len(snapshot.live_broker_ids)
    if factor > live:
        raise InputError(
            f"--replication-factor {factor}: {name_cluster(snapshot)} has "
            f"{pluralize(live, 'live broker')}, and each holds at most one replica of a partition; "
            "give fewer, or add brokers first"
        )
    _check_min_insync(request, topics, snapshot, factor)


def _check_min_insync(
    request: PlanRequest, topics: list[str], snapshot: ClusterSnapshot, factor: int
) -> None:
    in_scope = request.scope.topics_in(topics, request.policy)
    columns = snapshot.topics["topic"], snapshot.topics["min_insync_replicas"]
    too_high = [
        f"{topic} ({min_insync})"
        for topic, min_insync in sorted(
            zip(*(column.to_pylist() for column in columns), strict=True), key=lambda row: row[0]
        )
        if topic in in_scope and (min_insync or 0) > factor
    ]
    if too_high:
        raise InputError(
            f"--replication-factor {factor} is below min.insync.replicas of "
            f"{join_names(too_high)}: producers that wait for all acknowledgements would be "
            "refused; lower min.insync.replicas first, or leave these topics out"
        )
