"""What is wrong with a request, said before anything is computed.

check_request(request, snapshot)      # raises InputError: "broker 9 is not registered in cluster demo; ..."
"""

from collections.abc import Sequence
from typing import Final

from counterpoise.errors import InputError
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.request import GOALS_WITH_BROKERS, Goal, PlanRequest

PLANNED_GOALS: Final = (Goal.ADD_BROKERS, Goal.REMOVE_BROKERS, Goal.LEADERS, Goal.REBALANCE)


def check_request(request: PlanRequest, snapshot: ClusterSnapshot) -> None:
    """Raises InputError when the goal and its brokers do not fit each other or the cluster."""
    if request.goal not in PLANNED_GOALS:
        raise InputError(f"goal {request.goal} cannot be planned; choose one of {', '.join(PLANNED_GOALS)}")
    _check_brokers_given(request)
    _check_registered(request, snapshot)
    if request.goal is Goal.ADD_BROKERS:
        _check_additions(request, snapshot)
    if not snapshot.live_broker_ids:
        raise InputError(
            f"{cluster_name(snapshot)} has no live broker, so nothing can be planned; bring one back first"
        )


def named(broker_ids: Sequence[int]) -> str:
    """`broker 7` or `brokers 7, 8`."""
    return f"broker{'s' if len(broker_ids) != 1 else ''} {', '.join(str(b) for b in broker_ids)}"


def _check_brokers_given(request: PlanRequest) -> None:
    if request.goal in GOALS_WITH_BROKERS and not request.broker_ids:
        what = "that were added" if request.goal is Goal.ADD_BROKERS else "that are to be emptied"
        raise InputError(f"goal {request.goal} needs the brokers {what}; name them, like --brokers 7,8")
    if request.goal not in GOALS_WITH_BROKERS and request.broker_ids:
        raise InputError(
            f"goal {request.goal} is for the whole cluster and takes no brokers, but {named(request.broker_ids)} "
            f"was given; leave --brokers away, or choose one of {', '.join(sorted(GOALS_WITH_BROKERS))}"
        )
    twice = sorted({b for b in request.broker_ids if request.broker_ids.count(b) > 1})
    if twice:
        given = ",".join(str(b) for b in request.broker_ids)
        verb = "is" if len(twice) == 1 else "are"
        raise InputError(f"--brokers {given}: {named(twice)} {verb} listed twice; list each broker once")


def _check_registered(request: PlanRequest, snapshot: ClusterSnapshot) -> None:
    unknown = sorted(set(request.broker_ids) - set(snapshot.registered_broker_ids))
    if unknown:
        verb = "is" if len(unknown) == 1 else "are"
        registered = ", ".join(str(b) for b in snapshot.registered_broker_ids)
        raise InputError(
            f"{named(unknown)} {verb} not registered in {cluster_name(snapshot)}; registered: {registered or 'none'}"
        )


def _check_additions(request: PlanRequest, snapshot: ClusterSnapshot) -> None:
    fenced = sorted(set(request.broker_ids) - set(snapshot.live_broker_ids))
    if fenced:
        verb = "is" if len(fenced) == 1 else "are"
        raise InputError(
            f"{named(fenced)} {verb} fenced (not live) and cannot receive replicas; start it, then try again"
        )
    if not set(snapshot.live_broker_ids) - set(request.broker_ids):
        raise InputError(
            "goal add-brokers names every live broker, so none is left to give replicas; "
            "name the new ones only, or use goal rebalance"
        )


def cluster_name(snapshot: ClusterSnapshot) -> str:
    """`cluster demo`, or `this cluster` when the snapshot has no name for it."""
    return f"cluster {snapshot.cluster}" if snapshot.cluster else "this cluster"
