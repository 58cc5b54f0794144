"""A run under way, by its progress in the ledger: a live picture on a terminal, a line per change
elsewhere.

    with Display(console) as display:
        display.show(*runs.progress_of(installation, run_id))

Only reads: the process that drives the run updates the progress, perhaps on another machine.
"""

from types import TracebackType
from typing import Final, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from counterpoise.cli.common import SafeRenderable
from counterpoise.cli.tables import table
from counterpoise.model.run import Run
from counterpoise.model.run_progress import RunProgress
from counterpoise.model.words import pluralize
from counterpoise.units import format_bytes, format_rate, format_seconds

LINKS_SHOWN: Final = 8
_BAR_WIDTH: Final = 40


class Display:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._logged = self._shown = ""

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._live.stop()

    def show(self, run: Run, run_progress: RunProgress | None) -> None:
        if self._live:
            self._live.update(Group(*map(SafeRenderable, picture(run, run_progress))), refresh=True)
        elif (text := in_words(run, run_progress)) != self._shown:
            self._shown = text
            self._console.print(text, markup=False, soft_wrap=True)

    def log(self, text: str) -> None:
        """Print a line, unless the last one was the same."""
        if text != self._logged:
            self._logged = text
            self._console.print(text, markup=False, soft_wrap=True)


def in_words(run: Run, run_progress: RunProgress | None) -> str:
    """Return a line like `running, 24 %: 1.2 GB of 5.0 GB, 12 of 40 partitions, 8 in flight, ...,
    3 min left; what it waits for`.
    """
    if run_progress is None:
        return f"{run.state}; no step of the run has been done yet"
    parts = [_figures(run_progress), *_remarks(run_progress)]
    return f"{run.state}, {'; '.join(parts)}"


def picture(run: Run, run_progress: RunProgress | None) -> list[RenderableType]:
    if run_progress is None:
        return [Text(in_words(run, run_progress))]
    head = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=1.0, completed=run_progress.progress.share, width=_BAR_WIDTH)
    head.add_row(Text(run.state, style="bold"), bar)
    remarks = (Text(remark, style="yellow") for remark in _remarks(run_progress))
    parts: list[RenderableType] = [head, Text(_figures(run_progress)), *remarks]
    if run_progress.links:
        parts.append(links_table(run_progress))
    return parts


def links_table(run_progress: RunProgress) -> Table:
    """Return the links with most bytes left, and one row for the others."""
    shown = run_progress.busiest_links[:LINKS_SHOWN]
    others = run_progress.busiest_links[LINKS_SHOWN:]
    rows = table("broker", "", ("partitions", "right"), ("left", "right"), ("speed", "right"))
    for link in shown:
        rows.add_row(
            str(link.broker_id),
            "sends" if link.sends else "receives",
            str(link.moves),
            format_bytes(link.bytes_left),
            format_rate(link.bytes_per_second),
        )
    if others:
        move_count = sum(link.moves for link in others)
        bytes_left = format_bytes(sum(link.bytes_left for link in others))
        rows.add_row("", f"and {len(others)} more", str(move_count), bytes_left, "")
    return rows


def _figures(run_progress: RunProgress) -> str:
    figures = [run_progress.progress.in_words]
    if run_progress.links:
        figures.append(run_progress.speed_in_words)
        if run_progress.seconds_left:
            figures.append(f"{format_seconds(run_progress.seconds_left)} left")
    return ", ".join(figures)


def _remarks(run_progress: RunProgress) -> list[str]:
    remarks = [run_progress.waits_for] if run_progress.waits_for else []
    if run_progress.back_off_level:
        steps = pluralize(run_progress.back_off_level, "step")
        remarks.append(f"slowed down by {steps}, because partitions outside the plan suffered")
    return remarks
