"""A file in a store, as its listing describes it.

StoredFile("plans/abc.json", 1234, modified_at)
"""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class StoredFile:
    """`path` is relative to the store; `modified_at` (UTC) is None where it is not known."""

    path: str
    size_bytes: int
    modified_at: datetime | None
