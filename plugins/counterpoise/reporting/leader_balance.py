"""The leader-balance page of one cluster: pictures first, then what they mean and what would help.

leader_balance_report(balance, wanted=wanted_goal(balance, policy.balance))
"""

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from counterpoise.model.balance import BalancePoint, BrokerBalance, LeaderBalance, WantedRebalance
from counterpoise.reporting.charts import Bar, Line, Unit, broker_bars, over_time
from counterpoise.reporting.html import count, ids, render, times
from counterpoise.reporting.parts import Picture, Tile
from counterpoise.reporting.svg import RACK_COLOURS, rack_colour
from counterpoise.units import format_bytes

_BROKERS_IN_FULL: Final = 12  # more than that, and the table of all brokers starts folded


def leader_balance_report(balance: LeaderBalance, *, wanted: WantedRebalance | None = None) -> str:
    """One self-contained HTML page. `wanted` is what would help; None says that nothing needs doing."""
    racks = rack_indexes(balance.brokers)
    return render(
        "leader_balance.html",
        balance=balance,
        wanted=wanted,
        command=plan_command(balance.cluster, wanted) if wanted else "",
        tiles=tiles(balance),
        leaders=_leaders(balance, racks),
        cards=_cards(balance, racks),
        timelines=_timelines(balance.series),
        racks=[(rack, _css_colour(racks[rack.rack])) for rack in balance.racks],
        broker_rows=[(broker, _css_colour(racks[broker.rack])) for broker in balance.brokers],
        broker_table_open=len(balance.brokers) <= _BROKERS_IN_FULL,
        partition_count=sum(broker.preferred_leaders for broker in balance.brokers),
        has_hatching=any(broker.leaders_not_preferred for broker in balance.brokers),
        colours_repeat=len(racks) > RACK_COLOURS,
    )


def plan_command(cluster: str, wanted: WantedRebalance) -> str:
    """The command line that makes the plan, ready for a shell."""
    words = ["counterpoise", "plan", "--cluster", cluster, "--goal", str(wanted.goal)]
    if wanted.broker_ids:
        words += ["--brokers", ",".join(map(str, wanted.broker_ids))]
    return shlex.join([*words, "--out", "plan.json"])


def rack_indexes(brokers: Sequence[BrokerBalance]) -> Mapping[str | None, int | None]:
    """A number for each rack by name, by which it gets its colour; None for brokers that name none."""
    named = sorted({broker.rack for broker in brokers if broker.rack is not None})
    return {None: None} | {rack: index for index, rack in enumerate(named)}


def tiles(balance: LeaderBalance) -> tuple[Tile, ...]:
    """The figures that a person compares with last week's."""
    latest = balance.latest
    leaders, replicas, size = latest.leaders, latest.replicas, latest.bytes
    idle = balance.idle_broker_ids
    return (
        Tile(
            "Leaders, max − min",
            count(leaders.max_minus_min),
            f"{count(leaders.minimum)} to {count(leaders.maximum)}; best possible {leaders.best_max_minus_min}",
            leaders.max_minus_min > leaders.best_max_minus_min + 1,
        ),
        Tile("Busiest broker leads", times(leaders.max_over_mean), "of its fair share", leaders.max_over_mean > 1.2),
        Tile(
            "Not led as preferred",
            f"{latest.share_not_preferred * 100:.1f} %",
            "of partitions",
            latest.share_not_preferred > 0.1,
        ),
        Tile(
            "Replicas, max − min",
            count(replicas.max_minus_min),
            f"{count(replicas.minimum)} to {count(replicas.maximum)}",
        ),
        Tile("Fullest broker holds", times(size.max_over_mean), f"of its fair share, {format_bytes(size.maximum)}"),
        Tile(
            "Idle brokers",
            count(len(idle)),
            f"broker {ids(idle)}" if idle else "every live broker holds some",
            bool(idle),
        ),
    )


def _leaders(balance: LeaderBalance, racks: Mapping[str | None, int | None]) -> Picture:
    bars = [_bar(broker, broker.leaders, racks, broker.leaders_not_preferred) for broker in balance.brokers]
    fair = _mean(balance.latest.leaders.total, balance.latest)
    label = f"Leaders per broker of {balance.cluster}, against the fair share {count(fair)}"
    return Picture(
        broker_bars(bars, name="leaders-n", label=label, unit=count, fair=fair, named=True),
        broker_bars(bars, name="leaders-w", label=label, unit=count, fair=fair, wide=True),
    )


def _cards(balance: LeaderBalance, racks: Mapping[str | None, int | None]) -> tuple[tuple[str, Picture], ...]:
    latest = balance.latest
    wanted: tuple[tuple[str, str, Unit, int, list[int]], ...] = (
        (
            "preferred",
            "Preferred leaders",
            count,
            latest.preferred_leaders.total,
            [broker.preferred_leaders for broker in balance.brokers],
        ),
        ("replicas", "Replicas", count, latest.replicas.total, [broker.replicas for broker in balance.brokers]),
        ("bytes", "Bytes", format_bytes, latest.bytes.total, [broker.bytes for broker in balance.brokers]),
    )
    return tuple(
        (
            title,
            Picture(
                broker_bars(
                    [_bar(broker, value, racks) for broker, value in zip(balance.brokers, values, strict=True)],
                    name=name,
                    label=f"{title} per broker",
                    unit=unit,
                    fair=_mean(total, latest),
                )
            ),
        )
        for name, title, unit, total, values in wanted
    )


def _bar(broker: BrokerBalance, value: int, racks: Mapping[str | None, int | None], hatched: int = 0) -> Bar:
    return Bar(broker.broker_id, value, racks[broker.rack], hatched, broker.is_idle, broker.is_fenced)


def _mean(total: int, point: BalancePoint) -> float:
    live = len(point.live_broker_ids)
    return round(total / live, 1) if live else 0.0


def _timelines(series: Sequence[BalancePoint]) -> tuple[tuple[str, Picture, tuple[tuple[str, str, str], ...]], ...]:
    """Title, picture and legend of each; none with a single snapshot."""
    if len(series) < 2:
        return ()
    blue, orange, green, magenta = (rack_colour(index) for index in (0, 1, 2, 3))
    spreads = (
        Line("leaders", [point.leaders.max_minus_min for point in series], blue),
        Line("preferred leaders", [point.preferred_leaders.max_minus_min for point in series], orange, "--"),
        Line("replicas", [point.replicas.max_minus_min for point in series], green, ":"),
    )
    shares = (
        Line("leaders", [100 * point.leaders.coefficient_of_variation for point in series], blue),
        Line("replicas", [100 * point.replicas.coefficient_of_variation for point in series], green, ":"),
        Line("bytes", [100 * point.bytes.coefficient_of_variation for point in series], magenta, "-."),
        Line("not led as preferred", [100 * point.share_not_preferred for point in series], orange, "--"),
    )
    return (
        _timeline(series, spreads, "spread", "Max − min over the live brokers", count),
        _timeline(
            series, shares, "variation", "Variation between brokers, and partitions not led as preferred", _hundredths
        ),
    )


def _timeline(
    series: Sequence[BalancePoint], lines: Sequence[Line], name: str, title: str, unit: Unit
) -> tuple[str, Picture, tuple[tuple[str, str, str], ...]]:
    instants = [point.observed_at for point in series]
    pictures = [
        over_time(instants, lines, _marks(series), name=f"{name}-{shape}", label=title, unit=unit, wide=shape == "w")
        for shape in ("n", "w")
    ]
    legend = tuple((line.label, _css(line.colour), line.style) for line in lines)
    return title, Picture(*pictures), legend


def _marks(series: Sequence[BalancePoint]) -> list[tuple[datetime, str]]:
    words: list[tuple[datetime, str]] = []
    for point in series:
        if point.joined_broker_ids:
            words.append((point.observed_at, f"joined: {ids(point.joined_broker_ids)}"))
        if point.left_broker_ids:
            words.append((point.observed_at, f"left: {ids(point.left_broker_ids)}"))
    return words


def _hundredths(value: float) -> str:
    return f"{value:g} %"


def _css_colour(index: int | None) -> str:
    return "no-rack" if index is None else f"rack-{index % RACK_COLOURS}"


def _css(stand_in: str) -> str:
    return f"rack-{stand_in[-1]}"
