"""The leader-balance of one cluster as a page shows it, in the store and behind the login: charts
first, then what they mean and what would help.

leader_balance_report(balance, wanted=analysed.wanted)
render("balance_body.html", **balance_values(balance))
"""

from collections.abc import Sequence
from typing import Any, Final

from counterpoise.model.balance import (
    BrokerBalance,
    LeaderBalance,
    LeftOut,
    PlanSize,
    WantedRebalance,
)
from counterpoise.model.evenness import Evenness
from counterpoise.model.finding import WantedPlan
from counterpoise.model.load import ClusterLoad
from counterpoise.model.words import list_brokers
from counterpoise.reporting.event_words import event_in_words, how_many
from counterpoise.reporting.html import percent, render, times
from counterpoise.reporting.load_section import load_section
from counterpoise.reporting.parts import Tile, beside
from counterpoise.reporting.plots import HEAT_WORDS, BarChart, Unit, bar_chart
from counterpoise.reporting.timelines import heat_sections, timelines, whole
from counterpoise.units import format_bytes, format_count

# Title, name of the field of a broker and of a snapshot, how its value is written.
_MEASURES: Final[tuple[tuple[str, str, Unit], ...]] = (
    ("Leaders", "leaders", whole),
    ("Preferred leaders", "preferred_leaders", whole),
    ("Replicas", "replicas", whole),
    ("Bytes on disk", "bytes", format_bytes),
)
_MARKS: Final = {"dead": ("down", "down"), "idle": ("new", "idle"), "kept empty": ("new", "kept")}
_EVENTS_SHOWN: Final = 40
_LEFT_OUT_SHOWN: Final = 20


def leader_balance_report(
    balance: LeaderBalance,
    *,
    wanted: WantedRebalance | None = None,
    not_proposed: str = "",
    load: ClusterLoad | None = None,
    plan_size: PlanSize | None = None,
    left_out: Sequence[LeftOut] = (),
) -> str:
    """Return one self-contained HTML page.

    `wanted` is what would help (None: nothing needs doing), `not_proposed` why nobody is asked
    about it, `plan_size` what it costs (None: not known). `load` adds the section of traffic,
    growth and disks. `left_out` are snapshots that the analysis could not use.
    """
    return render(
        "leader_balance.html",
        wanted=wanted,
        not_proposed=not_proposed,
        command=_plan_command(balance.cluster, wanted) if wanted else "",
        plan_size=plan_size,
        section=load_section(load, balance.events) if load else None,
        **balance_values(balance, left_out),
    )


def balance_values(balance: LeaderBalance, left_out: Sequence[LeftOut] = ()) -> dict[str, Any]:
    """Return what `balance_body.html` needs."""
    return {
        "balance": balance,
        "tiles": _tiles_beside(balance),
        "charts": [_chart(balance, *measure) for measure in _MEASURES],
        "timelines": timelines(balance),
        "heat_sections": heat_sections(balance),
        "heat_keys": [(f"cell{level}", words) for level, words in enumerate(HEAT_WORDS)],
        "events": balance.events[: -_EVENTS_SHOWN - 1 : -1],
        "event_in_words": event_in_words,
        "how_many": how_many,
        "spreads": {point.rack: point.leaders.max_minus_min for point in balance.latest.racks},
        "partition_count": sum(broker.preferred_leaders for broker in balance.brokers),
        "left_out": left_out[-_LEFT_OUT_SHOWN:],
        "left_out_count": len(left_out),
    }


def _plan_command(cluster: str, wanted: WantedRebalance) -> str:
    """Return the command line that makes the plan, ready for a shell."""
    return WantedPlan(wanted.goal, wanted.broker_ids).command(("--cluster", cluster))


def _tiles_beside(balance: LeaderBalance) -> tuple[Tile, ...]:
    """Return the main figures, and beside them those of the end of the period before."""
    return beside(tiles(balance), tiles(balance.before) if balance.before else ())


def tiles(balance: LeaderBalance) -> tuple[Tile, ...]:
    """Return the main figures."""
    latest = balance.latest
    leaders, replicas, size = latest.leaders, latest.replicas, latest.bytes
    idle = balance.idle_broker_ids
    leader_range = f"{format_count(leaders.minimum)} to {format_count(leaders.maximum)}"
    return (
        Tile(
            "Leaders, max − min",
            format_count(leaders.max_minus_min),
            f"{leader_range}; best possible {leaders.best_max_minus_min}",
            leaders.max_minus_min > leaders.best_max_minus_min + 1,
            number=leaders.max_minus_min,
        ),
        Tile(
            "Busiest broker leads",
            times(leaders.max_over_mean),
            "of its fair share",
            leaders.max_over_mean > 1.2,
            number=leaders.max_over_mean,
        ),
        Tile(
            "Not led by preferred",
            percent(latest.share_not_preferred),
            "of partitions",
            latest.share_not_preferred > 0.1,
            number=latest.share_not_preferred,
        ),
        Tile(
            "Replicas, max − min",
            format_count(replicas.max_minus_min),
            f"{format_count(replicas.minimum)} to {format_count(replicas.maximum)}",
            number=replicas.max_minus_min,
        ),
        Tile(
            "Fullest broker holds",
            times(size.max_over_mean),
            f"of its fair share, {format_bytes(size.maximum)}",
            number=size.max_over_mean,
        ),
        Tile(
            "Idle brokers",
            format_count(len(idle)),
            list_brokers(idle) if idle else _without_idle(balance),
            bool(idle),
            number=len(idle),
        ),
    )


def _without_idle(balance: LeaderBalance) -> str:
    kept_empty = balance.kept_empty_ids
    return (
        f"{list_brokers(kept_empty)} kept empty"
        if kept_empty
        else "every live broker holds replicas"
    )


def _chart(balance: LeaderBalance, title: str, field: str, unit: Unit) -> BarChart:
    """Return a measure of each broker: at the end of the period before, now, and its fair share."""
    spread: Evenness = getattr(balance.latest, field)
    fair = round(spread.total / spread.broker_count, 1) if spread.broker_count else 0.0
    fair_in_words = format_count(fair) if unit is whole else unit(fair)
    before = (
        {broker.broker_id: broker for broker in balance.before.brokers} if balance.before else {}
    )
    brokers = balance.brokers
    return bar_chart(
        title,
        unit,
        [broker.broker_id for broker in brokers],
        was=[_value(before.get(broker.broker_id), field) for broker in brokers] if before else None,
        now=[_value(broker, field) for broker in brokers],
        best=[None if broker.is_fenced else fair for broker in brokers],
        words=("before the period", "now", ""),
        best_word="fair share",
        marks={
            broker.broker_id: mark
            for broker in brokers
            if (mark := _MARKS.get(balance.state_of(broker)))
        },
        racks={broker.broker_id: broker.rack for broker in brokers},
        lead=f"{unit(spread.minimum)} to {unit(spread.maximum)}, fair {fair_in_words}",
    )


def _value(broker: BrokerBalance | None, field: str) -> int | None:
    return None if broker is None else int(getattr(broker, field))
