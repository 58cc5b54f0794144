"""The supervisor process between a parent and one of its children; the package has its promises.

It is run by file path, never imported by the parent:

    python -I -S keeper.py LIFE_FD STATUS_FD GRACE_SECONDS COMMAND [ARGUMENT ...]

It reads LIFE_FD: `stop SECONDS` requests an orderly end, end of file means that the parent has
ended. It writes to STATUS_FD: `pid N` or `failed REASON` once, then `exit CODE` (negative: the
signal that ended it). It ends when nothing that it started, directly or not, is left.

Limits: on Linux it adopts all descendants (`PR_SET_CHILD_SUBREAPER`), so it also finds daemons and
processes with their own session; elsewhere only the command's process group. A keeper that is
killed with -9 takes the command along (`PR_SET_PDEATHSIG`), but not what the command started. It
must start fast: standard library only, and little of it.
"""

import ctypes
import os
import select
import signal
import sys
import time

LINUX = sys.platform == "linux"
PR_SET_PDEATHSIG = 1  # numbers from linux/prctl.h
PR_SET_CHILD_SUBREAPER = 36
POLL_SECONDS = 0.05
REST_GRACE_SECONDS = 2.0  # for what the command left behind after it ended itself


def prctl(option: int, value: int) -> None:
    """Set one attribute of this process; does nothing off Linux."""
    if LINUX and ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


def descendants(ancestor: int) -> list[int]:
    """Return all processes below `ancestor`, from /proc; zombies are left out."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - pathlib takes 20 ms to import
        if entry.isdigit() and (found := _state_and_parent(entry)) and found[0] != "Z":
            children.setdefault(found[1], []).append(int(entry))
    below: list[int] = []
    unvisited = [ancestor]
    while unvisited:
        of_next = children.get(unvisited.pop(), [])
        below += of_next
        unvisited += of_next
    return below


def _state_and_parent(pid: str) -> tuple[str, int] | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - as above
            # The name, in parentheses, may contain spaces and parentheses.
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return fields[0], int(fields[1])


class Keeper:
    """Starts the command, watches it and the parent, and ends what is left."""

    def __init__(
        self, life_fd: int, status_fd: int, grace_seconds: float, command: list[str]
    ) -> None:
        self.life_fd = life_fd
        self.status_fd = status_fd
        self.grace_seconds = grace_seconds
        self.command = command
        self.pid = 0
        self.exit_code: int | None = None
        self.stop_at: float | None = None  # when the command gets SIGKILL
        self.wake_read, self.wake_write = os.pipe()

    def run(self) -> None:
        self._catch_signals()
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        try:
            self._start_command()
        except OSError as error:
            self._report(f"failed {error}")
            return
        self._report(f"pid {self.pid}")
        self._watch()
        grace_seconds = REST_GRACE_SECONDS
        if self.stop_at is not None:
            grace_seconds = self.stop_at - time.monotonic()
        self._end_all(grace_seconds)
        self._report(f"exit {self.exit_code}")

    def _catch_signals(self) -> None:
        os.set_blocking(self.wake_write, False)
        signal.set_wakeup_fd(self.wake_write, warn_on_full_buffer=False)
        # Only a signal with a handler is written to the wake-up pipe.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: self._begin_stop(self.grace_seconds))

    def _start_command(self) -> None:
        """Fork and exec. Raises OSError when exec fails.

        The reason comes through a pipe that closes when exec succeeds.
        """
        keeper_pid = os.getpid()
        failure_read, failure_write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self._become_command(keeper_pid, failure_write)
        os.close(failure_write)
        with os.fdopen(failure_read) as failure:
            reason = failure.read()
        if reason:
            os.waitpid(self.pid, 0)
            raise OSError(reason)

    def _become_command(self, keeper_pid: int, failure_write: int) -> None:
        try:
            os.setsid()
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != keeper_pid:  # the keeper died before the line above took effect
                os._exit(1)
            for number in (
                signal.SIGCHLD,
                signal.SIGTERM,
                signal.SIGINT,
                signal.SIGHUP,
                signal.SIGPIPE,
            ):
                signal.signal(number, signal.SIG_DFL)
            for fd in (self.life_fd, self.status_fd):
                os.set_inheritable(fd, False)
            os.execvp(self.command[0], self.command)
        except OSError as error:
            os.write(failure_write, f"{self.command[0]}: {error.strerror}".encode())
        os._exit(127)

    def _watch(self) -> None:
        """Wait until the command has ended.

        A stop request, or the death of the parent, is passed on; then time is limited.
        """
        sources = [self.life_fd, self.wake_read]
        while self.exit_code is None:
            timeout = None if self.stop_at is None else max(0.0, self.stop_at - time.monotonic())
            ready, _, _ = select.select(sources, [], [], timeout)
            if self.wake_read in ready:
                os.read(self.wake_read, 512)
            if self.life_fd in ready and not self._read_request():
                sources.remove(self.life_fd)
            self._reap()
            is_late = self.stop_at is not None and time.monotonic() >= self.stop_at
            if self.exit_code is None and is_late:
                self._end_all(0)

    def _read_request(self) -> bool:
        """Read one message from the parent; return False at the end of file, which also stops."""
        message = os.read(self.life_fd, 512).decode()
        if message.startswith("stop "):
            self._begin_stop(float(message.split()[1]))
        elif not message:
            self._begin_stop(self.grace_seconds)
        return bool(message)

    def _begin_stop(self, grace_seconds: float) -> None:
        if self.stop_at is None:
            self.stop_at = time.monotonic() + grace_seconds
            # Only to the command: a supervisor stops its own children in its own order.
            _send([self.pid], signal.SIGTERM)

    def _end_all(self, grace_seconds: float) -> None:
        """Send SIGTERM to all descendants, and after `grace_seconds` SIGKILL until none is left."""
        deadline = time.monotonic() + grace_seconds
        if grace_seconds > 0:
            self._send_all(signal.SIGTERM)
        while self._reap() or self._has_descendants():
            if time.monotonic() >= deadline:
                self._send_all(signal.SIGKILL)
            time.sleep(POLL_SECONDS)

    def _has_descendants(self) -> bool:
        if LINUX:
            return bool(descendants(os.getpid()))
        try:
            os.killpg(self.pid, 0)
        except (ProcessLookupError, PermissionError):
            return self.exit_code is None
        return True

    def _send_all(self, number: int) -> None:
        if LINUX:
            _send(descendants(os.getpid()), number)
            return
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return

    def _reap(self) -> bool:
        """Collect every child that has ended, adopted ones too; return whether there was one."""
        has_reaped = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return has_reaped
            if pid == 0:
                return has_reaped
            has_reaped = True
            if pid == self.pid:
                self.exit_code = os.waitstatus_to_exitcode(status)

    def _report(self, message: str) -> None:
        try:
            os.write(self.status_fd, f"{message}\n".encode())
        except BrokenPipeError:
            return  # the parent has ended


def _send(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
            if number == signal.SIGTERM:
                os.kill(pid, signal.SIGCONT)  # a frozen process handles SIGTERM only once thawed
        except ProcessLookupError:
            continue


if __name__ == "__main__":
    Keeper(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]).run()
