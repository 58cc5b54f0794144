"""The plan page, which a person reads before saying yes: what moves, what it costs, what was checked.

plan_report(plan, violations=(), data_check_failures=(), data_checks_passed=14, rate_bytes_per_second=20_000_000)
"""

from collections.abc import Sequence
from typing import Final

from counterpoise.model.measures import evenness
from counterpoise.model.movement import busiest_link_bytes
from counterpoise.model.plan import BrokerFigure, Move, RebalancePlan
from counterpoise.model.report import BrokerLoad
from counterpoise.model.request import Goal
from counterpoise.reporting.html import count, render
from counterpoise.reporting.parts import MANY_BROKERS, Tile, before_after_pictures
from counterpoise.units import format_bytes, format_rate, format_seconds

MOVES_SHOWN: Final = 25
_GOALS: Final = {
    Goal.ADD_BROKERS: "Give the new brokers their share; the old ones receive nothing",
    Goal.REMOVE_BROKERS: "Empty the named brokers",
    Goal.LEADERS: "Lead evenly; no data moves",
    Goal.REBALANCE: "Even out leaders, replicas and bytes over all brokers",
}


def plan_report(
    plan: RebalancePlan,
    *,
    rate_bytes_per_second: int,
    violations: Sequence[str] = (),
    data_check_failures: Sequence[str] = (),
    data_checks_passed: int | None = None,
    moves_shown: int = MOVES_SHOWN,
) -> str:
    """One self-contained HTML page. `violations` and `data_check_failures` are sentences; empty means that all holds.

    `data_checks_passed` None says that the data checks did not run. The largest moves are listed, the rest counted.
    """
    listed = sorted(plan.moves, key=lambda move: (-move.copied_bytes, move.topic, move.partition))[:moves_shown]
    return render(
        "plan.html",
        plan=plan,
        goal=_GOALS[plan.goal],
        tiles=_tiles(plan, rate_bytes_per_second),
        pictures=before_after_pictures(*_loads(plan.figures)),
        many_brokers=len(plan.figures) > MANY_BROKERS,
        moves=[(move, _what(move)) for move in listed],
        violations=violations,
        data_check_failures=data_check_failures,
        data_checks_passed=data_checks_passed,
        rate=rate_bytes_per_second,
        expected_seconds=busiest_link_bytes(plan) / rate_bytes_per_second,
    )


def _loads(figures: Sequence[BrokerFigure]) -> tuple[list[BrokerLoad], list[BrokerLoad]]:
    before = [BrokerLoad(f.broker_id, f.leaders_before, f.replicas_before, f.bytes_before) for f in figures]
    after = [BrokerLoad(f.broker_id, f.leaders_after, f.replicas_after, f.bytes_after) for f in figures]
    return before, after


def _tiles(plan: RebalancePlan, rate: int) -> tuple[Tile, ...]:
    leaving = plan.broker_ids if plan.goal is Goal.REMOVE_BROKERS else ()
    before = evenness([figure.leaders_before for figure in plan.figures])
    after = evenness([figure.leaders_after for figure in plan.figures if figure.broker_id not in leaving])
    bound = plan.lower_bound
    return (
        Tile(
            "Copied",
            format_bytes(plan.copied_bytes),
            f"at least {format_bytes(bound.bytes)}{_over(plan.copied_bytes, bound.bytes)}",
        ),
        Tile(
            "Replicas copied",
            count(plan.copied_replicas),
            f"at least {count(bound.replicas)}{_over(plan.copied_replicas, bound.replicas)}",
        ),
        Tile("Partitions changed", count(len(plan.moves)), f"{count(plan.leader_changes)} change their leader"),
        Tile(
            "Leaders, max − min",
            f"{count(before.max_minus_min)} → {count(after.max_minus_min)}",
            f"best possible {count(bound.leaders_max_minus_min)}",
        ),
        Tile(
            "Expected time",
            format_seconds(busiest_link_bytes(plan) / rate),
            f"at {format_rate(rate)} per broker",
        ),
    )


def _over(actual: int, bound: int) -> str:
    """` (1.02 x)`: how far above the proven bound; nothing where there is nothing to divide by."""
    return f" ({actual / bound:.2f} ×)" if bound else ""


def _what(move: Move) -> str:
    if move.replicas_before == move.replicas_after:
        return "elect"
    return "copy" if move.adding else "remove" if move.removing else "reorder"
