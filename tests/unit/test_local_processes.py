"""Nothing that was started may be left, whoever dies how: checked with real processes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev import local_processes
from dev.local_processes import ChildFailedError, Process, free_ports, run, start, wait_until

ROOT = Path(__file__).parents[2]

# Its own session, and its parent gone: what a daemon does to get away. Deaf to SIGTERM on top.
DAEMON = """
import os, signal, sys, time
if os.fork():
    time.sleep(600)
os.setsid()
if os.fork():
    os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1], "w").write(str(os.getpid()))
time.sleep(600)
"""

PARENT = """
import signal, sys
from pathlib import Path
from dev.local_processes import start
folder = Path(sys.argv[1])
command = [sys.executable, "-c", sys.argv[2], str(folder / "daemon")]
child = start(command, log_path=folder / "log", name="child", orphan_grace_seconds=0.2)
(folder / "pids").write_text(f"{child.pid} {child.keeper_pid}")
signal.pause()
"""


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[Process]]:
    """Processes of the test, ended after it."""
    processes: list[Process] = []
    yield processes
    for process in processes:
        process.stop(grace_seconds=0)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def pids_in(file: Path) -> list[int]:
    return [int(word) for word in file.read_text().split()] if file.exists() else []


def start_daemon(tmp_path: Path) -> tuple[Process, int]:
    process = start(
        [sys.executable, "-c", DAEMON, tmp_path / "daemon"], log_path=tmp_path / "log", name="child"
    )
    wait_until(lambda: bool(pids_in(tmp_path / "daemon")), "the daemon", 240, while_alive=process)
    return process, pids_in(tmp_path / "daemon")[0]


def test_kill_9_of_the_parent_leaves_no_process_not_even_a_daemon(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, tmp_path, DAEMON],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        wait_until(
            lambda: len(pids_in(tmp_path / "pids")) == 2 and bool(pids_in(tmp_path / "daemon")),
            "the tree",
            240,
        )
        pids = pids_in(tmp_path / "pids") + pids_in(tmp_path / "daemon")
        assert all(map(alive, pids))
    finally:
        parent.kill()
        parent.wait()
    wait_until(lambda: not any(map(alive, pids)), f"the end of {pids}", 240)


def test_stop_ends_what_the_child_started_in_sessions_of_its_own(tmp_path: Path) -> None:
    process, daemon = start_daemon(tmp_path)
    process.stop(grace_seconds=0.2)
    assert not alive(process.pid)
    assert not alive(daemon)


def test_a_killed_keeper_takes_the_child_along(tmp_path: Path, started: list[Process]) -> None:
    started.append(start(["sleep", "600"], log_path=tmp_path / "log", name="sleeper"))
    os.kill(started[0].keeper_pid, signal.SIGKILL)
    wait_until(lambda: not alive(started[0].pid), "the end of the child", 240)
    assert started[0].wait(240) == -signal.SIGKILL


def test_run_keeps_output_and_errors_apart_and_ends_what_takes_too_long(tmp_path: Path) -> None:
    done = run(["sh", "-c", "echo out; echo err >&2; exit 7"], name="shell", timeout_seconds=240)
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")
    script = f"echo $$ > {tmp_path}/pid; trap '' TERM; while :; do sleep 0.05; done"
    with pytest.raises(TimeoutError, match="shell"):
        run(["sh", "-c", script], name="shell", timeout_seconds=0.5)
    assert not any(map(alive, pids_in(tmp_path / "pid")))


def test_stop_is_orderly_even_for_a_frozen_child(tmp_path: Path, started: list[Process]) -> None:
    script = "trap 'echo bye; exit 4' TERM; echo ready; while :; do sleep 0.05; done"
    process = start(["sh", "-c", script], log_path=tmp_path / "log", name="shell")
    started.append(process)
    wait_until(
        lambda: "ready" in process.log_path.read_text(), "the trap", 240, while_alive=process
    )
    process.freeze()
    assert process.stop(grace_seconds=240) == 4
    assert process.log_path.read_text() == "ready\nbye\n"
    process.kill()  # of one that has ended: nothing happens
    process.stop()


def test_waiting_for_a_dead_process_ends_with_its_last_words(tmp_path: Path) -> None:
    process = start(
        ["sh", "-c", "echo port is taken; exit 1"], log_path=tmp_path / "log", name="server"
    )
    with pytest.raises(
        ChildFailedError, match=r"waited for an answer, but server ended with 1(.|\n)*port is taken"
    ):
        wait_until(lambda: False, "an answer", 60, while_alive=process)
    with pytest.raises(ChildFailedError, match="in vain for a miracle"):
        wait_until(lambda: False, "a miracle", 0)


OTHER = """
import sys; from dev import local_processes
local_processes.PORT_RANGE = range(int(sys.argv[1]), int(sys.argv[1]) + 3)
print(local_processes.free_ports(1)[0])
"""


def test_a_port_is_given_once_while_its_server_is_not_there_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = 14_000  # below those of other tests
    monkeypatch.setattr(local_processes, "PORT_RANGE", range(first, first + 3))
    ours = free_ports(1) + free_ports(1)
    other = [sys.executable, "-c", OTHER, str(first)]
    given = subprocess.run(
        other, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert given.returncode == 0, given.stderr
    assert {*ours, int(given.stdout)} == set(range(first, first + 3))
