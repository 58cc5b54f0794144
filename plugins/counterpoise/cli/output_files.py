"""Where commands write files: as a whole or not at all.

    write_text(arguments.out, text, "plan")

A link stays, and the file that it leads to is written. Into a pipe (`--out >(jq .)`) or /dev/null
is written what would be in the file.
"""

import argparse
import contextlib
import gzip
import os
import secrets
from pathlib import Path
from typing import Final

from counterpoise.errors import StoreError

_FILE_MODE: Final = 0o640


def path_argument(text: str) -> Path:
    """Return the path of an argument. Raises ArgumentTypeError for none."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty; give the path of a file")
    if text == "-":  # elsewhere stdin or stdout; here it would be a file of that name
        raise argparse.ArgumentTypeError("- is no file; write /dev/stdin, /dev/stdout or ./-")
    return Path(text)


def write_text(path: Path, text: str, what: str) -> None:
    """Write a file as a whole or not at all; gzipped, without time stamp, when it ends in .gz.

    Owner and group may read it at most, the group where the umask lets it. Raises StoreError.
    """
    data = gzip.compress(text.encode(), mtime=0) if path.suffix == ".gz" else text.encode()
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
        else:
            _replace(Path(os.path.realpath(path)), data)
    except OSError as error:
        raise StoreError(f"{what} {path}: cannot be written ({error.strerror})") from None


def _replace(path: Path, data: bytes) -> None:
    part = path.with_name(f".{secrets.token_hex(4)}.part")
    try:
        handle = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _FILE_MODE)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        part.replace(path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
