"""Ends what a failing test has started and not ended: children of this process, begun by the test.

Those of `dev.local_processes` are left alone: whoever started them ends them, and they end with
this process; so are the servers of `multiprocessing`, which serve later tests.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

_CARED_FOR: Final = (b"local_processes/keeper.py", b"multiprocessing")


def children() -> set[int]:
    """Return the ids of this process's own children; none where there is no /proc."""
    lists = Path("/proc/self/task").glob("*/children")
    return {int(pid) for each in lists for pid in each.read_text().split()}


def end_leftovers(before: set[int]) -> None:
    """Kill the children that were not there before."""
    for pid in children() - before:
        with suppress(OSError):  # it has ended meanwhile
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if not any(name in command for name in _CARED_FOR):
                os.kill(pid, signal.SIGKILL)
