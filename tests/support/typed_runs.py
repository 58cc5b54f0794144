"""Runs by command on real brokers: a plan from a reassignment JSON, approved; `execute` in a
process of its own.

    plan = imported(shell, "orders", {"orders-0": (4, 2, 3)}, "20kB/s")
    with start(shell, "execute", plan) as process:
        ...
"""

import fcntl
import json
import os
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.support.command_line import CommandLine

RUN: Final = "from counterpoise.cli.main import run; run()"


def start(
    shell: CommandLine, *words: str | Path, code: str = RUN, terminal: int | None = None
) -> subprocess.Popen[str]:
    """A command in a process of its own, to be killed; at a terminal, where it is given one."""

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(1, termios.TIOCSCTTY, 0)

    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)],
        env=os.environ | shell.environment,
        stdout=subprocess.PIPE if terminal is None else terminal,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=None if terminal is None else take_terminal,
    )


def imported(
    shell: CommandLine, name: str, wanted: Mapping[str, Sequence[int]], rate: str = "50MB/s"
) -> Path:
    """An approved plan that gives these partitions (`orders-0`) these replicas."""
    plan, reassignment = shell.folder / f"{name}.json", shell.folder / "r.json"
    rows = [
        {"topic": topic, "partition": int(partition), "replicas": list(replicas)}
        for (topic, _, partition), replicas in (
            (name.rpartition("-"), replicas) for name, replicas in wanted.items()
        )
    ]
    reassignment.write_text(json.dumps({"version": 1, "partitions": rows}))
    typed = shell.type("import", reassignment, "--cluster", "demo", "--out", plan)
    assert typed.code == 0, typed.err
    typed = shell.type("approve", plan, "--rate", rate, "--reason", "test")
    assert typed.code == 0, typed.err
    return plan


def executed(shell: CommandLine, plan: Path) -> None:
    typed = shell.type("execute", plan)
    assert typed.code == 0, typed.out + typed.err
