"""Runs on the terminal, and what tables of several commands share.

Text from clusters is shown as text only.
"""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from counterpoise.model.evenness import Evenness
from counterpoise.model.run import UNDER_WAY_STATES
from counterpoise.units import format_rate, format_seconds
from counterpoise.views.run import RunStatusView


def leaders_in_words(spread: Evenness) -> str:
    return (
        f"leaders per live broker: {spread.minimum} to {spread.maximum} "
        f"(max - min {spread.max_minus_min}, at best {spread.best_max_minus_min})"
    )


def print_runs(console: Console, runs: Sequence[RunStatusView]) -> None:
    """Print a row for each run."""
    if not runs:
        console.print(
            "no runs yet: `counterpoise plan` makes a plan, `counterpoise approve` opens its run",
        )
        return
    figures = [("moves", "right"), ("copied", "right")]
    if moves := any(map(_moves_now, runs)):
        figures += [("rate", "right"), ("time left", "right")]
    rows = table("run", "state", *figures, "opened (UTC)", "decision", "why")
    for run in runs:
        rows.add_row(
            run.run_id,
            run.state,
            *_how_far(run),
            *(_how_fast(run) if moves else ()),
            f"{run.opened_at:%Y-%m-%d %H:%M}",
            Text(f"{run.decision} by {run.decided_by}" if run.decision else "-"),
            Text(run.reason),
        )
    console.print(rows)


def _moves_now(run: RunStatusView) -> bool:
    return run.state in UNDER_WAY_STATES and run.progress is not None and run.progress.is_driven


def _how_far(run: RunStatusView) -> tuple[str, str]:
    """Return the moves that are done, and the share that is copied."""
    if found := run.progress:
        return f"{found.moves_done}/{found.moves_total}", f"{found.share * 100:.0f} %"
    return f"{run.moves_done}/{run.moves_submitted}" if run.moves_submitted else "-", "-"


def _how_fast(run: RunStatusView) -> tuple[str, str]:
    """Return what is copied now, and for how long yet; of a run that nobody drives neither."""
    found = run.progress
    if found is None or not _moves_now(run):
        return "-", "-"
    left = "not known" if found.seconds_left is None else format_seconds(found.seconds_left)
    return format_rate(found.bytes_per_second), left


def table(*columns: str | tuple[str, str]) -> Table:
    """Return a table without lines; a column is its name, or its name and `"right"`."""
    rows = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        name, justify = (column, "left") if isinstance(column, str) else column
        rows.add_column(name, justify="right" if justify == "right" else "left", overflow="fold")
    return rows
