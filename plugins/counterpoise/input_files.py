"""Reads files that a person or a setting names, up to a size.

    read_input(Path("state.json.gz"), "cluster document", DOCUMENTS, unpack=True)
    file_complaint(Path("ca.pem"))     # before OpenSSL and librdkafka read certificates

What is larger than its limit is refused with one message, also where it is so unpacked.
"""

import codecs
import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterpoise.errors import InputError
from counterpoise.units import format_bytes

_BLOCK_BYTES: Final = 1 << 20
_MARK: Final = "\ufeff"  # which some editors put before a text
_GZIP: Final = b"\x1f\x8b"  # how each gzipped file begins


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
    """Return what a file holds; `unpack` takes gzip out of it, whatever its name.

    Raises InputError with `what` and the path, never with what is in the file.
    """
    where = f"{what} {path}".strip()
    try:
        return _read(path, where, limit, unpack=unpack)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{where}: cannot be read ({reason})") from None


def read_input_text(path: Path, what: str, limit: SizeLimit, *, unpack: bool = False) -> str:
    """Return the text in a file, as `read_input` does. Raises InputError.

    The marks that editors and PowerShell put before a text say that it is UTF-16, or UTF-8.
    """
    data = read_input(path, what, limit, unpack=unpack)
    is_utf_16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding = "UTF-16" if is_utf_16 else "UTF-8"
    try:
        return data.decode(encoding).removeprefix(_MARK)
    except UnicodeDecodeError as error:
        where = f"{what} {path}".strip()
        raise InputError(
            f"{where}: cannot be read (it is no text in {encoding}: {error.reason} at byte "
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


def _read(path: Path, where: str, limit: SizeLimit, *, unpack: bool) -> bytearray:
    data = bytearray()
    with path.open("rb") as file:
        is_packed = unpack and (path.suffix == ".gz" or file.peek(len(_GZIP)).startswith(_GZIP))
        content = gzip.GzipFile(fileobj=file) if is_packed else file
        while block := content.read(_BLOCK_BYTES):
            data += block
            if limit.is_exceeded_by(len(data)):
                raise InputError(f"{where}: {limit.complaint}, and was not read")
    return data
