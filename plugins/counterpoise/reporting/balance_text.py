"""The leader-balance report as text: Markdown for chats and tickets, JSON for machines, CSV for
spreadsheets.

leader_balance_csv(balance)     # one row per snapshot, a column per measure
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Any, Final

from counterpoise.model.balance import (
    BalancePoint,
    BrokerBalance,
    HeatMap,
    LeaderBalance,
    LeftOut,
    PlanSize,
    WantedRebalance,
)
from counterpoise.model.evenness import Evenness
from counterpoise.model.events import ClusterEvent, SnapshotChanges
from counterpoise.model.load import ClusterLoad
from counterpoise.model.safe_text import for_json, for_markdown
from counterpoise.model.words import pluralize
from counterpoise.reporting.event_words import event_in_words, how_many
from counterpoise.reporting.html import when
from counterpoise.reporting.leader_balance import (
    BROKER_COLUMNS,
    EVENTS_SHOWN,
    FAIR_SHARE,
    TOPIC_COLUMNS,
    broker_rows,
    plan_command,
    plan_size_rows,
    tiles_beside,
    topic_rows,
)
from counterpoise.reporting.load_text import load_document, load_markdown
from counterpoise.reporting.markdown import csv_table, table
from counterpoise.reporting.period_rows import (
    before_words,
    churn_rows,
    event_rows,
    flapping_note,
    flapping_rows,
    flapping_topics,
    skew_note,
    skew_rows,
)
from counterpoise.units import format_count

FORMAT: Final = "counterpoise-leader-balance/2"
_MEASURES: Final = ("leaders", "preferred_leaders", "replicas", "bytes", "bytes_in")
_FIGURES: Final = (
    ("min", "minimum"),
    ("max", "maximum"),
    ("max_minus_min", "max_minus_min"),
    ("max_over_mean", "max_over_mean"),
    ("variation", "coefficient_of_variation"),
)
_CHANGES: Final = tuple(
    field.name for field in fields(SnapshotChanges) if field.name not in ("is_rebuilt", "seconds")
)


def leader_balance_json(
    balance: LeaderBalance,
    *,
    wanted: WantedRebalance | None = None,
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
        "plan_size": None if plan_size is None else _values(plan_size),
        "left_out": [_values(one) for one in left_out],
    }
    return _one_line_each(document)


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


def leader_balance_markdown(
    balance: LeaderBalance,
    *,
    wanted: WantedRebalance | None = None,
    load: ClusterLoad | None = None,
    plan_size: PlanSize | None = None,
    left_out: Sequence[LeftOut] = (),
) -> str:
    """Return the latest snapshot's figures, and what happened, with names escaped."""
    verdict = (
        f"**A rebalance would help:** {for_markdown(wanted.reason)}."
        if wanted
        else "**No rebalance is needed.**"
    )
    parts = [
        f"# Leader balance of {for_markdown(balance.cluster)}",
        _period(balance, left_out),
        *([for_markdown(words)] if (words := before_words(balance)) else []),
        verdict,
        table(
            ("Figure", "Value", "", "Period before"),
            ((tile.title, tile.value, tile.note, tile.before) for tile in tiles_beside(balance)),
        ),
    ]
    if balance.events:
        parts += [
            "## What happened",
            table(("When (UTC)", "What", "How many"), event_rows(balance)[:EVENTS_SHOWN]),
        ]
        older = len(balance.events) - EVENTS_SHOWN
        parts += [f"and {format_count(older)} older ones"] if older > 0 else []
    if rows := churn_rows(balance):
        heads = ("What", "How many", "Period before")
        parts += ["## How often leaders changed", table(heads, rows)]
    parts += _flapping_parts(balance)
    parts += _broker_parts(balance)
    parts += _topic_parts(balance)
    parts += _skew_parts(balance)
    if wanted:
        size = [table(("Cost", ""), plan_size_rows(plan_size))] if plan_size else []
        parts += ["## What would help", *size, f"```\n{plan_command(balance.cluster, wanted)}\n```"]
    if load:
        parts.append(load_markdown(load).rstrip("\n"))
    if left_out:
        reasons = [(one.snapshot_id, one.reason) for one in left_out]
        parts += ["## Left out of the analysis", table(("Snapshot", "Why"), reasons)]
    return "\n\n".join(parts) + "\n"


def leader_balance_csv(balance: LeaderBalance) -> str:
    """Return one row per snapshot, oldest first, with a column for each measure; an empty cell is
    not known.
    """
    heads = ["cluster", "snapshot_id", "observed_at_utc", "live_brokers", "share_not_preferred"]
    heads += [f"{measure}_{name}" for measure in _MEASURES for name, _ in _FIGURES]
    heads += ["breaks_before", *_CHANGES, "epochs_unseen", "events"]
    rows = []
    happened: dict[str, list[str]] = {}
    for event in balance.events:
        happened.setdefault(event.snapshot_id, []).append(
            f"{event_in_words(event)} ({how_many(event)})"
        )
    for at, point in enumerate(balance.series):
        changes = point.changes
        row: list[Any] = [balance.cluster, point.snapshot_id, point.observed_at]
        row += [len(point.live_broker_ids), round(point.share_not_preferred, 6)]
        row += [
            _figure(getattr(point, measure), name) for measure in _MEASURES for _, name in _FIGURES
        ]
        row += ["yes" if at in balance.breaks else ""]
        row += [getattr(changes, name) if changes else "" for name in (*_CHANGES, "epochs_unseen")]
        row += ["; ".join(happened.get(point.snapshot_id, []))]
        rows.append(row)
    return csv_table(heads, rows)


def _figure(spread: Evenness | None, name: str) -> float | str:
    return "" if spread is None else round(getattr(spread, name), 6)


def _period(balance: LeaderBalance, left_out: Sequence[LeftOut]) -> str:
    begin, end = when(balance.series[0].observed_at), when(balance.latest.observed_at)
    rest = f", {format_count(len(left_out))} more left out" if left_out else ""
    return f"{begin} – {end}: {pluralize(len(balance.series), 'snapshot')}{rest}."


def _flapping_parts(balance: LeaderBalance) -> list[str]:
    flapping = balance.flapping
    if flapping is None:
        return []
    parts = ["## Leaders that flap"]
    if flapping.partitions:
        parts += [
            table(
                ("Partition", "Leader elections"),
                ((name, figure.in_line) for name, figure in flapping_rows(balance)),
            ),
            table(("Topic", "Partitions that flap"), flapping_topics(flapping)),
        ]
    return [*parts, flapping_note(balance)]


def _broker_parts(balance: LeaderBalance) -> list[str]:
    rows = [
        (_broker_name(broker), broker.rack or "", *(figure.in_line for figure in figures))
        for broker, figures in broker_rows(balance)
    ]
    heads = ("Broker", "Rack", *(title for title, _, _ in BROKER_COLUMNS), FAIR_SHARE)
    return ["## Brokers", table(heads, rows)]


def _broker_name(broker: BrokerBalance) -> str:
    state = " (idle)" if broker.is_idle else " (dead)" if broker.is_fenced else ""
    return f"{broker.broker_id}{state}"


def _topic_parts(balance: LeaderBalance) -> list[str]:
    if not balance.topics:
        return []
    rows = (
        (topic, *(figure.in_line for figure in figures)) for topic, figures in topic_rows(balance)
    )
    heads = ("Topic", *(title for title, _, _ in TOPIC_COLUMNS))
    return ["## Topics with the largest leader skew", table(heads, rows)]


def _skew_parts(balance: LeaderBalance) -> list[str]:
    if balance.topic_skew is None:
        return []
    rows = [
        (topic, *(figure.in_line for figure in figures)) for topic, *figures in skew_rows(balance)
    ]
    heads = ("Topic", "Mean excess", "Highest", "Of the time")
    shown = [table(heads, rows)] if rows else []
    return [
        "## Topics led most unevenly over the period",
        *shown,
        for_markdown(skew_note(balance.topic_skew)),
    ]


def _before(before: LeaderBalance) -> dict[str, Any]:
    """Return the figures of the period before."""
    return {
        "period": _period_document(before),
        "latest": _point(before.latest),
        "churn": _churn(before),
        "flapping": None if before.flapping is None else asdict(before.flapping),
        "topic_skew": None if before.topic_skew is None else asdict(before.topic_skew),
        "brokers": [_values(broker) for broker in before.brokers],
        "racks": [_values(rack) for rack in before.racks],
        "topics": [_values(topic) for topic in before.topics],
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
            {"rack": rack.rack, "live_brokers": rack.leaders.broker_count}
            | {
                measure: _min_and_max(getattr(rack, measure))
                for measure in ("leaders", "replicas", "bytes")
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
