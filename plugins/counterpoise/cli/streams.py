"""What a process has on its way in and out: stdin, stdout, stderr, and signals.

    with prepared_streams():
        code = main(sys.argv[1:])
    end(code)

Text that the terminal cannot show is shown in other characters. An stdout that cannot be written is
OutputError; one whose reader has gone, like `head`, is OutputClosedError. Output is never an error
of the code that prints. A stream that was closed (`>&-`) is /dev/null: otherwise the next file that
is opened would get its number, and what is printed.
"""

import codecs
import contextlib
import io
import logging
import os
import select
import signal
import sys
from collections.abc import Iterator
from typing import Final, NoReturn, TextIO

from counterpoise.errors import CounterpoiseError

INTERRUPTED: Final = 128 + signal.SIGINT
TERMINATED: Final = 128 + signal.SIGTERM
READER_GONE: Final = 128 + signal.SIGPIPE
_PLAIN: Final = {"█": "#", "░": ".", "→": ">", "×": "x", "−": "-", "…": "."}
_PLAIN_ERRORS: Final = "counterpoise.plain"


class Terminated(KeyboardInterrupt):  # like KeyboardInterrupt, it is no error
    """SIGTERM: what is under way ends as after Ctrl-C, with another exit code."""


class OutputError(CounterpoiseError):
    """Stdout cannot be written, since its disk is full, say."""


class OutputClosedError(OutputError):
    """Whoever read stdout has ended, like `head`."""

    exit_code = READER_GONE


class _Output(io.FileIO):
    """The bytes of stdout or stderr; after a failure all that follows is dropped."""

    def __init__(self, handle: int, *, raises: bool) -> None:
        super().__init__(handle, "w", closefd=False)
        self._raises = raises
        self._is_broken = False

    def write(self, data: object) -> int:
        size = len(memoryview(data))  # type: ignore[arg-type] # bytes of any kind
        try:
            while not self._is_broken:
                written = super().write(data)  # type: ignore[arg-type]
                if written is not None:  # None: somebody made it non-blocking, and it is full
                    return written
                select.select([], [self], [])
        except OSError as error:
            self._is_broken = True
            if self._raises and isinstance(error, BrokenPipeError):
                raise OutputClosedError("stdout was closed by its reader") from None
            if self._raises:
                raise OutputError(f"stdout cannot be written ({error.strerror})") from None
        return size


def _plain_characters(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError), "only what is written is replaced"
    text = error.object[error.start : error.end]
    return "".join(_PLAIN.get(character, "?") for character in text), error.end


@contextlib.contextmanager
def prepared_streams() -> Iterator[None]:
    """Replace the three streams, and turn SIGTERM into Terminated; a second signal ends at once."""
    codecs.register_error(_PLAIN_ERRORS, _plain_characters)
    _open_closed_streams()
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: PTH123, SIM115 # for the whole process
    sys.stdout = _stream(1, sys.stdout, raises=True)
    sys.stderr = _stream(2, sys.stderr, raises=False)
    signal.signal(signal.SIGINT, _interrupt)
    signal.signal(signal.SIGTERM, _interrupt)
    sys.unraisablehook = _end_if_interrupted
    yield
    sys.stdout.flush()


def _open_closed_streams() -> None:
    for handle in (0, 1, 2):
        try:
            os.fstat(handle)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number, which is this one


def _stream(handle: int, before: TextIO | None, *, raises: bool) -> io.TextIOWrapper:
    raw = _Output(handle, raises=raises)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=getattr(before, "encoding", None) or "utf-8",
        errors=_PLAIN_ERRORS,
        line_buffering=handle == 2 or raw.isatty(),
    )


def _interrupt(number: int, _frame: object) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # It would log this very exception, where it closes a connection just now.
    logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


def _end_if_interrupted(dropped: "sys.UnraisableHookArgs") -> None:
    """End the process where the exception of a signal came up while an object was deleted.

    Python drops such an exception, and a command that waits would wait for ever.
    """
    if isinstance(dropped.exc_value, KeyboardInterrupt):
        end(code_of(dropped.exc_value))
    sys.__unraisablehook__(dropped)


def code_of(signal: KeyboardInterrupt) -> int:
    """Return the exit code after Ctrl-C or SIGTERM."""
    return TERMINATED if isinstance(signal, Terminated) else INTERRUPTED


def is_unicode(stream: object) -> bool:
    """Return whether the stream takes every character."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return codecs.lookup(encoding).name.startswith("utf")


def end(code: int) -> NoReturn:
    """End the process: by the signal, as shells expect it, where a signal is the reason."""
    if code in (INTERRUPTED, TERMINATED, READER_GONE):
        number = code - 128
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)  # the first process of a container survives this
    sys.exit(code)
