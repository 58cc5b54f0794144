"""Where commands write files: as a whole or not at all, never in the place of a device.

    add_output_argument(parser, "--out", metavar="PLAN.json", help="write the plan here")
    write_text(arguments.out, text, "plan")

A link stays, and the file that it leads to is written. Into a pipe (`--out >(jq .)`), a terminal or
/dev/null is written what would be in the file. All else that is no file is refused.
"""

import argparse
import contextlib
import errno
import gzip
import os
import secrets
import select
import stat
from pathlib import Path
from typing import Any, Final

from counterpoise.errors import InputError, StoreError

_FILE_MODE: Final = 0o640
_OUTPUTS: Final = "output_files"  # the attribute of the arguments that names the other ones
_PATIENCE_SECONDS: Final = 60.0  # with a pipe that nobody reads


def add_output_argument(
    parser: "argparse._ActionsContainer", option: str, **options: Any
) -> argparse.Action:
    """Add an option whose value is a file to write."""
    action = parser.add_argument(option, type=path_argument, **options)
    earlier = parser.get_default(_OUTPUTS) or ()
    parser.set_defaults(**{_OUTPUTS: (*earlier, (option, action.dest))})
    return action


def path_argument(text: str) -> Path:
    """Return the path of an argument. Raises ArgumentTypeError for none."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty; give the path of a file")
    if text == "-":  # elsewhere stdin or stdout; here it would be a file of that name
        raise argparse.ArgumentTypeError("- is no file; write /dev/stdin, /dev/stdout or ./-")
    return Path(text)


def check_outputs(arguments: argparse.Namespace) -> None:
    """Raise InputError where one file would be written twice, or over what is read."""
    options = dict(getattr(arguments, _OUTPUTS, ()))
    used: dict[str, str] = {}
    for name, value in vars(arguments).items():
        if isinstance(value, Path) and name not in options.values():
            used[_real(value)] = str(value)
    for option, name in options.items():
        path = getattr(arguments, name)
        if path is None or _is_special(path):
            continue
        if (other := used.get(_real(path))) is not None:
            raise InputError(f"{option} {path}: {other} is the same file; give another name")
        used[_real(path)] = f"{option} {path}"


def write_text(path: Path, text: str, what: str) -> None:
    """Write a file as a whole or not at all; gzipped, without time stamp, when it ends in .gz.

    Owner and group may read it at most, the group where the umask lets it. Raises InputError for
    what is no file, StoreError.
    """
    data = gzip.compress(text.encode(), mtime=0) if path.suffix == ".gz" else text.encode()
    try:
        if _is_special(path):
            _write_into(path, data, what)
        else:
            _replace(Path(_real(path)), data)
    except OSError as error:
        raise StoreError(f"{what} {path}: cannot be written ({error.strerror})") from None


def _real(path: Path) -> str:
    return os.path.realpath(path)


def _is_special(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except OSError:
        return False  # nothing is there, or writing says why it cannot be
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _replace(path: Path, data: bytes) -> None:
    if path.is_dir():
        raise IsADirectoryError(None, "it is a folder")
    part = path.with_name(f".{secrets.token_hex(4)}.part")
    try:
        handle = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _FILE_MODE)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        part.replace(path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _write_into(path: Path, data: bytes, what: str) -> None:
    mode = path.stat().st_mode
    if not stat.S_ISFIFO(mode) and not stat.S_ISCHR(mode):
        raise InputError(f"{what} {path}: it is a disk or a socket, where a file was wanted")
    handle = _open_for_writing(path, what)
    try:
        writable = select.poll()
        writable.register(handle, select.POLLOUT)
        rest = memoryview(data)
        while rest:
            if not writable.poll(_PATIENCE_SECONDS * 1000):
                raise TimeoutError(None, f"nobody read this pipe for {_PATIENCE_SECONDS:.0f} s")
            rest = rest[os.write(handle, rest) :]
    finally:
        os.close(handle)


def _open_for_writing(path: Path, what: str) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        raise InputError(
            f"{what} {path}: nobody reads this pipe; start what reads it, then type this again"
        ) from None
