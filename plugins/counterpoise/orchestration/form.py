"""The form with which a person starts `kafka_rebalance`: a field for each part of a request.

    @dag(params=rebalance_form())

The fields are those of `model/rebalance_request.py`, which checks them again when the run starts.
An empty field leaves the choice to the cluster's policy, or means everything.
"""

from typing import Any, Final

from airflow.sdk import Param

from counterpoise.model.policy import LeaderWeight
from counterpoise.model.request import GOAL_TEXTS, PLANNED_GOALS

_LEADER_WEIGHTS: Final = {
    "": "as the policy says",
    "count": "by their number",
    "bytes-in": "by what producers write",
}


def _broker_ids(title: str, description: str) -> Param:
    items = {"type": "integer", "minimum": 0}
    return Param(
        [], type="array", items=items, title=title, description=f"{description}; like [7, 8]"
    )


def _topics(title: str, description: str) -> Param:
    text = f"{description}: names or patterns like orders-*; one a line"
    return Param([], type="array", items={"type": "string"}, title=title, description=text)


def _integer(title: str, description: str, **bounds: Any) -> Param:
    return Param(None, type=["null", "integer"], title=title, description=description, **bounds)


def _text(title: str, description: str) -> Param:
    return Param(None, type=["null", "string"], title=title, description=description)


def _switches() -> dict[str, Any]:
    return {
        "cordons_brokers": _switch(
            "Cordon the brokers",
            "with goal remove-brokers: their log dirs take no new replicas while the plan runs "
            "(Kafka 4.3, KIP-1066)",
        ),
        "is_thorough": _switch(
            "Search thoroughly",
            "solve clusters of up to 600 replicas instead of 220, for up to 20 s",
        ),
    }


def _switch(title: str, description: str) -> Param:
    return Param(False, type="boolean", title=title, description=description)


def rebalance_form() -> dict[str, Any]:
    """Return the fields, made anew for each Dag: Airflow writes what was filled in into them."""
    return {
        "goal": Param(
            "rebalance",
            type="string",
            enum=[str(goal) for goal in PLANNED_GOALS],
            values_display={str(goal): f"{goal}: {GOAL_TEXTS[goal]}" for goal in PLANNED_GOALS},
            title="Goal",
        ),
        "broker_ids": _broker_ids(
            "Brokers", "to add, to remove or to demote; empty for all other goals"
        ),
        "topics": _topics("Only these topics", "all if empty"),
        "excluded_topics": _topics(
            "Not these topics", "they stay as they are, as do those that the policy excludes"
        ),
        "only_broker_ids": _broker_ids(
            "Only these brokers",
            "send and receive replicas and change what they lead; all if empty",
        ),
        "excluded_broker_ids": _broker_ids("Not these brokers", "they stay as they are"),
        "replication_factor": _integer(
            "Replication factor",
            "for the goal of that name: how many replicas each partition shall have",
            minimum=1,
        ),
        "max_bytes": Param(
            None,
            type=["null", "string"],
            title="At most so many bytes",
            description="copied, with the unit: 500GB. The plan holds the moves that help most; "
            "the others are only counted",
        ),
        "max_partitions": _integer("At most so many partitions", "changed; as above", minimum=1),
        **_evenness(),
        **_constraints(),
        **_switches(),
    }


def _evenness() -> dict[str, Any]:
    return {
        "leader_weight": Param(
            "",
            type="string",
            enum=["", *(str(weight) for weight in LeaderWeight)],
            values_display=_LEADER_WEIGHTS,
            title="Leaders are evened",
        ),
        "bytes_tolerance_percent": _integer(
            "Bytes tolerance in percent",
            "how far from its fair share of bytes a broker may be; empty: as the policy says",
            minimum=1,
            maximum=100,
        ),
    }


def _constraints() -> dict[str, Any]:
    """Return what a plan keeps to beside the constraints of the policy."""
    return {
        "broker_sets": _text(
            "Broker sets",
            "topics that stand on some brokers only, like pay-*=1,2,3;*=4,5,6",
        ),
        "min_topic_leaders": _text(
            "Leaders of a topic per broker",
            "at least so many, like orders-*=1;payments=2",
        ),
        "max_replicas_per_broker": _integer(
            "Replicas per broker", "no broker gets more", minimum=1
        ),
        "max_leader_bytes_in_per_second": _text(
            "Bytes-in of the leaders of a broker", "at most so much, like 50MB/s"
        ),
        "no_new_replicas_on": _broker_ids(
            "No new replicas on", "brokers that get no replica they do not have"
        ),
    }
