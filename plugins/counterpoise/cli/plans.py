"""A plan on the terminal, pictures first, and the same figures as values for --json.

    print_plan(console, plan, Pace(asked=20_000_000))

Of long lists the first entries are shown, and the others counted. Text from the cluster is shown as
text only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from counterpoise import queries
from counterpoise.cli.common import printable
from counterpoise.cli.tables import table
from counterpoise.model.movement import busiest_inflow, max_moves_at_once
from counterpoise.model.overview import (
    MEASURES,
    MOVE_REASON_TEXTS,
    Overview,
    Reason,
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
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.run import RunState
from counterpoise.model.words import join_ids
from counterpoise.queries import RunStatus
from counterpoise.units import format_bytes, format_rate, format_seconds

_UNITS: Final[Mapping[str, Unit]] = {
    "leaders": "{:,}".format,
    "replicas": "{:,}".format,
    "bytes": format_bytes,
    "bytes_in": format_rate,
}
_MAX_MOVES_SHOWN: Final = 15
_GAP: Final = 2
_MAX_PICTURE_WIDTH: Final = 100


@dataclass(frozen=True, slots=True)
class Pace:
    """The rates a plan is shown with, in bytes per second, and how much is copied at once."""

    asked: int | None = None
    suggested: int | None = None  # by the policy's link capacity
    at_once: int = max_moves_at_once(MovementPolicy())  # partitions that one broker copies together


_NO_PACE: Final = Pace()


def plan_summary(plan: RebalancePlan, pace: Pace = _NO_PACE) -> dict[str, Any]:
    """Return every figure that people see for --json; bytes, bytes per second, seconds."""
    overview = Overview.of(plan)
    inflow = busiest_inflow(plan, pace.at_once)
    summary: dict[str, Any] = {
        "fingerprint": plan.fingerprint,
        "cluster": plan.cluster,
        "cluster_id": plan.cluster_id,
        "snapshot_id": plan.snapshot_id,
        "goal": str(plan.goal),
        "brokers": list(plan.broker_ids),
        "scope": asdict(plan.scope),
        "budget": asdict(plan.budget),
        "replication_factor": plan.replication_factor,
        "reason": plan.reason,
        "moves": len(plan.moves),
        "moves_by_why": {str(r.why): _counts(r) for r in overview.reasons},
        "left": asdict(plan.deferred),
        "copied_replicas": overview.copied_replicas,
        "copied_bytes": overview.copied_bytes,
        "lower_bound": asdict(plan.lower_bound),
        "over_lower_bound": {"replicas": overview.over_replicas, "bytes": overview.over_bytes},
        "leader_changes": overview.leader_changes,
        "bytes_over_busiest_link": overview.busiest_link_bytes,
        "bytes_across_racks": overview.cross_rack_bytes,
        "coordinators": [asdict(found) for found in overview.coordinators],
        "busiest_inflow": None if inflow is None else asdict(inflow),
        "suggested_rate_bytes_per_second": pace.suggested,
        "per_broker": {name: asdict(spans) for name, spans in overview.measures.items()},
        "warnings": list(plan.warnings),
        "brokers_before_and_after": [asdict(figure) for figure in plan.figures],
    }
    if pace.asked is not None:
        summary |= {
            "rate_bytes_per_second": pace.asked,
            "expected_seconds": overview.busiest_link_bytes / pace.asked,
            "rate_warning": rate_warning(plan, pace.asked, pace.at_once),
        }
    return summary


def print_plan(
    console: Console, plan: RebalancePlan, pace: Pace = _NO_PACE, *, written_to: Path | None = None
) -> None:
    """Print what a plan does: brokers, cost, time, the largest moves, warnings, fingerprint."""
    overview = Overview.of(plan)
    goal = f"{plan.goal} {join_ids(plan.broker_ids)}".rstrip()
    console.print(
        f"plan for {printable(plan.cluster) or 'the cluster'}: {goal}", markup=False, style="bold"
    )
    if asked := request_in_words(plan):
        console.print("; ".join(asked), markup=False)
    if plan.is_empty:
        console.print(f"nothing needs to move: {printable(plan.reason)}", markup=False)
    _print_brokers(console, plan, overview)
    if not plan.is_empty:
        console.print()
        _print_cost(console, plan, overview)
        _print_time(console, plan, overview, pace)
        console.print()
        _print_moves(console, plan)
    if left := deferred_in_words(plan):
        console.print(left, markup=False)
    print_warnings(console, plan.warnings)
    console.print(plan.fingerprint, markup=False)
    if written_to:
        console.print(f"written to {written_to}", markup=False)


def print_warnings(console: Console, warnings: Sequence[str]) -> None:
    for warning in warnings:
        console.print(Text(f"warning: {printable(warning)}", style="yellow"))


def print_outcome(console: Console, plan: RebalancePlan, status: RunStatus, report: str) -> None:
    """Print how a run of the plan ended."""
    run = status.run
    reason = f": {run.reason}" if run.reason else ""
    console.print(f"run {run.run_id} is {run.state}{reason}", markup=False, style="bold")
    if run.state is RunState.DONE:
        overview = Overview.of(plan)
        _print_brokers(console, plan, overview)
        console.print()
        _print_cost(console, plan, overview)
    else:
        console.print(
            f"{status.moves_done} of {len(plan.moves)} partitions are as planned; the report lists "
            "the others"
        )
    restored = sum(key.restored_at is not None for key in status.touched)
    console.print(
        f"config keys changed: {len(status.touched)}; restored: {restored}; waiting for a broker "
        f"that does not respond: {len(status.pending_restores)}"
    )
    console.print(f"report: {report}", markup=False)


def _counts(reason: Reason) -> dict[str, int]:
    return {"partitions": reason.partitions, "replicas": reason.replicas, "bytes": reason.bytes}


def _print_brokers(console: Console, plan: RebalancePlan, overview: Overview) -> None:
    """Print a picture, then each broker, then how even all of them are."""
    if not plan.figures:
        return
    picture = queries.plan_picture(plan, width=min(console.width, _MAX_PICTURE_WIDTH))
    console.print(picture, markup=False, soft_wrap=True)
    shown, others = brokers_to_show(plan.figures)
    console.print()
    console.print(
        "before → after (best possible); at its fullest: while the new copies arrive", style="dim"
    )
    for part in _broker_tables(shown, console.width):
        console.print(part)
    if others:
        spans = "; ".join(
            f"{_plain(name)} {span}" for name, span in others_in_words(others, _UNITS)
        )
        console.print(f"and {len(others):,} others: {spans}", markup=False)
    console.print()
    even = table("per broker", "before", "after", "best possible")
    for name, measure in overview.measures.items():
        spans_of_measure = (measure.before, measure.after, measure.best)
        cells = [span_in_words(span, _UNITS[name]) for span in spans_of_measure]
        even.add_row(_plain(name), *cells)
    console.print(even)


def _broker_tables(figures: Sequence[BrokerFigure], width: int) -> list[Table]:
    """Return before → after (best possible) for each measure, in as many tables as the width needs.

    Columns fill a table until the next one would be wider than the terminal: of four columns of 30
    characters and a width of 80 two go into each table.
    """
    columns = [(_plain(name), _cells(figures, name)) for name in MEASURES if knows(figures, name)]
    columns.append(("at its fullest", [_peak(figure) for figure in figures]))
    labels = [str(figure.broker_id) for figure in figures]
    label_width = max(len("broker"), *(len(label) for label in labels))
    groups: list[list[tuple[str, list[Text]]]] = [[]]
    used_width = label_width
    for name, cells in columns:
        column_width = _GAP + max(len(name), *(len(cell) for cell in cells))
        if groups[-1] and used_width + column_width > width:
            groups.append([])
            used_width = label_width
        groups[-1].append((name, cells))
        used_width += column_width
    return [_one_table(labels, group) for group in groups]


def _one_table(labels: Sequence[str], columns: Sequence[tuple[str, Sequence[Text]]]) -> Table:
    rows = table("broker", *((name, "right") for name, _ in columns))
    for index, label in enumerate(labels):
        rows.add_row(label, *(cells[index] for _, cells in columns))
    return rows


def _cells(figures: Sequence[BrokerFigure], name: str) -> list[Text]:
    """Return the cells of a measure, padded so that arrows and brackets are in one column."""
    values = [values_of(figure, name) for figure in figures]
    texts = [[_UNITS[name](value) for value in row] for row in values]
    widths = [max(len(row[column]) for row in texts) for column in range(3)]
    cells = []
    for row, texts_of_row in zip(values, texts, strict=True):
        padded = [text.rjust(width) for text, width in zip(texts_of_row, widths, strict=True)]
        before, after, best = padded
        style = "dim" if row[0] == row[1] else ""
        cells.append(Text(f"{before} → {after} ({best})", style=style))
    return cells


def _peak(figure: BrokerFigure) -> Text:
    share = peak_share(figure)
    percent = f" {share * 100:3.0f} %" if share is not None else ""
    return Text(f"{format_bytes(peak_used_bytes(figure))}{percent}")


def _print_cost(console: Console, plan: RebalancePlan, overview: Overview) -> None:
    bound = plan.lower_bound
    cost = table("", ("this plan", "right"), ("any plan, at least", "right"), ("over", "right"))
    rows = (
        (
            "bytes copied",
            format_bytes(overview.copied_bytes),
            format_bytes(bound.bytes),
            overview.over_bytes,
        ),
        (
            "replicas copied",
            f"{overview.copied_replicas:,}",
            f"{bound.replicas:,}",
            overview.over_replicas,
        ),
    )
    for name, planned, bound_text, over in rows:
        cost.add_row(name, planned, bound_text, "" if over is None else f"{over:.3f} x")
    if leaders := overview.measures.get("leaders"):
        cost.add_row(
            "leaders, max - min",
            f"{leaders.after.max_minus_min:,}",
            f"{bound.leaders_max_minus_min:,}",
        )
    console.print(cost)
    changes = [_changes(overview.leader_changes)]
    if overview.cross_rack_bytes:
        changes.append(
            f"{format_bytes(overview.cross_rack_bytes)} go from rack to rack (between zones that "
            "costs money)"
        )
    console.print("; ".join(changes))
    for sentence in coordinators_in_words(overview):
        console.print(sentence, markup=False)


def _print_time(console: Console, plan: RebalancePlan, overview: Overview, pace: Pace) -> None:
    busiest = format_bytes(overview.busiest_link_bytes)
    if not overview.busiest_link_bytes:
        return
    if pace.suggested is not None:
        console.print(
            f"suggested rate: {format_rate(pace.suggested)}, which leaves room for clients on "
            "every link"
        )
    rate = pace.asked if pace.asked is not None else pace.suggested
    if rate is None:
        console.print(
            f"busiest link: {busiest} into or out of one broker; --rate 50MB/s shows how long that "
            "takes"
        )
        return
    seconds = format_seconds(overview.busiest_link_bytes / rate)
    console.print(
        f"takes about {seconds} at {format_rate(rate)}: {busiest} into or out of the busiest broker"
    )
    if warning := rate_warning(plan, rate, pace.at_once):
        print_warnings(console, [warning])


def _print_moves(console: Console, plan: RebalancePlan) -> None:
    shown, rest = largest_moves(plan, _MAX_MOVES_SHOWN)
    moves = table("partition", "replicas", "", ("copied", "right"), "why")
    for move in shown:
        copied = format_bytes(move.copied_bytes) if move.adding else "-"
        moves.add_row(
            Text(str(move.topic_partition)),
            _ids(move.replicas_before),
            _change(move),
            copied,
            MOVE_REASON_TEXTS[move.why],
        )
    for reason in rest:
        copied = format_bytes(reason.bytes) if reason.bytes else "-"
        moves.add_row(
            f"and {reason.partitions:,} more", "", "", copied, MOVE_REASON_TEXTS[reason.why]
        )
    console.print(moves)


def _change(move: Move) -> str:
    if move.replicas_after == move.replicas_before:
        return f"→ elect {move.replicas_after[0]}"
    return f"→ {_ids(move.replicas_after)}"


def _changes(leaders: int) -> str:
    return f"{leaders or 'no'} leader changes" if leaders < 2 else f"{leaders:,} leaders change"


def _ids(replicas: tuple[int, ...]) -> str:
    return ",".join(map(str, replicas))


def _plain(name: str) -> str:
    return name.replace("_", " ")
