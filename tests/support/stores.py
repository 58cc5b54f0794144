"""Stores that remember what was asked of them, and files that are damaged."""

from random import Random
from typing import Any

from counterpoise.storage import Store


class ReadingStore(Store):
    """Remembers which files were read, in their order."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.read_paths: list[str] = []

    def read_bytes(self, path: str, **limits: Any) -> bytes:
        self.read_paths.append(path)
        return super().read_bytes(path, **limits)


def damaged(parquet: bytes, seed: int | None = None) -> bytes:
    """Return a Parquet file of which nothing but the footer is sound, or with one other bit."""
    rows = len(parquet) - int.from_bytes(parquet[-8:-4], "little") - 8
    changed = bytearray(parquet)
    if seed is None:
        changed[4:rows] = b"\xff" * (rows - 4)
    else:
        random = Random(seed)
        changed[random.randrange(4, rows)] ^= 1 << random.randrange(8)
    return bytes(changed)
