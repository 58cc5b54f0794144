"""The run page: what happened, before and after, and whether the cluster's settings are as they
were.

run_report(RunReport(run=run, plan=plan, approval=approval, before=..., after=..., ...))
"""

from collections.abc import Sequence
from typing import Final

from counterpoise.model.evenness import evenness
from counterpoise.model.report import BrokerLoad, RunReport
from counterpoise.model.request import Goal
from counterpoise.model.run import RunState
from counterpoise.reporting.html import render
from counterpoise.reporting.parts import Tile, before_after_pictures, by_broker
from counterpoise.units import format_bytes, format_count, format_seconds

EVENTS_SHOWN: Final = 300


def run_report(report: RunReport, *, events_shown: int = EVENTS_SHOWN) -> str:
    """Return one self-contained HTML page.

    Of more than `events_shown` events the first and the last half are shown.
    """
    unrestored = [key for key in report.throttle_keys if not key.is_restored]
    half = events_shown // 2
    cut = len(report.events) > events_shown
    return render(
        "run.html",
        report=report,
        is_well=report.run.state is RunState.DONE and not report.problems and not unrestored,
        unrestored=unrestored,
        tiles=_tiles(report),
        pictures=before_after_pictures(report.before, report.after),
        rows=_rows(report),
        first_events=report.events[:half] if cut else report.events,
        last_events=report.events[-half:] if cut else (),
        events_left_out=len(report.events) - 2 * half if cut else 0,
    )


def _leader_spread(loads: Sequence[BrokerLoad], leaving: Sequence[int]) -> int | None:
    counts = [load.leaders for load in loads if load.broker_id not in leaving]
    return evenness(counts).max_minus_min if counts else None


def _tiles(report: RunReport) -> tuple[Tile, ...]:
    bound = report.plan.lower_bound
    planned = format_bytes(report.plan.copied_bytes)
    restored = sum(key.is_restored for key in report.throttle_keys)
    keys = len(report.throttle_keys)
    leaving = report.plan.broker_ids if report.plan.goal is Goal.REMOVE_BROKERS else ()
    before = _leader_spread(report.before, ())
    after = _leader_spread(report.after, leaving)
    return (
        Tile(
            "Moves done",
            f"{format_count(report.moves_done)} of {format_count(len(report.plan.moves))}",
            "partitions of the plan",
        ),
        Tile(
            "Bytes moved",
            format_bytes(report.copied_bytes),
            f"planned {planned}, lower bound {format_bytes(bound.bytes)}",
        ),
        Tile("Leaders, max − min", f"{_known(before)} → {_known(after)}", "before and after"),
        Tile(
            "Settings as before",
            f"{restored} of {keys}" if keys else "none touched",
            "throttle keys, read back from the cluster",
            restored < keys,
        ),
        Tile("Took", _duration(report), "from opening to closing"),
    )


def _known(number: int | None) -> str:
    return "?" if number is None else format_count(number)


def _duration(report: RunReport) -> str:
    if report.run.closed_at is None:
        return "still open"
    seconds = (report.run.closed_at - report.run.opened_at).total_seconds()
    return format_seconds(max(0, seconds))  # two clocks may have told these times


def _rows(report: RunReport) -> list[tuple[int, BrokerLoad | None, BrokerLoad | None]]:
    was, now = by_broker(report.before), by_broker(report.after)
    return [(i, was.get(i), now.get(i)) for i in sorted(was.keys() | now.keys())]
