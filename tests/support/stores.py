"""Stores that remember what was asked of them."""

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
