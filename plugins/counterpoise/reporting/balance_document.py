"""The leader-balance report as one JSON document, for programs.

leader_balance_json(balance, load=load)
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime
from typing import Any, Final

from counterpoise.model.balance import (
    BalancePoint,
    ClusterEvent,
    HeatMap,
    LeaderBalance,
    LeftOut,
    PlanSize,
    WantedRebalance,
)
from counterpoise.model.evenness import Evenness
from counterpoise.model.load import ClusterLoad
from counterpoise.model.safe_text import for_json

FORMAT: Final = "counterpoise-leader-balance/2"
OVER_TIME: Final = ("series", "breaks_before", "heat_maps")  # keys
_MEASURES: Final = ("leaders", "preferred_leaders", "replicas", "bytes", "bytes_in")
# What the JSON has of the period before.
_OF_PERIOD: Final = (
    "since",
    "observed_at",
    "snapshot_count",
    "bytes_in",
    "replicated_in",
    "leaders",
    "bytes_per_day",
)


def leader_balance_json(
    balance: LeaderBalance,
    *,
    wanted: WantedRebalance | None = None,
    not_proposed: str = "",
    load: ClusterLoad | None = None,
    plan_size: PlanSize | None = None,
    left_out: Sequence[LeftOut] = (),
) -> str:
    """Return one JSON object with sorted keys: sizes in bytes, shares 0 to 1, times in ISO 8601
    UTC; null is not known.
    """
    document = {
        "format": FORMAT,
        "cluster": balance.cluster,
        "period": _period_document(balance),
        "before": None if balance.before is None else _before(balance.before),
        "latest": _point(balance.latest)
        | {"live_broker_ids": list(balance.latest.live_broker_ids)},
        "brokers": [_values(broker) | {"is_idle": broker.is_idle} for broker in balance.brokers],
        "racks": [_values(rack) for rack in balance.racks],
        "topics_that_lean": [_values(topic) for topic in balance.topics],
        "topic_count": balance.topic_count,
        "topics_at": _iso(balance.topics_at),
        "leaning_topic_count": balance.skewed_topic_count,
        "series": [_point(point) for point in balance.series],
        "breaks_before": [balance.series[at].snapshot_id for at in balance.breaks],
        "events": [_event(event) for event in balance.events],
        "churn": _churn(balance),
        "topic_skew": None if balance.topic_skew is None else asdict(balance.topic_skew),
        "flapping": None if balance.flapping is None else asdict(balance.flapping),
        "load": None if load is None else load_document(load),
        "heat_maps": [_heat_map(heat) for heat in balance.heat_maps],
        "wanted": None
        if wanted is None
        else {
            "goal": str(wanted.goal),
            "broker_ids": list(wanted.broker_ids),
            "reason": wanted.reason,
        },
        "not_proposed": not_proposed or None,
        "plan_size": None if plan_size is None else _values(plan_size),
        "left_out": [_values(one) for one in left_out],
    }
    return _one_line_each(document)


def load_document(load: ClusterLoad) -> dict[str, Any]:
    """Return values for JSON: bytes, bytes per second, shares 0 to 1, times in ISO 8601 UTC; null
    is not known.
    """
    document = asdict(replace(load, before=None))
    if load.before:
        before = load_document(load.before)
        document["before"] = {name: before[name] for name in _OF_PERIOD}
    for name in ("observed_at", "since"):
        document[name] = document[name].astimezone(UTC).isoformat()
    for disk, forecast in zip(document["disks"], load.disks, strict=True):
        disk["outlook"] = str(forecast.outlook)
        del disk["held"]
    for rack in document["racks"]:
        del rack["trace"]
    document["unknown"] = [{"how": why, "partitions": number} for why, number in load.unknown]
    return document


def _one_line_each(document: Mapping[str, Any]) -> str:
    """Return JSON with a line for each key, and for each object in a list."""
    lines = []
    for key in sorted(document):
        value = document[key]
        if isinstance(value, list) and value and isinstance(value[0], dict):
            items = ",\n  ".join(_compact(item) for item in value)
            lines.append(f" {_compact(key)}: [\n  {items}\n ]")
        else:
            lines.append(f" {_compact(key)}: {_compact(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _compact(value: Any) -> str:
    return for_json(value)


def _before(before: LeaderBalance) -> dict[str, Any]:
    """Return the figures of the period before."""
    return {
        "period": _period_document(before),
        "latest": _point(before.latest),
        "churn": _churn(before),
        "brokers": [_values(broker) for broker in before.brokers],
    }


def _period_document(balance: LeaderBalance) -> dict[str, Any]:
    return {
        "from": _iso(balance.series[0].observed_at),
        "until": _iso(balance.latest.observed_at),
        "snapshots": len(balance.series),
    }


def _churn(balance: LeaderBalance) -> dict[str, Any]:
    return _values(balance.churn) | {"epochs_unseen": balance.churn.epochs_unseen}


def _point(point: BalancePoint) -> dict[str, Any]:
    return {
        "snapshot_id": point.snapshot_id,
        "observed_at": _iso(point.observed_at),
        "live_brokers": len(point.live_broker_ids),
        "share_not_preferred": point.share_not_preferred,
        **{measure: _evenness(getattr(point, measure)) for measure in _MEASURES},
        "racks": [
            {
                "rack": rack.rack,
                "live_brokers": rack.leaders.broker_count,
                "leaders": _min_and_max(rack.leaders),
            }
            for rack in point.racks
        ],
        "changes": None
        if point.changes is None
        else _values(point.changes) | {"epochs_unseen": point.changes.epochs_unseen},
    }


def _event(event: ClusterEvent) -> dict[str, Any]:
    return _values(event) | {
        "kind": str(event.kind),
        "first_at": _iso(event.first_at),
        "last_at": _iso(event.last_at),
        "broker_ids": list(event.broker_ids),
    }


def _heat_map(heat: HeatMap) -> Mapping[str, Any]:
    return _values(heat) | {"columns": [[_iso(start), _iso(end)] for start, end in heat.columns]}


def _evenness(spread: Evenness | None) -> dict[str, Any] | None:
    if spread is None:
        return None
    return {
        **_min_and_max(spread),
        "broker_count": spread.broker_count,
        "max_minus_min": spread.max_minus_min,
        "best_max_minus_min": spread.best_max_minus_min,
        "max_over_mean": round(spread.max_over_mean, 6),
        "coefficient_of_variation": round(spread.coefficient_of_variation, 6),
    }


def _min_and_max(spread: Evenness) -> dict[str, int]:
    return {"minimum": spread.minimum, "maximum": spread.maximum, "total": spread.total}


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()


def _values(row: Any) -> dict[str, Any]:
    return {field.name: getattr(row, field.name) for field in fields(row)}
