"""Tasks that do the same for several clusters, one after the other.

    in_chunks(["a", "b", "c"])            # [["a"], ["b"], ["c"]]; of 200 clusters eight lists of 25
    name_of(["a", "b", "c"])              # "a … c (3)", for the list of mapped tasks
    with at_most(minutes=10): ...         # TimeoutError

What clusters share is read once for a chunk, and Airflow starts a process for it instead of one for
each cluster.

Limits: `at_most` needs the main thread, where Airflow runs a task, and replaces `execution_timeout`
there: both use the one alarm that a process has.
"""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

_MAX_CHUNKS: Final = 8


class _OutOfTimeError(BaseException):
    """Nothing that handles failures of the store takes it for one."""


def in_chunks(clusters: Sequence[str]) -> list[list[str]]:
    """Return the clusters in at most eight lists, of one cluster each where there are few."""
    size = max(1, -(-len(clusters) // _MAX_CHUNKS))
    return [list(clusters[begin : begin + size]) for begin in range(0, len(clusters), size)]


def name_of(chunk: Sequence[str]) -> str:
    """Return what a chunk is called: its cluster, or the first, the last and how many."""
    return chunk[0] if len(chunk) == 1 else f"{chunk[0]} … {chunk[-1]} ({len(chunk)})"


@contextmanager
def at_most(*, minutes: float) -> Iterator[None]:
    """Raise TimeoutError in what takes longer."""

    def end(*_: Any) -> None:
        raise _OutOfTimeError

    handler = signal.signal(signal.SIGALRM, end)
    try:
        signal.setitimer(signal.ITIMER_REAL, minutes * 60)
        yield
    except _OutOfTimeError:
        raise TimeoutError(f"it took longer than {minutes:g} minutes, and was ended") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
