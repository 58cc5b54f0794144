"""A plan on the terminal, pictures first.

    print_plan(console, plan, PlanView.of(plan, 20_000_000))

Of long lists the first entries are shown, and the others counted. Text from the cluster is shown as
text only.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from counterpoise.cli.plan_picture import plan_picture
from counterpoise.cli.tables import table
from counterpoise.model.plan import BrokerFigure, RebalancePlan
from counterpoise.model.run import RunState
from counterpoise.model.safe_text import one_line
from counterpoise.model.words import verb
from counterpoise.services.runs import RunStatus
from counterpoise.units import format_bytes, format_count
from counterpoise.views.plan import LargestMoves, Measure, PlanView

_MAX_MOVES_SHOWN: Final = 15
_GAP: Final = 2
_MAX_PICTURE_WIDTH: Final = 100


def print_plan(
    console: Console, plan: RebalancePlan, view: PlanView, *, written_to: Path | None = None
) -> None:
    """Print what a plan does: brokers, cost, time, the largest moves, notes, warnings."""
    console.print(
        f"plan for {one_line(view.cluster) or 'the cluster'}: {view.goal_in_words}",
        style="bold",
    )
    if requested := view.request_in_words:
        console.print(one_line(requested))
    if view.is_empty:
        console.print(f"nothing needs to move: {view.reason}")
    _print_brokers(console, view)
    if not view.is_empty:
        console.print()
        _print_cost(console, view)
        _print_time(console, view)
        console.print()
        _print_moves(console, LargestMoves.of(plan, _MAX_MOVES_SHOWN))
    for note in view.all_notes:
        console.print(one_line(note))
    print_warnings(console, view.warnings)
    console.print(view.fingerprint)
    if written_to:
        console.print(f"written to {written_to}")


def print_warnings(console: Console, warnings: Sequence[str]) -> None:
    for warning in warnings:
        console.print(Text(f"warning: {warning}", style="yellow"))


def print_outcome(console: Console, plan: RebalancePlan, status: RunStatus, report: str) -> None:
    """Print how a run of the plan ended."""
    run = status.run
    console.print(f"run {run.run_id} is {run.in_words}", style="bold")
    if run.state is RunState.DONE:
        view = PlanView.of(plan)
        _print_brokers(console, view)
        console.print()
        _print_cost(console, view)
    else:
        console.print(
            f"{status.moves_done} of {len(plan.moves)} partitions "
            f"{verb(status.moves_done, 'is', 'are')} as planned; the report lists the others"
        )
    over = [key.name for key in status.keys if key.done_at is not None]
    theirs = len(status.left_values.keys() & over)
    left = f"; left as somebody else set them: {theirs}" if theirs else ""
    console.print(
        f"config keys changed: {len(status.keys)}; restored: {len(over) - theirs}{left}; "
        f"waiting for a broker that does not respond: {len(status.pending_restores)}"
    )
    console.print(f"report: {report}")


def _print_brokers(console: Console, view: PlanView) -> None:
    """Print a picture, then each broker, then how even all of them are."""
    shown, others = view.shown_brokers
    if not shown:
        return
    picture = plan_picture(view, width=min(console.width, _MAX_PICTURE_WIDTH))
    for line in picture.split("\n"):
        console.print(line, soft_wrap=True)
    console.print()
    console.print(
        "before → after (best possible); at its fullest: while the new copies arrive", style="dim"
    )
    for part in _broker_tables(view, shown, console.width):
        console.print(part)
    if others:
        console.print(f"and {format_count(len(others))} others: {view.other_brokers_in_words}")
    console.print()
    even = table("per broker", "before", "after", "best possible")
    for name, *spans in view.evenness:
        even.add_row(name.lower(), *spans)
    console.print(even)


def _broker_tables(view: PlanView, figures: Sequence[BrokerFigure], width: int) -> list[Table]:
    """Return before → after (best possible) for each measure, in as many tables as the width needs.

    Columns fill a table until the next one would be wider than the terminal: of four columns of 30
    characters and a width of 80 two go into each table.
    """
    columns = [_cells(figures, measure) for measure in view.measures]
    columns.append([Text(view.fullest(figure)) for figure in figures])
    headings = [*(measure.title for measure in view.measures), "At its fullest"]
    labels = [str(figure.broker_id) for figure in figures]
    label_width = max(len("broker"), *map(len, labels))
    groups: list[list[tuple[str, list[Text]]]] = [[]]
    used_width = label_width
    for heading, cells in zip(headings, columns, strict=True):
        column_width = _GAP + max(len(heading), *map(len, cells))
        if groups[-1] and used_width + column_width > width:
            groups.append([])
            used_width = label_width
        groups[-1].append((heading.lower(), cells))
        used_width += column_width
    return [_one_table(labels, group) for group in groups]


def _one_table(labels: Sequence[str], columns: Sequence[tuple[str, Sequence[Text]]]) -> Table:
    rows = table("broker", *((heading, "right") for heading, _ in columns))
    for label, *cells in zip(labels, *(cells for _, cells in columns), strict=True):
        rows.add_row(label, *cells)
    return rows


def _cells(figures: Sequence[BrokerFigure], measure: Measure) -> list[Text]:
    """Return the cells of a measure, padded so that arrows and brackets are in one column."""
    rows = [tuple(map(measure.unit, measure.values(figure))) for figure in figures]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    cells = []
    for figure, row in zip(figures, rows, strict=True):
        before, after, best = map(str.rjust, row, widths)
        was, will, _ = measure.values(figure)
        cells.append(Text(f"{before} → {after} ({best})", style="dim" if was == will else ""))
    return cells


def _print_cost(console: Console, view: PlanView) -> None:
    cost = table("", ("this plan", "right"), ("any plan, at least", "right"), ("over", "right"))
    for row in view.costs:
        cost.add_row(row.name.lower(), row.planned, row.at_least, row.over)
    console.print(cost)
    for line in view.changes_in_words:
        console.print(line)


def _print_time(console: Console, view: PlanView) -> None:
    for line in view.pace_in_words:
        console.print(line)
    for warning in (view.rate_warning, view.limit_warning):
        if warning and view.bytes_over_busiest_link:
            print_warnings(console, [warning])


def _print_moves(console: Console, largest: LargestMoves) -> None:
    moves = table("partition", "replicas", "", ("copied", "right"), "why")
    for move in largest.moves:
        is_election = move.what == "elect"
        after = f"elect {move.replicas_after[0]}" if is_election else _ids(move.replicas_after)
        copied = "-" if move.copied_bytes is None else format_bytes(move.copied_bytes)
        before = _ids(move.replicas_before)
        moves.add_row(Text(move.partition), before, f"→ {after}", copied, move.why)
    for why, others in largest.others.items():
        copied = format_bytes(others.bytes) if others.bytes else "-"
        moves.add_row(f"and {format_count(others.partitions)} more", "", "", copied, why)
    console.print(moves)


def _ids(replicas: tuple[int, ...]) -> str:
    return ",".join(map(str, replicas))
