"""A run under way, by its progress in the ledger: a live picture on a terminal, a line per change
elsewhere.

    with Display(console) as display:
        display.show(runs.run_now(installation, run_id))

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
from counterpoise.model.run_progress import RunProgress
from counterpoise.units import format_bytes, format_rate
from counterpoise.views.now import RunNow

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

    def show(self, shown: RunNow) -> None:
        if self._live:
            self._live.update(Group(*map(SafeRenderable, picture(shown))), refresh=True)
        elif (text := shown.in_words) != self._shown:
            self._shown = text
            self._console.print(text, soft_wrap=True)

    def log(self, text: str) -> None:
        """Print a line, unless the last one was the same."""
        if text != self._logged:
            self._logged = text
            self._console.print(text, soft_wrap=True)


def picture(shown: RunNow) -> list[RenderableType]:
    found = shown.run_progress
    if found is None:
        return [Text(shown.in_words)]
    head = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=1.0, completed=found.progress.share, width=_BAR_WIDTH)
    head.add_row(Text(shown.run.state, style="bold"), bar)
    sentence = Text(shown.sentence, style="" if shown.seconds_left else "yellow")
    parts: list[RenderableType] = [head, *map(Text, shown.figures), sentence]
    if found.links and shown.is_driven:
        parts.append(links_table(found))
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
