"""The plan page, which a person reads before saying yes: what moves, what it costs, what was
checked.

plan_report(PlanView(plan, rate_bytes_per_second), violations=(), data_checks_passed=14)
"""

from collections.abc import Sequence
from typing import Final

from counterpoise.model.plan import BrokerFigure, Move
from counterpoise.model.plan_view import (
    MOVE_REASON_TEXTS,
    PlanView,
    largest_moves,
    why_in_words,
)
from counterpoise.model.request import GOAL_TEXTS
from counterpoise.reporting.charts import Pair
from counterpoise.reporting.html import render
from counterpoise.reporting.parts import Comparison, Tile, comparison
from counterpoise.units import format_bytes, format_count

MOVES_SHOWN: Final = 25


def plan_report(
    view: PlanView,
    *,
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
    moves, other_moves = largest_moves(view.plan, moves_shown)
    return render(
        "plan.html",
        view=view,
        plan=view.plan,
        tiles=plan_tiles(view),
        pictures=plan_pictures(view),
        moves=moves,
        other_moves=other_moves,
        what_it_does=what_it_does,
        goal=GOAL_TEXTS[view.plan.goal],
        reason_texts=MOVE_REASON_TEXTS,
        why_in_words=why_in_words,
        violations=violations,
        data_check_failures=data_check_failures,
        data_checks_passed=data_checks_passed,
        data_checks=data_checks,
    )


def plan_tiles(view: PlanView) -> list[Tile]:
    """Return what a person looks at first: cost, changes, time, disks."""
    plan = view.plan
    bytes_cost, replicas_cost, *_ = view.costs
    changes = f"{format_count(plan.leader_changes)} change their leader"
    tiles = [
        Tile(bytes_cost.name, bytes_cost.planned, bytes_cost.bound_in_words),
        Tile(replicas_cost.name, replicas_cost.planned, replicas_cost.bound_in_words),
        Tile("Partitions changed", format_count(len(plan.moves)), changes),
    ]
    if leaders := view.spans.get("leaders"):
        before, after = (format_count(s.max_minus_min) for s in (leaders.before, leaders.after))
        best = f"best possible {format_count(plan.lower_bound.leaders_max_minus_min)}"
        tiles.append(Tile("Leaders, max − min", f"{before} → {after}", best))
    is_known = view.rate_bytes_per_second is not None
    time_note = f"at {view.rate} per broker" if is_known else f"at {view.rate}"
    tiles.append(Tile("Expected time", view.expected_time, time_note, bool(view.rate_warning)))
    if view.copied_bytes:
        cross_rack = format_bytes(view.cross_rack_bytes)
        tiles.append(Tile("Bytes between racks", cross_rack, "traffic between zones costs money"))
    shares = [(f.peak_share, f.broker_id) for f in plan.figures if f.peak_share is not None]
    if shares:
        share, broker_id = max(shares)
        note = f"of broker {broker_id}, while copies arrive"
        tiles.append(Tile("Fullest disks", f"{share * 100:.0f} %", note))
    return tiles


def what_it_does(move: Move) -> str:
    """Return `elect`, `copy`, `remove` or `reorder`."""
    if move.replicas_before == move.replicas_after:
        return "elect"
    return "copy" if move.adding else "remove" if move.removing else "reorder"


def plan_pictures(view: PlanView) -> list[Comparison]:
    """Return brokers before, after and at best, a picture for each measure."""
    figures = view.plan.figures
    found = [
        comparison(
            [Pair(figure.broker_id, *measure.values(figure)) for figure in figures],
            title=f"{measure.title} per broker",
            unit=measure.unit,
        )
        for measure in view.measures
    ]
    if figures and all(figure.disk_total_bytes for figure in figures):
        found.append(_disks(figures))
    return found


def _disks(figures: Sequence[BrokerFigure]) -> Comparison:
    """Return the percent used of each broker's disks, before and at their fullest."""
    pairs = []
    for figure in figures:
        total = figure.disk_total_bytes or 1
        arriving = figure.bytes_peak - figure.bytes_before
        peak = figure.peak_used_bytes
        used_percent, peak_percent = (round(100 * b / total) for b in (peak - arriving, peak))
        pairs.append(Pair(figure.broker_id, used_percent, peak_percent))
    return comparison(
        pairs,
        title="Disks, in percent of their size",
        unit=lambda value: f"{value:.0f} %",
        after="at their fullest",
    )
