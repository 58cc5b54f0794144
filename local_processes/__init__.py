"""Child processes that never outlive their parent, however it ends: return, exception, Ctrl-C or
kill -9.

    process = start(["java", "-version"], log_path=Path("java.log"), name="java")
    process.wait(timeout_seconds=10)

Each command gets a small keeper process (`keeper.py`) between itself and us. The keeper notices
when we are gone, because a pipe that only we hold open closes, and then ends the command and
everything the command started. Commands run in a session of their own, so Ctrl-C in a terminal
reaches us alone, and we stop them.

Limits: the full promise holds on Linux; elsewhere only the command's own process group is cleared.
A parent that forks without exec (`multiprocessing` by fork) hands the pipe on, and the promise then
waits for that fork, too.
"""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from counterpoise.errors import CounterpoiseError

KEEPER = Path(__file__).with_name("keeper.py")
POLL_SECONDS = 0.05
_FREEZE_SECONDS = 10.0
LOG_LINES_SHOWN = 20
# Below the range from which Linux takes the ports of outgoing connections (32768 up), so that none
# of those can sit on the port of a server that is down for a moment.
PORT_RANGE = range(15000, 32000)


class ChildFailedError(CounterpoiseError):
    """A child process could not be started, or ended or stayed silent when it was needed."""


class Process:
    """A running command; made by `start`."""

    def __init__(
        self,
        keeper: "subprocess.Popen[bytes]",
        life_fd: int,
        status_fd: int,
        name: str,
        log_path: Path,
        pid: int,
    ) -> None:
        self.name = name
        self.log_path = log_path
        self.pid = pid
        self._keeper = keeper
        self._life_fd: int | None = life_fd
        self._status_fd: int | None = status_fd
        self._exit_code: int | None = None

    def __repr__(self) -> str:
        return f"<Process {self.name}: pid {self.pid}>"

    @property
    def keeper_pid(self) -> int:
        """The process between us and the command."""
        return self._keeper.pid

    def poll(self) -> int | None:
        """The exit code (negative: the signal that ended it) once the command and all it started
        are gone.
        """
        if self._exit_code is None and self._keeper.poll() is not None:
            self._exit_code = self._read_exit_code()
            self._close()
        return self._exit_code

    def wait(self, timeout_seconds: float | None = None) -> int:
        """Wait for the end, return the exit code. Raises TimeoutError."""
        try:
            self._keeper.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(
                f"{self.name} (pid {self.pid}) still runs after {timeout_seconds:g} s"
            ) from None
        code = self.poll()
        assert code is not None  # the keeper has ended, so poll knows
        return code

    def stop(self, grace_seconds: float = 10.0) -> int:
        """End it in good order: SIGTERM, then SIGKILL for all that is left after `grace_seconds`."""
        self.begin_stop(grace_seconds)
        return self.wait()

    def begin_stop(self, grace_seconds: float = 10.0) -> None:
        """As `stop`, without waiting: to stop several at the same time."""
        if self._life_fd is not None:
            with contextlib.suppress(BrokenPipeError):  # it has ended already
                os.write(self._life_fd, f"stop {grace_seconds}\n".encode())

    def kill(self) -> None:
        """SIGKILL to the command, as in a crash; does nothing when it has ended.

        What it started is cleared up.
        """
        self._signal(signal.SIGKILL)

    def freeze(self) -> None:
        """SIGSTOP: it keeps its connections and answers nothing, as on a machine that hangs.

        Returns when every thread has stopped; until then it might still answer.
        """
        self._signal(signal.SIGSTOP)
        wait_until(
            lambda: _has_stopped(self.pid), f"{self.name} to stop its clock", _FREEZE_SECONDS
        )

    def thaw(self) -> None:
        """SIGCONT: end of `freeze`."""
        self._signal(signal.SIGCONT)

    def last_log_lines(self, count: int = LOG_LINES_SHOWN) -> str:
        """The end of its output, indented, to go below an error message."""
        return "\n".join(f"  | {line}" for line in tail(self.log_path, count))

    def _signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it ended just now
                os.kill(self.pid, number)

    def _read_exit_code(self) -> int:
        assert self._status_fd is not None
        with os.fdopen(self._status_fd) as status:
            self._status_fd = None
            words = status.read().split()
        # Without a last word the keeper itself was killed, and the command with it.
        return int(words[-1]) if words[-2:-1] == ["exit"] else -signal.SIGKILL

    def _close(self) -> None:
        if self._life_fd is not None:
            os.close(self._life_fd)
            self._life_fd = None


def start(
    command: Sequence[str | Path],
    *,
    log_path: Path,
    name: str,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    orphan_grace_seconds: float = 10.0,
    error_path: Path | None = None,
) -> Process:
    """Start `command`; its output is appended to `log_path`, errors to `error_path` when that is
    given.

    Raises ChildFailedError when it cannot be executed. `orphan_grace_seconds` is the time between
    SIGTERM and SIGKILL when this process dies without a stop.
    """
    log_path.parent.mkdir(parents=True, exist_ok=True)
    life_read, life_write = os.pipe()
    status_read, status_write = os.pipe()
    arguments = [
        sys.executable,
        "-I",
        "-S",
        KEEPER,
        life_read,
        status_write,
        orphan_grace_seconds,
        *command,
    ]
    try:
        with log_path.open("ab") as log, (error_path or log_path).open("ab") as errors:
            keeper = subprocess.Popen(
                [str(argument) for argument in arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=errors,
                env=None if env is None else dict(env),
                cwd=cwd,
                pass_fds=(life_read, status_write),
                start_new_session=True,
            )
    except OSError as error:
        os.close(life_write)
        os.close(status_read)
        raise ChildFailedError(f"{name} cannot be started: {error}") from error
    finally:
        os.close(life_read)
        os.close(status_write)
    pid = _read_pid(keeper, life_write, status_read, name, log_path)
    return Process(keeper, life_write, status_read, name, log_path, pid)


def _read_pid(
    keeper: "subprocess.Popen[bytes]", life_fd: int, status_fd: int, name: str, log_path: Path
) -> int:
    said = b""
    while not said.endswith(b"\n") and (chunk := os.read(status_fd, 1)):
        said += chunk
    word, _, rest = said.decode().strip().partition(" ")
    if word == "pid":
        return int(rest)
    keeper.wait()
    os.close(life_fd)
    os.close(status_fd)
    raise ChildFailedError(f"{name} cannot be started: {rest or f'see {log_path}'}")


def run(
    command: Sequence[str | Path],
    *,
    name: str,
    timeout_seconds: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> "subprocess.CompletedProcess[str]":
    """As `subprocess.run` with captured output, for commands that must not outlive us either.

    Raises TimeoutError (after ending the command), and ChildFailedError when it cannot be executed.
    """
    with tempfile.TemporaryDirectory() as folder:
        out, errors = Path(folder) / "out", Path(folder) / "err"
        process = start(
            command,
            log_path=out,
            error_path=errors,
            name=name,
            env=env,
            cwd=cwd,
            orphan_grace_seconds=0,
        )
        try:
            code = process.wait(timeout_seconds)
        finally:
            process.stop(grace_seconds=0)
        said = (out.read_text(errors="replace"), errors.read_text(errors="replace"))
    return subprocess.CompletedProcess([str(word) for word in command], code, *said)


def _has_stopped(pid: int) -> bool:
    """Whether all threads of a process are stopped; always true where there is no /proc to tell."""
    states = []
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            states.append(stat.read_text().rpartition(")")[2].split()[0])
        except OSError:  # the thread has just ended
            continue
    return all(state in "TtZX" for state in states)


def wait_until(
    condition: Callable[[], bool],
    what: str,
    timeout_seconds: float,
    while_alive: Process | Iterable[Process] = (),
    poll_seconds: float = POLL_SECONDS,
) -> None:
    """Poll until `condition()` is true.

    Raises ChildFailedError, with the last log lines, when time is up or a process of `while_alive`
    ends.
    """
    processes = (while_alive,) if isinstance(while_alive, Process) else tuple(while_alive)
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        for process in processes:
            if (code := process.poll()) is not None:
                raise ChildFailedError(
                    f"waited for {what}, but {process.name} ended with {code}; the end of {process.log_path}:\n"
                    f"{process.last_log_lines()}"
                )
        if time.monotonic() >= deadline:
            logs = "".join(
                f"\n{process.log_path}:\n{process.last_log_lines()}" for process in processes
            )
            raise ChildFailedError(f"waited {timeout_seconds:g} s in vain for {what}{logs}")
        time.sleep(poll_seconds)


def tail(path: Path, count: int) -> list[str]:
    """The last `count` lines of a file (of its last 64 KiB); empty when there is no file."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 65536))
            return file.read().decode(errors="replace").splitlines()[-count:]
    except FileNotFoundError:
        return []


def free_ports(count: int) -> list[int]:
    """`count` different loopback ports on which nobody listens now."""
    found: list[int] = []
    for port in random.sample(PORT_RANGE, len(PORT_RANGE)):
        if len(found) == count:
            break
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            found.append(port)
    if len(found) < count:
        raise ChildFailedError(f"only {len(found)} of {count} free ports found on 127.0.0.1")
    return found
