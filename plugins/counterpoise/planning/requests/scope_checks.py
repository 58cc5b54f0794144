"""What is wrong with the scope of a request: topics and brokers that it includes or excludes.

check_scope(request, snapshot)     # raises InputError: "--topics 'ordes': no topic of cluster demo
matches; near: ..."
"""

from difflib import get_close_matches

from counterpoise.errors import InputError
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.request import Goal, PlanRequest, matching
from counterpoise.planning.wording import cluster_name, named, not_registered


def check_scope(request: PlanRequest, snapshot: ClusterSnapshot) -> None:
    """Raises InputError for topics and brokers that are not there, or that leave the goal nothing
    to work with.
    """
    _check_topics(request, snapshot)
    _check_brokers(request, snapshot)
    _check_somebody_is_left(request, snapshot)


def topics_in_scope(request: PlanRequest, snapshot: ClusterSnapshot) -> frozenset[str]:
    """The topics that the plan may touch, for all that the request and its policy say."""
    return request.scope.topics_in(_topics(snapshot), request.policy)


def _topics(snapshot: ClusterSnapshot) -> list[str]:
    return sorted(
        set(snapshot.topics["topic"].to_pylist())
        | set(snapshot.partitions["topic"].unique().to_pylist())
    )


def _check_topics(request: PlanRequest, snapshot: ClusterSnapshot) -> None:
    scope = request.scope
    if not scope.topics and not scope.excluded_topics:
        return
    names = _topics(snapshot)
    for option, patterns in (
        ("--topics", scope.topics),
        ("--exclude-topics", scope.excluded_topics),
    ):
        for pattern in patterns:
            if not matching((pattern,), names):
                raise InputError(_no_such_topic(option, pattern, names, snapshot))
    both = sorted(set(scope.topics) & set(scope.excluded_topics))
    if both:
        raise InputError(
            f"topic {both[0]!r} is included and excluded at once; name it in --topics or --exclude-topics"
        )
    if not scope.topics_in(names):
        raise InputError(
            "--exclude-topics leaves none of the topics, so there is nothing to plan; exclude fewer"
        )


def _no_such_topic(option: str, pattern: str, names: list[str], snapshot: ClusterSnapshot) -> str:
    plain = pattern.replace("*", "").replace("?", "")
    near = (
        get_close_matches(plain, names, n=3)
        or [name for name in names if plain.lower() in name.lower()][:3]
    )
    hint = f"near: {', '.join(near)}" if near else f"it has {len(names)} topic(s)"
    return f"{option} {pattern!r}: no topic of {cluster_name(snapshot)} matches; {hint}"


def _check_brokers(request: PlanRequest, snapshot: ClusterSnapshot) -> None:
    scope, asked = request.scope, set(request.broker_ids)
    known = set(snapshot.registered_broker_ids)
    for option, broker_ids in (
        ("--only-brokers", scope.broker_ids),
        ("--exclude-brokers", scope.excluded_broker_ids),
    ):
        unknown = sorted(set(broker_ids) - known)
        if set(unknown) - brokers_of_replicas(snapshot):
            raise InputError(f"{option}: {named(unknown)} {not_registered(snapshot)}")
    both = sorted(set(scope.broker_ids) & set(scope.excluded_broker_ids))
    if both:
        raise InputError(
            f"{named(both)} included and excluded at once; name each in --only-brokers or in --exclude-brokers"
        )
    excluded = sorted(asked & set(scope.excluded_broker_ids))
    if excluded:
        raise InputError(
            f"{named(excluded)} named in --brokers and excluded at once; goal {request.goal} is about these brokers, "
            "so take them out of --exclude-brokers"
        )
    missing = sorted(asked - set(scope.broker_ids)) if scope.broker_ids else []
    if missing:
        raise InputError(
            f"{named(missing)} named in --brokers, but not in --only-brokers; goal {request.goal} is about these "
            "brokers, so add them there"
        )


def brokers_of_replicas(snapshot: ClusterSnapshot) -> frozenset[int]:
    """Brokers that lists of replicas name: some of them may be gone for good, and no longer
    registered.
    """
    return frozenset(snapshot.replicas["broker_id"].unique().to_pylist())


def _check_somebody_is_left(request: PlanRequest, snapshot: ClusterSnapshot) -> None:
    """Only for requests that name a scope: what a cluster itself is too small for is an answer of
    the planner.
    """
    scope, asked = request.scope, set(request.broker_ids)
    if not scope.broker_ids and not scope.excluded_broker_ids:
        return
    able = {b for b in snapshot.live_broker_ids if scope.may_touch_broker(b)}
    others = able - asked
    lacking = {
        Goal.ADD_BROKERS: "no old broker that may give replicas" if not others else "",
        Goal.REMOVE_BROKERS: "no live broker that may take the replicas" if not others else "",
        Goal.REPAIR: "no live broker that may take the replicas" if not others else "",
        Goal.DEMOTE_BROKERS: "no live broker that may lead instead" if not others else "",
        Goal.REPLICATION_FACTOR: "no live broker that may give or take replicas"
        if not able
        else "",
        Goal.REBALANCE: "fewer than two live brokers, which have nobody to even out with"
        if len(able) < 2
        else "",
        Goal.LEADERS: "fewer than two live brokers, which have nobody to even out with"
        if len(able) < 2
        else "",
    }[request.goal]
    if lacking:
        raise InputError(
            f"--only-brokers and --exclude-brokers leave {lacking}; include more brokers"
        )
