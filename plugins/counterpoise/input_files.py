"""Reads files that a person or a setting names, up to a size.

    read_input(Path("state.json.gz"), "cluster document", DOCUMENTS, unpack=True)
    file_complaint(Path("ca.pem"))     # before OpenSSL and librdkafka read certificates

What is larger than its limit is refused with one message, also where it is so unpacked.
"""

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterpoise.errors import InputError
from counterpoise.units import format_bytes

_BLOCK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class SizeLimit:
    """How large one kind of input may be."""

    max_bytes: int

    def is_exceeded_by(self, size_bytes: int) -> bool:
        return size_bytes > self.max_bytes

    @property
    def complaint(self) -> str:
        return f"it is larger than {format_bytes(self.max_bytes)}"


# Documents of clusters, plans, reassignments, unpacked. A cluster of 1,000,000 partitions has a
# document of 55 MB; a move in a plan takes some 400 bytes.
DOCUMENTS: Final = SizeLimit(10**9)
CERTIFICATES: Final = SizeLimit(64 * 10**6)  # lists of revoked ones are long
CONNECTIONS: Final = SizeLimit(10**6)  # YAML takes some 4 s for so much
CLUSTERS: Final = SizeLimit(10**6)  # 200 clusters with a policy each take a quarter of it
ONE_LINE: Final = SizeLimit(4 * 10**6)  # a URL, a token


def read_input(path: Path, what: str, limit: SizeLimit, *, unpack: bool = False) -> bytearray:
    """Return what a file holds; `unpack` takes gzip out of one whose name ends in .gz.

    Raises InputError with `what` and the path, never with what is in the file.
    """
    where = f"{what} {path}".strip()
    try:
        return _read(path, where, limit, is_packed=unpack and path.suffix == ".gz")
    except (OSError, EOFError, zlib.error, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{where}: cannot be read ({reason})") from None


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
    """Return why OpenSSL and librdkafka should not read certificates from there, if so.

    None where nothing is: whoever reads it says so.
    """
    try:
        size_bytes = path.stat().st_size
    except (OSError, ValueError):
        return None
    return CERTIFICATES.complaint if CERTIFICATES.is_exceeded_by(size_bytes) else None


def _read(path: Path, where: str, limit: SizeLimit, *, is_packed: bool) -> bytearray:
    data = bytearray()
    with gzip.open(path) if is_packed else path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            data += block
            if limit.is_exceeded_by(len(data)):
                raise InputError(f"{where}: {limit.complaint}, and was not read")
    return data
