"""On what the figures were measured: one line for people who compare; and what a process used.

print(machine_line())
used_by(["counterpoise", "plan", ...]).cpu_seconds
"""

import os
import platform
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

_CPU_INFO: Final = Path("/proc/cpuinfo")
_STATUS: Final = Path("/proc/self/status")


def machine_line() -> str:
    """Date, machine and versions."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "pyarrow", "ortools"))
    return (
        f"{datetime.now(UTC):%Y-%m-%d}: {os.cpu_count()} cores of {_processor()}, "
        f"{memory:.0f} GiB of memory, {platform.system()} {platform.release().split('-')[0]}, "
        f"Python {platform.python_version()}, {packages}"
    )


def load_line() -> str:
    """The machine's load now: figures of a busy one compare only within one run."""
    loads = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    return f"load of the last 1, 5 and 15 minutes: {loads}"


def peak_bytes() -> int:
    """The most memory that this process has had since it started.

    `ru_maxrss` is the last resort: on Linux it also counts the parent's memory, of which a child
    starts as a copy.
    """
    if _STATUS.exists():
        words = next(
            line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM")
        ).split()
        return int(words[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


@dataclass(frozen=True, slots=True)
class Used:
    exit_code: int
    cpu_seconds: float
    peak_bytes: int


def used_by(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    max_cpu_seconds: int | None = None,
    folder: Path | None = None,
) -> Used:
    """Run a command in a folder, and return what it used.

    After so many CPU seconds it is ended; its exit code is then -SIGXCPU, or -SIGKILL. Raises
    CalledProcessError when it fails otherwise; 1 is an answer (`counterpoise plan`: nothing moves).
    """

    def limit() -> None:
        if max_cpu_seconds is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (max_cpu_seconds, max_cpu_seconds + 1))

    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, preexec_fn=limit
    )
    try:
        _, status, used = os.wait4(process.pid, 0)
    except BaseException:
        process.kill()
        process.wait()
        raise
    code = process.returncode = os.waitstatus_to_exitcode(status)
    is_over_limit = max_cpu_seconds is not None and code in {-signal.SIGXCPU, -signal.SIGKILL}
    if code not in {0, 1} and not is_over_limit:
        raise subprocess.CalledProcessError(code, command)
    unit = 1 if sys.platform == "darwin" else 1024
    return Used(code, used.ru_utime + used.ru_stime, used.ru_maxrss * unit)


def _processor() -> str:
    """Vendor's name and, since virtual machines name it vaguely, family and model."""
    if not _CPU_INFO.exists():
        return platform.processor() or platform.machine()
    first = _CPU_INFO.read_text().split("\n\n")[0]
    lines = (line.partition(":") for line in first.splitlines())
    told = {key.strip(): value.strip() for key, _, value in lines}
    name = told.get("model name", platform.machine())
    return (
        f"{name} (family {told['cpu family']}, model {told['model']})"
        if "cpu family" in told
        else name
    )
