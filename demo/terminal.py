"""The demo's output: numbered steps, short notes, tables, a progress bar.

    terminal = Terminal()
    terminal.step(1, "A real Kafka")
    with terminal.busy("Starting three brokers"): ...

Where the output is no terminal (a file, a test), progress is a line for each tenth.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.markdown import Markdown
from rich.panel import Panel
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from counterpoise.model.plan import RebalancePlan
from counterpoise.units import format_bytes
from counterpoise.views.plan import PlanView
from demo.figures import BrokerFigures

STEPS = 5
PLAIN_WIDTH = 110


class Terminal:
    """Prints to standard output, or to `file`."""

    def __init__(self, file: TextIO | None = None) -> None:
        self.console = Console(file=file, highlight=False)
        if not self.console.is_terminal:
            self.console.width = PLAIN_WIDTH
        self._started_at = time.monotonic()

    def title(self, text: str) -> None:
        self.console.print(Panel(text, expand=False))

    def step(self, number: int, text: str) -> None:
        self.console.print()
        self.console.print(Rule(f"[bold]{number}/{STEPS}  {text}", align="left"))

    def note(self, text: str) -> None:
        """Print one line with the seconds since the start."""
        line = Text(f"{time.monotonic() - self._started_at:6.0f} s  ", style="dim")
        self.console.print(line.append(Text(text, style="default")), soft_wrap=True)

    def important(self, title: str, lines: Sequence[str]) -> None:
        """Print a title and lines that are never wrapped, so that an address can be clicked."""
        self.console.print()
        self.console.print(Text(f" {title} ", style="bold reverse"))
        for line in lines:
            self.console.print(Text(f"  {line}"), soft_wrap=True)
        self.console.print()

    def markdown(self, text: str) -> None:
        self.console.print(Markdown(text))

    @contextmanager
    def busy(self, text: str) -> Iterator[None]:
        """Show that something runs, then how long it took."""
        started_at = time.monotonic()
        if self.console.is_terminal:
            with self.console.status(text):
                yield
        else:
            yield
        self.note(f"{text}: done in {time.monotonic() - started_at:.0f} s")

    def figures(self, title: str, figures: Sequence[BrokerFigures]) -> None:
        """Print leaders, replicas and bytes per broker."""
        table = Table(title=title, title_justify="left")
        for column in ("broker", "rack", "leaders", "replicas", "bytes"):
            table.add_column(column, justify="left" if column == "rack" else "right")
        for row in figures:
            table.add_row(
                str(row.broker_id),
                row.rack,
                str(row.leader_count),
                str(row.replica_count),
                format_bytes(row.size_bytes),
            )
        self.console.print(table)

    def before_and_after(
        self, before: Sequence[BrokerFigures], after: Sequence[BrokerFigures]
    ) -> None:
        """Print both in one table, with dashes for a broker that is new."""
        table = Table(title="Per broker, before and after", title_justify="left")
        table.add_column("broker", justify="right")
        table.add_column("rack")
        for column in ("leaders", "", "replicas", "", "bytes", ""):
            table.add_column(column, justify="right")
        before_by_id = {row.broker_id: row for row in before}
        for now in after:
            was = before_by_id.get(now.broker_id)
            table.add_row(
                str(now.broker_id),
                now.rack,
                str(was.leader_count) if was else "-",
                str(now.leader_count),
                str(was.replica_count) if was else "-",
                str(now.replica_count),
                format_bytes(was.size_bytes) if was else "-",
                format_bytes(now.size_bytes),
            )
        self.console.print(table)

    def copied(self, plan: RebalancePlan) -> None:
        """Print what the plan copied, and the least that any plan would have to copy."""
        view, bound = PlanView.of(plan), plan.lower_bound
        self.note(
            f"copied: {view.copied_replicas} replicas, {format_bytes(view.copied_bytes)}, "
            f"of these {format_bytes(view.bytes_across_racks)} between racks; no plan for this "
            f"goal copies fewer than {bound.replicas} replicas, {format_bytes(bound.bytes)}"
        )

    @contextmanager
    def progress(self, what: str, total_bytes: int) -> Iterator["Bar"]:
        """Yield a progress bar; call it with the copied bytes and the running tasks."""
        bar = Bar(self, what, max(1, total_bytes))
        try:
            yield bar
        finally:
            bar.close()


class Bar:
    """A progress bar on a terminal, otherwise lines."""

    def __init__(self, terminal: Terminal, what: str, total_bytes: int) -> None:
        self._terminal = terminal
        self._total = total_bytes
        self._tenth = -1
        self._rich: Progress | None = None
        self._task = TaskID(0)
        if terminal.console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(40),
                TextColumn("{task.fields[amount]}"),
                TimeElapsedColumn(),
                TextColumn("[dim]{task.fields[doing]}"),
            )
            self._rich = Progress(*columns, console=terminal.console)
            self._task = self._rich.add_task(what, total=total_bytes, amount="", doing="")
            self._rich.start()

    def __call__(self, copied_bytes: int, doing: str) -> None:
        amount = f"{format_bytes(copied_bytes)} of {format_bytes(self._total)}"
        if self._rich is not None:
            self._rich.update(self._task, completed=copied_bytes, amount=amount, doing=doing)
            return
        tenth = 10 * copied_bytes // self._total
        if tenth > self._tenth:
            self._tenth = tenth
            self._terminal.note(f"{10 * tenth:3d} %  {amount}  ({doing})")

    def close(self) -> None:
        if self._rich is not None:
            self._rich.stop()
