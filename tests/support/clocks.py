"""A clock that a test sets.

clock = Clock()
clock.now += timedelta(hours=24)
"""

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass
class Clock:
    now: datetime = datetime(2026, 11, 30, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now
