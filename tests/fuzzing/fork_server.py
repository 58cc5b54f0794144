"""Runs commands in processes that are copies of one that has loaded everything already.

    python -m tests.fuzzing.fork_server         # a JSON object a line in, one out
    {"words": [...], "folder": "...", "environment": {...}, "terminal": false}
    -> {"status": 0}

A copy costs milliseconds, and has its own streams, signals, current directory and limits: 10 s of
processor time, 4 GB of memory, 300 s. What is still there then ends by SIGABRT, with the traceback
of every thread on its stderr.
"""

import faulthandler
import importlib
import json
import os
import pkgutil
import pty
import re
import resource
import signal
import sys
import time
import traceback
from typing import Any, Final, NoReturn

import counterpoise
from counterpoise.cli import main as command_line

CPU_SECONDS: Final = 10
MEMORY_BYTES: Final = 4 << 30
HANGS_SECONDS: Final = 300
CRASHED: Final = 250  # an exception that even the last resort let through


# What commands import when they first need it.
IMPORTED_LATE: Final = (
    *("alembic.command", "asyncio", "confluent_kafka", "croniter", "jinja2", "kafka"),
    *(
        "ortools.graph.python.min_cost_flow",
        "ortools.sat.python.cp_model",
    ),
    *("pyarrow.dataset", "pydantic.dataclasses", "pydantic.json_schema"),
    *("sqlalchemy.dialects.sqlite", "stringprep"),
)
# Airflow's side of the house, and scripts that run where they are imported.
NO_COMMAND: Final = re.compile(
    r"counterpoise\.(orchestration|web|entry_points|ledger\.migrations|cli\.start)\b|.*__main__$"
)


def serve() -> None:
    load_everything()
    _say("ready")
    for line in sys.stdin:
        case = json.loads(line)
        child = os.fork()
        if child == 0:
            _run(case)
        status = _wait_for(child)
        _say(json.dumps({"status": os.waitstatus_to_exitcode(status)}))


def load_everything() -> None:
    for module in pkgutil.walk_packages(counterpoise.__path__, "counterpoise."):
        if not NO_COMMAND.match(module.name):
            importlib.import_module(module.name)
    for name in IMPORTED_LATE:
        importlib.import_module(name)


def _wait_for(child: int) -> int:
    """Return how the child ended."""
    deadline = time.monotonic() + HANGS_SECONDS
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.002)
    os.kill(child, signal.SIGABRT)
    return os.waitpid(child, 0)[1]


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _run(case: dict[str, Any]) -> NoReturn:
    try:
        os.setsid()
        # As `counterpoise` starts: before there is a command Ctrl-C ends it without a word.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        os.chdir(case["folder"])
        os.environ.clear()
        os.environ.update(case["environment"])
        _replace_streams(case["out"], case["err"], is_terminal=case["terminal"])
        sys.argv = ["counterpoise", *case["words"]]
        command_line.run()
    except SystemExit as ended:
        sys.stdout.flush()
        os._exit(ended.code if isinstance(ended.code, int) else 1)
    except BaseException:  # noqa: BLE001 # whatever it is, it is what is looked for
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(CRASHED)
    os._exit(CRASHED)


def _replace_streams(out: str, err: str, *, is_terminal: bool) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(err, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    target = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    if is_terminal:
        ours, theirs = pty.openpty()
        if os.fork() == 0:
            os.close(theirs)
            _copy(ours, target)
        os.close(ours)
        target = theirs
    os.dup2(target, 1)
    encoding = os.environ.get("PYTHONIOENCODING") or "utf-8"
    sys.stdout = open(1, "w", encoding=encoding, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", errors="backslashreplace", closefd=False)  # noqa: SIM115
    faulthandler.enable()


def _copy(source: int, target: int) -> NoReturn:
    """Write to a file what a terminal would show, until the other side is closed."""
    try:
        while block := os.read(source, 1 << 16):
            os.write(target, block)
    except OSError:
        os._exit(0)
    os._exit(0)


if __name__ == "__main__":
    serve()
