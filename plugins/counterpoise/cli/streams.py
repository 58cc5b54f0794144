"""What a process has on its way out: stdout, stderr, and signals.

    prepare_streams()
    code = main(sys.argv[1:])
    end(code)

Text that the terminal cannot show is shown in other characters.
"""

import codecs
import errno
import io
import logging
import os
import signal
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

from counterpoise.errors import StoreError

INTERRUPTED: Final = 128 + signal.SIGINT
TERMINATED: Final = 128 + signal.SIGTERM
HUNG_UP: Final = 128 + signal.SIGHUP
READER_GONE: Final = 128 + signal.SIGPIPE
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_PLAIN: Final = {"█": "#", "░": ".", "→": ">", "×": "x", "−": "-", "…": "."}
_PLAIN_ERRORS: Final = "counterpoise.plain"


class Terminated(KeyboardInterrupt):  # like KeyboardInterrupt, it is no error
    """SIGTERM: what is under way ends as after Ctrl-C, with another exit code."""

    exit_code = TERMINATED


class HungUp(Terminated):
    """SIGHUP: the terminal was closed."""

    exit_code = HUNG_UP


_EXCEPTIONS: Final[Mapping[int, type[KeyboardInterrupt]]] = {
    signal.SIGINT: KeyboardInterrupt,
    signal.SIGTERM: Terminated,
    signal.SIGHUP: HungUp,
}


def _plain_characters(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError), "only what is written is replaced"
    text = error.object[error.start : error.end]
    return "".join(_PLAIN.get(character, "?") for character in text), error.end


def prepare_streams() -> None:
    """Let stdout and stderr take every text, and turn signals into exceptions; a second one
    ends the process at once. What a closed stdout or terminal was to take goes nowhere.
    """
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 # until the process ends
    codecs.register_error(_PLAIN_ERRORS, _plain_characters)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_PLAIN_ERRORS)
    signal.signal(signal.SIGINT, _interrupt)
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
        signal.signal(signal.SIGHUP, _interrupt)
    sys.unraisablehook = _end_if_interrupted


def _interrupt(number: int, _frame: object) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if number == signal.SIGHUP:
        _forget_terminal()
    # It would log this very exception, where it closes a connection just now.
    logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)
    raise _EXCEPTIONS[number]


def _forget_terminal() -> None:
    """Send what a closed terminal was to show nowhere: each write to it is an error."""
    for descriptor in (1, 2):
        if stat.S_ISCHR(os.fstat(descriptor).st_mode):
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def _end_if_interrupted(dropped: "sys.UnraisableHookArgs") -> None:
    """End the process where the exception of a signal came up while an object was deleted.

    Python drops such an exception, and a command that waits would wait for ever.
    """
    if isinstance(dropped.exc_value, KeyboardInterrupt):
        end(code_of(dropped.exc_value))
    sys.__unraisablehook__(dropped)


def code_of(signal: KeyboardInterrupt) -> int:
    """Return the exit code after Ctrl-C, SIGTERM or a closed terminal."""
    return signal.exit_code if isinstance(signal, Terminated) else INTERRUPTED


def is_of_stdout(error: Exception) -> bool:
    """Return whether stdout takes nothing more: its reader has ended, or its disk is full."""
    return isinstance(error, OSError) and error.errno in (errno.EPIPE, *_FULL)


def code_of_stdout(error: OSError) -> int:
    """Return the exit code after an error of stdout, and say it where that is trouble."""
    if error.errno == errno.EPIPE:  # whoever read it has ended, like `head`
        return READER_GONE
    print(f"counterpoise: stdout cannot be written ({error.strerror})", file=sys.stderr)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still to be written
    return StoreError.exit_code


def is_unicode(stream: object) -> bool:
    """Return whether the stream takes every character."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return codecs.lookup(encoding).name.startswith("utf")


def end(code: int) -> NoReturn:
    """End the process: by the signal, as shells expect it, where a signal is the reason."""
    if code in (INTERRUPTED, TERMINATED, HUNG_UP, READER_GONE):
        number = code - 128
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)  # the first process of a container survives this
    sys.exit(code)
