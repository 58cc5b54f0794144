"""Warnings about traffic, in the form of `warnings`: a sentence, "" where it does not apply."""

from counterpoise.model.policy import LeaderWeight
from counterpoise.model.request import Goal
from counterpoise.model.words import list_brokers
from counterpoise.planning.explanation.planning_result import PlanningResult
from counterpoise.planning.placing.traffic import MIN_KNOWN_PERCENT


def rates_unknown(result: PlanningResult) -> str:
    """Say that leaders cannot be weighed by bytes-in."""
    by_count = result.request.policy.leader_weight is not LeaderWeight.BYTES_IN
    if by_count or result.cluster.is_rate_known.any():
        return ""
    return (
        "leaders are to be weighed by bytes-in, but the snapshot has no rates; "
        "they are even in number instead"
    )


def traffic_unknown(result: PlanningResult) -> str:
    """Say that too few rates are known to even traffic."""
    cluster = result.cluster
    if not result.goal.evens_replicas or not cluster.bytes_in.any() or result.evens_traffic:
        return ""
    unknown_count = int((~cluster.is_rate_known).sum())
    return (
        f"traffic is not evened: the rates of {unknown_count} of {cluster.partition_count} "
        f"partitions are not known, and {MIN_KNOWN_PERCENT} % have to be"
    )


def traffic_at_least(result: PlanningResult) -> str:
    """Say that rates of compacted topics, by which this plan weighs, are lower bounds."""
    by_rates = result.evens_traffic or (
        result.request.policy.leader_weight is LeaderWeight.BYTES_IN
        and result.cluster.is_rate_known.any()
    )
    count = int(result.cluster.is_rate_at_least.sum())
    if not by_rates or not count:
        return ""
    subject = "rate of 1 partition of a compacted topic is a lower bound"
    if count > 1:
        subject = f"rates of {count} partitions of compacted topics are lower bounds"
    return (
        f"the {subject}, since compaction removes records unnoticed: brokers "
        "that lead or follow them may take in more than the plan says"
    )


def traffic_outside_band(result: PlanningResult) -> str:
    """Name the brokers that take in too much or too little."""
    if not result.evens_traffic or not len(result.out_of_traffic_band):
        return ""
    percent = result.request.policy.bytes_in_tolerance_percent
    outside = result.cluster.broker_ids[result.out_of_traffic_band].tolist()
    is_rebalance = result.request.goal is Goal.REBALANCE
    or_rebalance = "" if is_rebalance else "; goal rebalance may do more"
    return (
        f"{list_brokers(outside)} will take in (as leader and as follower) "
        f"more than {percent} % away from the fair share; the rates of the partitions or the moves "
        f"this goal allows leave no better{or_rebalance}"
    )
