"""The leader-balance page of one cluster: pictures first, then what they mean and what would help.

leader_balance_report(balance, wanted=analysed.wanted)
"""

from collections.abc import Mapping, Sequence
from typing import Final

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
from counterpoise.reporting.charts import Bar, Unit, broker_bars
from counterpoise.reporting.event_words import event_in_words, how_many
from counterpoise.reporting.html import percent, render, times
from counterpoise.reporting.load_section import load_section
from counterpoise.reporting.parts import Picture, Tile, bar_picture, beside, rack_indexes
from counterpoise.reporting.svg import RACK_COLOURS
from counterpoise.reporting.timelines import (
    churn_timeline,
    event_bands,
    heat_sections,
    timelines,
)
from counterpoise.units import format_bytes, format_count

# Title, name of the field, how its value is written.
_CARDS: Final[tuple[tuple[str, str, Unit], ...]] = (
    ("Preferred leaders", "preferred_leaders", format_count),
    ("Replicas", "replicas", format_count),
    ("Bytes", "bytes", format_bytes),
)
_EVENTS_SHOWN: Final = 40
_LEFT_OUT_SHOWN: Final = 20
_BROKERS_IN_FULL: Final = 12  # more than that, and the table of all brokers starts folded


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
    racks = rack_indexes(broker.rack for broker in balance.brokers)
    return render(
        "leader_balance.html",
        balance=balance,
        wanted=wanted,
        not_proposed=not_proposed,
        command=_plan_command(balance.cluster, wanted) if wanted else "",
        plan_size=plan_size,
        tiles=_tiles_beside(balance),
        leaders=_leaders(balance, racks),
        cards=_cards(balance, racks),
        timelines=timelines(balance),
        heat_sections=heat_sections(balance),
        events=balance.events[: -_EVENTS_SHOWN - 1 : -1],
        event_in_words=event_in_words,
        how_many=how_many,
        churn_timeline=churn_timeline(balance),
        section=load_section(load, event_bands(balance.events)) if load else None,
        colours={rack: _css_colour(index) for rack, index in racks.items()},
        spreads={point.rack: point.leaders.max_minus_min for point in balance.latest.racks},
        broker_table_open=len(balance.brokers) <= _BROKERS_IN_FULL,
        partition_count=sum(broker.preferred_leaders for broker in balance.brokers),
        has_hatching=any(broker.leaders_not_preferred for broker in balance.brokers),
        colours_repeat=len(racks) > RACK_COLOURS,
        left_out=left_out[-_LEFT_OUT_SHOWN:],
        left_out_count=len(left_out),
    )


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


def _leaders(balance: LeaderBalance, racks: Mapping[str | None, int | None]) -> Picture:
    bars = [
        _bar(balance, broker, broker.leaders, racks, broker.leaders_not_preferred)
        for broker in balance.brokers
    ]
    fair = _mean(balance.latest.leaders)
    label = f"Leaders per broker of {balance.cluster}, against the fair share {format_count(fair)}"
    return bar_picture(bars, "leaders", label, format_count, fair)


def _cards(
    balance: LeaderBalance, racks: Mapping[str | None, int | None]
) -> list[tuple[str, Picture]]:
    cards = []
    for title, field, unit in _CARDS:
        bars = [_bar(balance, broker, getattr(broker, field), racks) for broker in balance.brokers]
        fair = _mean(getattr(balance.latest, field))
        label = f"{title} per broker"
        drawn = broker_bars(bars, name=field, label=label, unit=unit, fair=fair)
        cards.append((title, Picture(drawn)))
    return cards


def _bar(
    balance: LeaderBalance,
    broker: BrokerBalance,
    value: int,
    racks: Mapping[str | None, int | None],
    hatched: int = 0,
) -> Bar:
    is_idle = broker.broker_id in balance.idle_broker_ids
    return Bar(broker.broker_id, value, racks[broker.rack], hatched, is_idle, broker.is_fenced)


def _mean(spread: Evenness) -> float:
    return round(spread.total / spread.broker_count, 1) if spread.broker_count else 0.0


def _css_colour(index: int | None) -> str:
    return "no-rack" if index is None else f"rack-{index % RACK_COLOURS}"
