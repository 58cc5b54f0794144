"""What is wrong with a request, said before anything is computed.

check_request(request, snapshot)      # raises InputError: "broker 9 is not registered in cluster
demo; ..."
"""

from counterpoise.errors import InputError
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.request import GOALS_WITH_BROKERS, PLANNED_GOALS, Goal, PlanRequest
from counterpoise.model.words import join_names
from counterpoise.planning.requests.scope_checks import (
    brokers_of_replicas,
    check_scope,
    topics_in_scope,
)
from counterpoise.planning.wording import cluster_name, named, not_registered

_WHAT_BROKERS = {
    Goal.ADD_BROKERS: "that were added",
    Goal.REMOVE_BROKERS: "that are to be emptied",
    Goal.DEMOTE_BROKERS: "that are to lead nothing",
}


def check_request(request: PlanRequest, snapshot: ClusterSnapshot) -> None:
    """Raises InputError when the parts of a request do not fit each other or the cluster."""
    if request.goal not in PLANNED_GOALS:
        raise InputError(
            f"goal {request.goal} cannot be planned; choose one of {', '.join(PLANNED_GOALS)}"
        )
    _check_brokers_given(request)
    _check_known(request, snapshot)
    if not snapshot.live_broker_ids:
        raise InputError(
            f"{cluster_name(snapshot)} has no live broker, so nothing can be planned; bring one back first"
        )
    _check_brokers_of_goal(request, snapshot)
    check_scope(request, snapshot)
    _check_budget(request)
    _check_replication_factor(request, snapshot)


def _check_brokers_given(request: PlanRequest) -> None:
    if request.goal in GOALS_WITH_BROKERS and not request.broker_ids:
        what = _WHAT_BROKERS[request.goal]
        raise InputError(
            f"goal {request.goal} needs the brokers {what}; name them, like --brokers 7,8"
        )
    if request.goal not in GOALS_WITH_BROKERS | {Goal.REPAIR} and request.broker_ids:
        raise InputError(
            f"goal {request.goal} is for the whole cluster and takes no brokers, but {named(request.broker_ids)} "
            f"was given; leave --brokers away, choose one of {', '.join(sorted(GOALS_WITH_BROKERS))}, "
            "or limit the plan to some brokers with --only-brokers"
        )
    twice = sorted({b for b in request.broker_ids if request.broker_ids.count(b) > 1})
    if twice:
        given = ",".join(str(b) for b in request.broker_ids)
        raise InputError(
            f"--brokers {given}: {named(twice)} {_is(twice)} listed twice; list each broker once"
        )


def _check_known(request: PlanRequest, snapshot: ClusterSnapshot) -> None:
    """Brokers that are gone for good, and only in lists of replicas still, can be repaired and
    nothing else.
    """
    unknown = sorted(set(request.broker_ids) - set(snapshot.registered_broker_ids))
    if not unknown:
        return
    holding = brokers_of_replicas(snapshot)
    if request.goal is Goal.REPAIR and holding >= set(unknown):
        return
    hint = ""
    if holding & set(unknown):
        hint = f"; {named(sorted(holding & set(unknown)))} still in lists of replicas: goal repair makes these anew"
    raise InputError(f"{named(unknown)} {_is(unknown)} {not_registered(snapshot)}{hint}")


def _check_brokers_of_goal(request: PlanRequest, snapshot: ClusterSnapshot) -> None:
    live, asked = set(snapshot.live_broker_ids), set(request.broker_ids)
    dead = sorted(asked - live)
    if request.goal is Goal.ADD_BROKERS:
        if dead:
            raise InputError(
                f"{named(dead)} {_is(dead)} fenced (not live) and cannot receive replicas; start it, then try again"
            )
        if not live - asked:
            raise InputError(
                "goal add-brokers names every live broker, so none is left to give replicas; "
                "name the new ones only, or use goal rebalance"
            )
    if request.goal is Goal.DEMOTE_BROKERS:
        if dead:
            raise InputError(
                f"{named(dead)} {_is(dead)} fenced (not live) and leads nothing; name live brokers only. "
                "Goal leaders names live brokers first where a fenced one is named first"
            )
        if not live - asked:
            raise InputError(
                "goal demote-brokers names every live broker, so none is left to lead; name fewer"
            )
    alive = sorted(asked & live)
    if request.goal is Goal.REPAIR and alive:
        raise InputError(
            f"{named(alive)} {_is(alive)} live, and goal repair is for brokers that are not; "
            "to empty a live broker use goal remove-brokers"
        )


def _check_budget(request: PlanRequest) -> None:
    limits = (
        ("--max-bytes", request.budget.max_bytes),
        ("--max-partitions", request.budget.max_partitions),
    )
    for option, limit in limits:
        if limit is not None and limit < 1:
            raise InputError(
                f"{option} {limit}: a plan that may do nothing is none; give 1 or more, or leave it away"
            )


def _check_replication_factor(request: PlanRequest, snapshot: ClusterSnapshot) -> None:
    factor = request.replication_factor
    if request.goal is not Goal.REPLICATION_FACTOR:
        if factor is not None:
            raise InputError(
                f"--replication-factor {factor} is for goal replication-factor, not for {request.goal}; leave it away"
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
            "goal replication-factor needs the topics; name them, like --topics 'orders-*', or --topics '*' for all"
        )
    live = len(snapshot.live_broker_ids)
    if factor > live:
        raise InputError(
            f"--replication-factor {factor}: {cluster_name(snapshot)} has {live} live broker(s), and each holds one "
            "replica of a partition at most; give fewer, or add brokers first"
        )
    _check_min_insync(request, snapshot, factor)


def _check_min_insync(request: PlanRequest, snapshot: ClusterSnapshot, factor: int) -> None:
    topics = snapshot.topics
    rows = zip(topics["topic"].to_pylist(), topics["min_insync_replicas"].to_pylist(), strict=True)
    concerned = topics_in_scope(request, snapshot)
    above = sorted(
        (topic, least) for topic, least in rows if topic in concerned and (least or 0) > factor
    )
    if above:
        names = join_names([f"{topic} ({least})" for topic, least in above])
        raise InputError(
            f"--replication-factor {factor} is below min.insync.replicas of {names}: producers that wait for all "
            "acknowledgements would be refused; lower min.insync.replicas first, or leave these topics out"
        )


def _is(broker_ids: list[int]) -> str:
    return "is" if len(broker_ids) == 1 else "are"
