"""Reads files that a person or a setting names, never without an end.

    read_input(Path("state.json.gz"), "cluster document", DOCUMENTS, unpack=True)
    file_complaint(Path("/dev/zero"))     # before OpenSSL and librdkafka read certificates

A pipe is read, too (`--state <(jq ... x.json)`), as long as something comes. Devices without an
end and archives that unpack to more than the limit are refused, with one message.
"""

import logging
import os
import select
import stat
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterpoise.errors import InputError
from counterpoise.units import format_bytes

_BLOCK_BYTES: Final = 1 << 20
_PATIENCE_SECONDS: Final = 60.0  # with a pipe into which nobody writes
_UNNOTICED_SECONDS: Final = 2.0  # of them, before a message says what is waited for
_DEADLINE_SECONDS: Final = 600.0  # for all that a pipe gives
_LOGGER: Final = logging.getLogger(__name__)
_GZIP: Final = 31  # zlib's name for gzip with its header and check sum


@dataclass(frozen=True, slots=True)
class InputLimits:
    """How large inputs may be, in bytes: `inputs` of the settings, with its defaults."""

    # Unpacked. A cluster of 1,000,000 partitions has a document of 55 MB; a move in a plan takes
    # some 400 bytes.
    max_document: int = 10**9
    max_certificates: int = 64 * 10**6  # lists of revoked ones are long
    # YAML takes some 4 s for so much.
    max_connections: int = 10**6


@dataclass(frozen=True, slots=True)
class SizeLimit:
    """Of one kind of input: a key of `inputs` in the settings, or a number where no key can be."""

    key: str = ""
    fixed_bytes: int = 0

    @property
    def max_bytes(self) -> int:
        if not self.key:
            return self.fixed_bytes
        limit: int = getattr(_limits_in_force(), self.key)
        return limit

    def is_exceeded_by(self, size_bytes: int) -> bool:
        """Return whether it is too much. The settings are read only for what may be."""
        if self.key and size_bytes <= MIN_LIMIT_BYTES:
            return False
        return size_bytes > self.max_bytes

    @property
    def complaint(self) -> str:
        complaint = f"it is larger than {format_bytes(self.max_bytes)}"
        if not self.key:
            return complaint
        return f"{complaint} (inputs.{self.key} in clusters.yaml allows more)"


MIN_LIMIT_BYTES: Final = 10**6  # no lower one can be set
DOCUMENTS: Final = SizeLimit("max_document")  # of clusters, plans, reassignments
CERTIFICATES: Final = SizeLimit("max_certificates")
CONNECTIONS: Final = SizeLimit("max_connections")
# clusters.yaml, which cannot say how large it may be itself; 200 clusters with a policy each take a
# quarter of it.
CLUSTERS: Final = SizeLimit(fixed_bytes=10**6)
# Where one line is wanted: a URL, a token.
ONE_LINE: Final = SizeLimit(fixed_bytes=4 * 10**6)
_limits_in_force: Callable[[], InputLimits] = InputLimits


def use_limits(read_limits: Callable[[], InputLimits]) -> None:
    """Let the settings of this process say how large inputs may be, once one may be too large."""
    global _limits_in_force  # whoever reads a file cannot know the settings
    _limits_in_force = read_limits


def read_input(path: Path, what: str, limit: SizeLimit, *, unpack: bool = False) -> bytearray:
    """Return what a file holds; `unpack` takes gzip out of one whose name ends in .gz.

    Raises InputError with `what` and the path, never with what is in the file.
    """
    where = f"{what} {path}".strip()
    try:
        data = _read(path, where, limit)
        if unpack and path.suffix == ".gz":
            return _unpacked(data, where, limit)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{where}: cannot be read ({reason})") from None
    return data


def read_input_text(path: Path, what: str, limit: SizeLimit, *, unpack: bool = False) -> str:
    """Return the text in a file, as `read_input` does. Raises InputError."""
    data = read_input(path, what, limit, unpack=unpack)
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
    if stat.S_ISREG(found.st_mode) and CERTIFICATES.is_exceeded_by(found.st_size):
        return CERTIFICATES.complaint
    return None


def _read(path: Path, where: str, limit: SizeLimit) -> bytearray:
    """Read to the end. A pipe without a writer does not hold up the opening, only the reading."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb", buffering=0) as file:
        found = os.fstat(handle)
        if stat.S_ISREG(found.st_mode) and limit.is_exceeded_by(found.st_size):
            raise _too_large(where, limit)
        deadline = time.monotonic() + _DEADLINE_SECONDS
        data = bytearray()
        while not limit.is_exceeded_by(len(data)):
            _wait_for_data(handle, where, deadline)
            block = file.read(_BLOCK_BYTES)
            if not block:
                return data
            data += block
    raise _too_large(where, limit)


def _wait_for_data(handle: int, where: str, deadline: float) -> None:
    """Wait until a pipe has something, or its end; files always have. Raises InputError."""
    if time.monotonic() > deadline:
        raise InputError(
            f"{where}: this pipe was still being written after {_DEADLINE_SECONDS:.0f} s; give a "
            "file"
        )
    waiting = select.poll()
    waiting.register(handle, select.POLLIN)
    unnoticed_seconds = min(_UNNOTICED_SECONDS, _PATIENCE_SECONDS)
    if waiting.poll(unnoticed_seconds * 1000):
        return
    _LOGGER.warning(
        "%r: nothing comes out of this pipe yet: waiting for up to %.0f s",
        where,
        _PATIENCE_SECONDS,
    )
    if not waiting.poll((_PATIENCE_SECONDS - unnoticed_seconds) * 1000):
        raise InputError(
            f"{where}: nothing came out of this pipe for {_PATIENCE_SECONDS:.0f} s; "
            "give a file, or start what writes into it"
        )


def _unpacked(data: bytearray, where: str, limit: SizeLimit) -> bytearray:
    """Return what gzip packed, all members of it; it stops at the limit, however much follows."""
    unpacked = bytearray()
    rest = bytes(data)
    max_bytes = limit.max_bytes
    while rest:
        member = zlib.decompressobj(wbits=_GZIP)
        unpacked += member.decompress(rest, max_bytes + 1 - len(unpacked))
        if len(unpacked) > max_bytes:
            raise _too_large(where, limit)
        if not member.eof:
            raise EOFError("the archive ends in the middle")
        rest = member.unused_data.lstrip(b"\0")
    return unpacked


def _too_large(where: str, limit: SizeLimit) -> InputError:
    return InputError(f"{where}: {limit.complaint}, and was not read")
