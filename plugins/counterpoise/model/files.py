"""What a store tells of a file.

StoredFile("plans/abc.json", 1234, modified_at)
"""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class StoredFile:
    """`path` is relative to the store; `modified_at` (UTC) is None where the store does not tell."""

    path: str
    size_bytes: int
    modified_at: datetime | None
