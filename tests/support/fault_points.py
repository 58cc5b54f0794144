"""Named points of a run, and a process that kills or freezes itself at one of them.

    Trap(at=("after submitting while moving",), number=signal.SIGSTOP)

A point lies right before or right after a write to the ledger, or a call that changes the cluster;
its name ends with what the process announced last. Reads change nothing and have no points of their
own.
"""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.support.ledger_view import NAMED_WRITES

CLUSTER_CALLS: Final = ("alter_configs", "alter_reassignments", "elect_preferred_leaders")
Tell = Callable[[str], None]


@dataclass
class Points:
    """Names the points of a run: `before submitting while throttling`, by the last thing that the
    process announced.
    """

    tell: Tell
    phase: str = "starting"

    def around(self, name: str, call: Callable[[], Any]) -> Any:
        self.tell(f"before {name} while {self.phase}")
        try:
            return call()
        finally:
            self.tell(f"after {name} while {self.phase}")


class Watched:
    """Passes calls on; of the named ones it tells."""

    def __init__(self, target: Any, names: Sequence[str], points: Points) -> None:
        self._target, self._names, self._points = target, names, points

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._target, name)
        if name not in self._names:
            return method

        def told(*args: Any, **kwargs: Any) -> Any:
            if name == "event":
                self._points.phase = args[0]
            result = self._points.around(name, lambda: method(*args, **kwargs))
            if name == "change_state":
                self._points.phase = str(args[0])
            return result

        return told


class WatchedLedger(Watched):
    def journal(self, run_id: str) -> "WatchedJournal":
        return WatchedJournal(self._target.journal(run_id), (), self._points)


class WatchedJournal(Watched):
    @contextmanager
    def step(self) -> Iterator[Any]:
        points: Points = self._points
        points.tell(f"before step while {points.phase}")
        with self._target.step() as step:
            points.tell(f"after step while {points.phase}")
            yield Watched(step, NAMED_WRITES, points)
            points.tell(f"before release while {points.phase}")
        points.tell(f"after release while {points.phase}")


@dataclass(frozen=True)
class Trap:
    """Sends itself `number` at the first point that `at` names and that no earlier one is
    remembered for.
    """

    at: tuple[
        str, ...
    ] = ()  # names of points; with `is_everywhere` any that is not in `record` yet
    number: int = signal.SIGKILL
    record: Path | None = None
    is_everywhere: bool = False

    def tell(self, point: str) -> None:
        if point not in self.at and not self.is_everywhere:
            return
        if self.record is not None:
            known = self.record.read_text().splitlines() if self.record.exists() else []
            if point in known:
                return
            with self.record.open("a") as record:
                record.write(f"{point}\n")
                record.flush()
                os.fsync(record.fileno())
        os.kill(os.getpid(), self.number)
