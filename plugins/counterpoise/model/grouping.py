"""Values by their key.

grouped([("a", 1), ("b", 2), ("a", 3)])      # {"a": [1, 3], "b": [2]}
"""

from collections.abc import Iterable
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Return the values of each key; keys and values are in the order of the pairs."""
    values: dict[Key, list[Value]] = {}
    for key, value in pairs:
        values.setdefault(key, []).append(value)
    return values
