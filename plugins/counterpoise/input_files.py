"""Reads files that a person or a setting names, never without an end.

    read_input(Path("state.json.gz"), "cluster document", MAX_DOCUMENT_BYTES, unpack=True)
    file_complaint(Path("/dev/zero"))     # before OpenSSL and librdkafka read certificates

A pipe is read, too (`--state <(jq ... x.json)`), as long as something comes. Devices without an
end and archives that unpack to more than the limit are refused, with one message.
"""

import os
import select
import stat
import zlib
from pathlib import Path
from typing import Final

from counterpoise.errors import InputError
from counterpoise.units import format_bytes

# Cluster documents, plans and reassignments, unpacked. A cluster of 1,000,000 partitions has a
# document of 55 MB; a move in a plan takes some 400 bytes.
MAX_DOCUMENT_BYTES: Final = 10**9
# Everything that people write by hand: PEM, tokens, addresses.
MAX_SETTINGS_BYTES: Final = 4 * 10**6
# YAML takes some 4 s for so much; 200 clusters with a policy each take a quarter of it.
MAX_YAML_BYTES: Final = 10**6
MAX_CERTIFICATES_BYTES: Final = 64 * 10**6  # lists of revoked ones are long
_BLOCK_BYTES: Final = 1 << 20
_PATIENCE_SECONDS: Final = 60.0  # with a pipe into which nobody writes
_GZIP: Final = 31  # zlib's name for gzip with its header and check sum


def read_input(path: Path, what: str, max_bytes: int, *, unpack: bool = False) -> bytearray:
    """Return what a file holds; `unpack` takes gzip out of one whose name ends in .gz.

    Raises InputError with `what` and the path, never with what is in the file.
    """
    where = f"{what} {path}".strip()
    try:
        data = _read(path, where, max_bytes)
        if unpack and path.suffix == ".gz":
            return _unpacked(data, where, max_bytes)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{where}: cannot be read ({reason})") from None
    return data


def read_input_text(path: Path, what: str, max_bytes: int, *, unpack: bool = False) -> str:
    """Return the text in a file, as `read_input` does. Raises InputError."""
    data = read_input(path, what, max_bytes, unpack=unpack)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        where = f"{what} {path}".strip()
        raise InputError(
            f"{where}: cannot be read (it is no text in UTF-8: {error.reason} at byte "
            f"{error.start})"
        ) from None


def file_complaint(path: Path) -> str | None:
    """Return why other programs, like OpenSSL, should not read certificates from there.

    None for files and folders, and where nothing is: whoever reads it says so.
    """
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        return "it is a device or a pipe, where a file was wanted"
    if stat.S_ISREG(found.st_mode) and found.st_size > MAX_CERTIFICATES_BYTES:
        return f"it is larger than {format_bytes(MAX_CERTIFICATES_BYTES)}"
    return None


def _read(path: Path, where: str, max_bytes: int) -> bytearray:
    """Read to the end. A pipe without a writer does not hold up the opening, only the reading."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb", buffering=0) as file:
        if stat.S_ISREG(os.fstat(handle).st_mode) and os.fstat(handle).st_size > max_bytes:
            raise _too_large(where, max_bytes)
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        data = bytearray()
        while len(data) <= max_bytes:
            if not waiting.poll(_PATIENCE_SECONDS * 1000):
                raise InputError(
                    f"{where}: nothing came out of this pipe for {_PATIENCE_SECONDS:.0f} s; "
                    "give a file, or start what writes into it"
                )
            block = file.read(_BLOCK_BYTES)
            if not block:
                return data
            data += block
    raise _too_large(where, max_bytes)


def _unpacked(data: bytearray, where: str, max_bytes: int) -> bytearray:
    """Return what gzip packed, all members of it; it stops at the limit, however much follows."""
    unpacked = bytearray()
    rest = bytes(data)
    while rest:
        member = zlib.decompressobj(wbits=_GZIP)
        unpacked += member.decompress(rest, max_bytes + 1 - len(unpacked))
        if len(unpacked) > max_bytes:
            raise _too_large(where, max_bytes)
        if not member.eof:
            raise EOFError("the archive ends in the middle")
        rest = member.unused_data.lstrip(b"\0")
    return unpacked


def _too_large(where: str, max_bytes: int) -> InputError:
    return InputError(f"{where}: it is larger than {format_bytes(max_bytes)}, and was not read")
