"""Child processes that never outlive their parent, even when the parent is killed with -9.

    process = start(["java", "-version"], log_path=Path("java.log"), name="java")
    process.wait(timeout_seconds=10)

Each command has a small supervisor process (`keeper.py`) between itself and this process, its
keeper. When this process ends, a pipe that only it holds open closes. The keeper then ends the
command and everything that the command started. Commands run in their own session, so Ctrl-C in a
terminal reaches only this process, which stops them.

Limits: the full promise holds on Linux; elsewhere only the command's own process group is ended.
A fork without exec (`multiprocessing` by fork) inherits the pipe, and must end first, too.
"""

import contextlib
import fcntl
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from counterpoise.errors import CounterpoiseError

KEEPER = Path(__file__).with_name("keeper.py")
POLL_SECONDS = 0.05
_FREEZE_SECONDS = 120.0  # a thread that waits for the disk stops later
LOG_LINES_SHOWN = 20
# Below Linux's range of ephemeral ports (32768 up), so that no outgoing connection can take the
# port of a server that is down for a moment.
PORT_RANGE = range(15000, 32000)
_reserved_ports: set[int] = set()


class ChildFailedError(CounterpoiseError):
    """A child process could not be started, ended too early, or was not ready in time."""


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
        """Return the id of the supervisor process of the command."""
        return self._keeper.pid

    def poll(self) -> int | None:
        """Return the exit code once the command and all that it started have ended, else None.

        A negative code is the signal that ended it.
        """
        if self._exit_code is None and self._keeper.poll() is not None:
            self._exit_code = self._read_exit_code()
            self._close()
        return self._exit_code

    def wait(self, timeout_seconds: float | None = None) -> int:
        """Wait for the end and return the exit code. Raises TimeoutError."""
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
        """Send SIGTERM, and SIGKILL to all that is left after `grace_seconds`."""
        self.begin_stop(grace_seconds)
        return self.wait()

    def begin_stop(self, grace_seconds: float = 10.0) -> None:
        """Do as `stop`, without waiting: to stop several at the same time."""
        if self._life_fd is not None:
            with contextlib.suppress(BrokenPipeError):  # it has ended already
                os.write(self._life_fd, f"stop {grace_seconds}\n".encode())

    def kill(self) -> None:
        """Send SIGKILL to the command, as in a crash; does nothing when it has ended.

        The keeper then ends what the command started.
        """
        self._signal(signal.SIGKILL)

    def freeze(self) -> None:
        """Send SIGSTOP: it keeps its connections and responds to nothing, as a machine that hangs.

        Returns when every thread has stopped; until then it might still respond.
        """
        self._signal(signal.SIGSTOP)
        wait_until(lambda: _is_stopped(self.pid), f"{self.name} to freeze", _FREEZE_SECONDS)

    def thaw(self) -> None:
        """Send SIGCONT, which ends `freeze`."""
        self._signal(signal.SIGCONT)

    def last_log_lines(self, count: int = LOG_LINES_SHOWN) -> str:
        """Return the end of its output, indented for an error message."""
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
        if words[-2:-1] == ["exit"]:
            return int(words[-1])
        return -signal.SIGKILL  # the keeper itself was killed, and the command with it

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
    """Start `command`; its output is appended to `log_path`, its errors to `error_path` if given.

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
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(status_fd, 1)):
        line += byte
    word, _, rest = line.decode().strip().partition(" ")
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
    """Do as `subprocess.run` with captured output, for commands that must not outlive us.

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
        output = out.read_text(errors="replace")
        error_output = errors.read_text(errors="replace")
    words = [str(word) for word in command]
    return subprocess.CompletedProcess(words, code, output, error_output)


def _is_stopped(pid: int) -> bool:
    """Return whether all threads of a process are stopped; True where there is no /proc."""
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
    """Poll until `condition()` is true; it is asked once more when time is up.

    Raises ChildFailedError, with the last log lines, when time is up or a process of `while_alive`
    ends.
    """
    processes = (while_alive,) if isinstance(while_alive, Process) else tuple(while_alive)
    deadline = time.monotonic() + timeout_seconds
    is_over = False
    while not condition():
        for process in processes:
            if (code := process.poll()) is not None:
                raise ChildFailedError(
                    f"waited for {what}, but {process.name} ended with {code}; "
                    f"the end of {process.log_path}:\n{process.last_log_lines()}"
                )
        if is_over:
            message = [f"waited {timeout_seconds:g} s in vain for {what}"]
            for process in processes:
                message += [f"{process.log_path}:", process.last_log_lines()]
            raise ChildFailedError("\n".join(message))
        is_over = time.monotonic() >= deadline
        time.sleep(poll_seconds)


def tail(path: Path, count: int) -> list[str]:
    """Return the last `count` lines of a file (of its last 64 KiB); none when there is no file."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 65536))
            return file.read().decode(errors="replace").splitlines()[-count:]
    except FileNotFoundError:
        return []


def free_ports(count: int) -> list[int]:
    """Return `count` different loopback ports on which nobody listens now.

    Until this process ends none is returned again, here or in another process of this user: the
    server that it is for may start late, or be down for a while.
    """
    ports: list[int] = []
    for port in random.sample(PORT_RANGE, len(PORT_RANGE)):
        if len(ports) == count:
            break
        if not _reserve(port):
            continue
        with socket.socket() as tried, contextlib.suppress(OSError):
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(("127.0.0.1", port))
            ports.append(port)
    if len(ports) < count:
        raise ChildFailedError(f"only {len(ports)} of {count} free ports found on 127.0.0.1")
    return ports


def _reserve(port: int) -> bool:
    """Lock the byte of a port in a file that all processes of this user share.

    The operating system unlocks it when this process ends.
    """
    if port in _reserved_ports:
        return False
    try:
        fcntl.lockf(_reservations(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    _reserved_ports.add(port)
    return True


@cache
def _reservations() -> int:
    path = Path(tempfile.gettempdir(), f"counterpoise-ports-{os.getuid()}.lock")
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
