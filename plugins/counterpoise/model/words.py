"""Lists and counts in words, no longer than anybody reads.

    some([1, 2, 3])                         # "1, 2, 3"; of twenty the first twelve "and 8 more"
    few(["orders-0", "orders-1"])           # the same with names, which are longer: the first five
    many(2000, "partition")                 # "2,000 partitions"
    many(2, "address", "addresses")

Pure; what comes from clusters is escaped where it is shown.
"""

from collections.abc import Sequence
from typing import Final

MAX_IDS: Final = 12
MAX_NAMES: Final = 5


def join_ids(ids: Sequence[object]) -> str:
    """`1, 2, 3`, cut after the first twelve."""
    return _first(ids, MAX_IDS, len(ids))


def join_names(names: Sequence[object], count: int | None = None) -> str:
    """`orders-0, orders-1`, cut after the first five; `count` is their number where only the first
    are given.
    """
    return _first(names, MAX_NAMES, len(names) if count is None else count)


def pluralize(count: int, one: str, more: str = "") -> str:
    """`1 partition`, `2,000 partitions`; `more` where an s alone does not make the plural."""
    return f"{count:,} {one if count == 1 else more or f'{one}s'}"


def _first(values: Sequence[object], most: int, count: int) -> str:
    shown = ", ".join(map(str, values[:most]))
    return f"{shown} and {count - most:,} more" if count > most else shown
