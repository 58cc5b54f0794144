"""Pages as the store keeps them: one HTML text each, without scripts and forms.

plan_report(plan, PlanView.of(plan, 5_000_000), violations=(), data_checks_passed=14)
run_report(RunReport(run=run, plan=plan, approval=approval, before=..., after=..., ...))
"""

from collections.abc import Sequence
from typing import Final

from counterpoise.model.evenness import evenness
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.report import RunReport
from counterpoise.model.request import KINDS
from counterpoise.model.run import RunState
from counterpoise.model.run_progress import BrokerLoad
from counterpoise.reporting.html import render
from counterpoise.views.plan import MEASURES, BrokerChart, LargestMoves, PlanView, goal_in_words
from counterpoise.views.run import EVENTS_SHOWN

MOVES_SHOWN: Final = 25


def plan_report(
    plan: RebalancePlan,
    view: PlanView,
    *,
    violations: Sequence[str] = (),
    data_check_failures: Sequence[str] = (),
    data_checks_passed: int | None = None,
    data_checks: str | None = None,
    moves_shown: int = MOVES_SHOWN,
) -> str:
    """Return what a person reads before saying yes: what moves, what it costs, what was checked.

    `violations` and `data_check_failures` are sentences; empty means that all holds.
    `data_checks_passed` None says that the data checks did not run; `data_checks` is where they
    lie, relative to the page. Of moves and brokers the largest are listed, the others counted.
    """
    return render(
        "plan.html",
        view=view,
        largest=LargestMoves.of(plan, moves_shown),
        violations=violations,
        data_check_failures=data_check_failures,
        data_checks_passed=data_checks_passed,
        data_checks=data_checks,
    )


def run_report(report: RunReport, *, events_shown: int = EVENTS_SHOWN) -> str:
    """Return what happened, before and after, and whether the settings are as they were.

    Of more than `events_shown` events the first and the last half are shown.
    """
    unrestored = [key for key in report.throttle_keys if not key.is_restored]
    half = events_shown // 2
    cut = len(report.events) > events_shown
    was, now = _by_broker(report.before), _by_broker(report.after)
    leaving = report.plan.broker_ids if KINDS[report.plan.goal].empties else ()
    return render(
        "run.html",
        report=report,
        goal=goal_in_words(report.plan),
        is_well=report.run.state is RunState.DONE and not report.problems and not unrestored,
        unrestored=unrestored,
        spread_before=_leader_spread(report.before, ()),
        spread_after=_leader_spread(report.after, leaving),
        charts=_charts(report.before, report.after),
        rows=[(i, was.get(i), now.get(i)) for i in sorted(was.keys() | now.keys())],
        first_events=report.events[:half] if cut else report.events,
        last_events=report.events[-half:] if cut else (),
        events_left_out=len(report.events) - 2 * half if cut else 0,
    )


def _charts(before: Sequence[BrokerLoad], after: Sequence[BrokerLoad]) -> list[BrokerChart]:
    """Return leaders, replicas and bytes per broker; none without both observations."""
    if not before or not after:
        return []
    was, now = _by_broker(before), _by_broker(after)
    charts = []
    for measure in MEASURES[:3]:  # bytes in are not known of a run
        rows: list[tuple[int, int, int, int | None]] = [
            (i, _value(was.get(i), measure.field), _value(now.get(i), measure.field), None)
            for i in sorted(was.keys() | now.keys())
        ]
        charts.append(BrokerChart(f"{measure.title} per broker", rows, measure.unit))
    return charts


def _by_broker(loads: Sequence[BrokerLoad]) -> dict[int, BrokerLoad]:
    return {load.broker_id: load for load in loads}


def _leader_spread(loads: Sequence[BrokerLoad], leaving: Sequence[int]) -> int | None:
    counts = [load.leaders for load in loads if load.broker_id not in leaving]
    return evenness(counts).max_minus_min if counts else None


def _value(load: BrokerLoad | None, name: str) -> int:
    """Return 0 for a broker that was not registered then."""
    return int(getattr(load, name)) if load else 0
