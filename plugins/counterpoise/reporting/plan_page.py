"""The plan page, which a person reads before saying yes: what moves, what it costs, what was
checked.

plan_report(plan, violations=(), data_check_failures=(), data_checks_passed=14,
rate_bytes_per_second=20_000_000)
"""

from collections.abc import Sequence
from typing import Final

from counterpoise.model.overview import (
    MEASURES,
    MOVE_REASON_TEXTS,
    Overview,
    Unit,
    brokers_to_show,
    coordinators_in_words,
    deferred_in_words,
    knows,
    largest_moves,
    others_in_words,
    peak_share,
    peak_used_bytes,
    rate_warning,
    request_in_words,
    span_in_words,
    values_of,
)
from counterpoise.model.plan import BrokerFigure, Move, RebalancePlan
from counterpoise.model.request import Goal
from counterpoise.reporting.charts import Pair
from counterpoise.reporting.html import count, render
from counterpoise.reporting.parts import MANY_BROKERS, Comparison, Tile, comparison
from counterpoise.units import format_bytes, format_rate, format_seconds

MOVES_SHOWN: Final = 25
UNITS: Final[dict[str, Unit]] = {
    "leaders": count,
    "replicas": count,
    "bytes": format_bytes,
    "bytes_in": format_rate,
}
NAMES: Final = {
    "leaders": "Leaders",
    "replicas": "Replicas",
    "bytes": "Bytes",
    "bytes_in": "Bytes in",
}
_GOALS: Final = {
    Goal.ADD_BROKERS: "Give the new brokers their share; the old ones receive nothing",
    Goal.REMOVE_BROKERS: "Empty the named brokers",
    Goal.DEMOTE_BROKERS: (
        "Take leadership from the named brokers; they keep their replicas, and no data moves"
    ),
    Goal.LEADERS: "Lead evenly; no data moves",
    Goal.REBALANCE: "Even out racks, leaders, replicas and bytes over all brokers",
    Goal.REPLICATION_FACTOR: "Give each partition the wanted number of replicas",
    Goal.REPAIR: "Copy the replicas of dead brokers anew to living ones",
    Goal.IMPORTED: "Do what a reassignment JSON asks for",
}


def plan_report(
    plan: RebalancePlan,
    *,
    rate_bytes_per_second: int,
    at_once: int | None = None,
    violations: Sequence[str] = (),
    data_check_failures: Sequence[str] = (),
    data_checks_passed: int | None = None,
    data_checks: str | None = None,
    moves_shown: int = MOVES_SHOWN,
) -> str:
    """Return one self-contained HTML page.

    `violations` and `data_check_failures` are sentences; empty means that all holds.
    `data_checks_passed` None says that the data checks did not run; `data_checks` is where they
    lie, relative to the page. Of moves and brokers the largest are listed, the others counted.
    """
    seen = Overview.of(plan)
    moves, other_moves = largest_moves(plan, moves_shown)
    brokers, other_brokers = brokers_to_show(plan.figures)
    slow = rate_warning(plan, rate_bytes_per_second, at_once)
    return render(
        "plan.html",
        plan=plan,
        seen=seen,
        goal=_GOALS[plan.goal],
        asked=request_in_words(plan),
        tiles=_tiles(plan, seen, rate_bytes_per_second, is_slow=slow is not None),
        pictures=_pictures(plan.figures),
        many_brokers=len(plan.figures) > MANY_BROKERS,
        warnings=[text for text in (slow, deferred_in_words(plan), *plan.warnings) if text],
        coordinators=coordinators_in_words(seen),
        evenness=evenness_rows(seen),
        measures=[NAMES[name] for name in MEASURES if knows(plan.figures, name)],
        brokers=[_broker_row(figure, plan.figures) for figure in brokers],
        broker_count=len(plan.figures),
        other_brokers=len(other_brokers),
        other_spans=[
            f"{NAMES[name].lower()} {text}" for name, text in others_in_words(other_brokers, UNITS)
        ],
        moves=[(move, what_it_does(move), MOVE_REASON_TEXTS[move.why]) for move in moves],
        other_moves=[(MOVE_REASON_TEXTS[reason.why], reason) for reason in other_moves],
        violations=violations,
        data_check_failures=data_check_failures,
        data_checks_passed=data_checks_passed,
        data_checks=data_checks,
        rate=rate_bytes_per_second,
        expected_seconds=seen.busiest_link_bytes / rate_bytes_per_second,
    )


def evenness_rows(seen: Overview) -> list[tuple[str, str, str, str]]:
    """Measure, and over the brokers before, after and best possible: `12 to 14`."""
    rows = []
    for name, spans in seen.measures.items():
        before, after, best = (
            span_in_words(span, UNITS[name]) for span in (spans.before, spans.after, spans.best)
        )
        rows.append((NAMES[name], before, after, best))
    return rows


def broker_cell(figure: BrokerFigure, name: str) -> str:
    """Return `12 → 14 (14)`: before, after, best possible."""
    before, after, best = (UNITS[name](value) for value in values_of(figure, name))
    return f"{before} → {after} ({best})"


def fullest(figure: BrokerFigure) -> str:
    """Return what is on its disks at most, while new copies arrive: `1.2 TB, 61 %`."""
    share = peak_share(figure)
    return format_bytes(peak_used_bytes(figure)) + (
        f", {share * 100:.0f} %" if share is not None else ""
    )


def what_it_does(move: Move) -> str:
    if move.replicas_before == move.replicas_after:
        return "elect"
    return "copy" if move.adding else "remove" if move.removing else "reorder"


def over_in_words(ratio: float | None) -> str:
    """Return how far above the proven bound, like ` (1.02 ×)`; empty where there is no bound."""
    return f" ({ratio:.3f} ×)" if ratio is not None else ""


def _broker_row(
    figure: BrokerFigure, figures: Sequence[BrokerFigure]
) -> tuple[BrokerFigure, list[str], str]:
    return (
        figure,
        [broker_cell(figure, name) for name in MEASURES if knows(figures, name)],
        fullest(figure),
    )


def _pictures(figures: Sequence[BrokerFigure]) -> tuple[Comparison, ...]:
    found = [
        comparison(
            [Pair(figure.broker_id, *values_of(figure, name)) for figure in figures],
            name=name,
            title=f"{NAMES[name]} per broker",
            unit=UNITS[name],
        )
        for name in MEASURES
        if knows(figures, name)
    ]
    if figures and all(peak_share(figure) is not None for figure in figures):
        found.append(_disks(figures))
    return tuple(found)


def _disks(figures: Sequence[BrokerFigure]) -> Comparison:
    """Return the percent used of each broker's disks, before and at their fullest."""
    pairs = []
    for figure in figures:
        total = figure.disk_total_bytes or 1
        arriving = figure.bytes_peak - figure.bytes_before
        peak = peak_used_bytes(figure)
        pairs.append(
            Pair(
                figure.broker_id, round(100 * (peak - arriving) / total), round(100 * peak / total)
            )
        )
    title = "Disks, in percent of their size"
    return comparison(
        pairs,
        name="disks",
        title=title,
        unit=lambda value: f"{value:.0f} %",
        after="at their fullest",
    )


def _tiles(plan: RebalancePlan, seen: Overview, rate: int, *, is_slow: bool) -> tuple[Tile, ...]:
    bound = plan.lower_bound
    tiles = [
        Tile(
            "Copied",
            format_bytes(seen.copied_bytes),
            f"at least {format_bytes(bound.bytes)}{over_in_words(seen.over_bytes)}",
        ),
        Tile(
            "Replicas copied",
            count(seen.copied_replicas),
            f"at least {count(bound.replicas)}{over_in_words(seen.over_replicas)}",
        ),
        Tile(
            "Partitions changed",
            count(len(plan.moves)),
            f"{count(seen.leader_changes)} change their leader",
        ),
    ]
    if leaders := seen.measures.get("leaders"):
        change = f"{count(leaders.before.max_minus_min)} → {count(leaders.after.max_minus_min)}"
        best = f"best possible {count(bound.leaders_max_minus_min)}"
        tiles.append(Tile("Leaders, max − min", change, best))
    time = format_seconds(seen.busiest_link_bytes / rate)
    tiles.append(Tile("Expected time", time, f"at {format_rate(rate)} per broker", is_slow))
    if seen.copied_bytes:
        cross_rack = format_bytes(seen.cross_rack_bytes)
        tiles.append(Tile("Between racks", cross_rack, "traffic between zones costs money"))
    shares = [
        (share, figure.broker_id)
        for figure in plan.figures
        if (share := peak_share(figure)) is not None
    ]
    if shares:
        share, broker_id = max(shares)
        tiles.append(
            Tile(
                "Fullest disks",
                f"{share * 100:.0f} %",
                f"of broker {broker_id}, while copies arrive",
            )
        )
    return tuple(tiles)
