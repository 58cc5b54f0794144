"""The demo's output: one line that says what happens and what comes, lines that stay, blocks.

    terminal = Terminal()
    with terminal.doing("three brokers start", then="Airflow"): ...

Where the output is no terminal (a file, a test), what happens is a line as well.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.status import Status
from rich.text import Text

PLAIN_WIDTH = 110


class Terminal:
    """Prints to standard output, or to `file`."""

    def __init__(self, file: TextIO | None = None) -> None:
        self.console = Console(file=file, highlight=False)
        if not self.console.is_terminal:
            self.console.width = PLAIN_WIDTH
        self._started_at = time.monotonic()

    @property
    def minutes(self) -> str:
        """Return how long the demo has run, like `4:42`."""
        minutes, seconds = divmod(round(time.monotonic() - self._started_at), 60)
        return f"{minutes}:{seconds:02d}"

    def note(self, text: str) -> None:
        """Print one line with the time since the start."""
        line = Text(f"{self.minutes:>5}  ", style="dim")
        self.console.print(line.append(Text(text, style="default")), soft_wrap=True)

    def block(self, title: str, lines: Sequence[str]) -> None:
        """Print a title and lines that are never wrapped, so that an address can be clicked."""
        self.console.print()
        self.console.print(Text(f" {title} ", style="bold reverse"))
        for line in lines:
            self.console.print(Text(f"  {line}"), soft_wrap=True)
        self.console.print()

    @contextmanager
    def doing(self, what: str, then: str) -> Iterator["Doing"]:
        """Show what happens and what comes, until the block ends."""
        doing = Doing(self, then)
        try:
            doing(what)
            yield doing
        finally:
            doing.close()


class Doing:
    """The line of what happens now, which may change: one that stays where there is no terminal."""

    def __init__(self, terminal: Terminal, then: str) -> None:
        self._terminal, self._then, self._told = terminal, then, ""
        is_live = terminal.console.is_terminal
        self._live = Status("", console=terminal.console) if is_live else None

    def __call__(self, what: str, figures: str = "", *, then: str = "") -> None:
        """`figures` change too often to be a line each."""
        self._then = then or self._then
        if self._live is not None:
            self._live.update(Text(f"{what}{figures}; then: {self._then}"))
            self._live.start()
        elif what != self._told:
            self._terminal.note(f"{what}; then: {self._then}")
        self._told = what

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
