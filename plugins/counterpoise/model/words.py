"""Lists and counts in words, no longer than anybody reads.

    join_ids([1, 2, 3])                        # "1, 2, 3"; of twenty the first 12 "and 8 more"
    join_names(["orders-0", "orders-1"])       # names are longer: the first five
    name_brokers([7, 8])                       # "brokers 7, 8", however many they are
    list_brokers([7, 8])                       # the same, cut after the first 12
    pluralize(2000, "partition")               # "2,000 partitions"
    pluralize(2, "address", "addresses")
    agree(1, "need{s} as many as {they} {has}")    # "needs as many as it has"
    f"{count} of 8 brokers {verb(count, 'is', 'are')} fenced"

Pure; what comes from clusters is escaped where it is shown.
"""

from collections.abc import Sequence
from typing import Final

MAX_IDS: Final = 12
MAX_NAMES: Final = 5


def join_ids(ids: Sequence[object]) -> str:
    """Return `1, 2, 3`, cut after the first twelve."""
    return _first(ids, MAX_IDS, len(ids))


def join_names(names: Sequence[object], count: int | None = None) -> str:
    """Return `orders-0, orders-1`, cut after the first five.

    `count` is the number of all names, where only the first of them are given.
    """
    return _first(names, MAX_NAMES, len(names) if count is None else count)


def name_brokers(broker_ids: Sequence[int]) -> str:
    """Return `broker 7` or `brokers 7, 8`, all of them."""
    return f"{verb(len(broker_ids), 'broker', 'brokers')} {', '.join(map(str, broker_ids))}"


def list_brokers(broker_ids: Sequence[int]) -> str:
    """Return `broker 7` or `brokers 7, 8`, cut after the first twelve."""
    return f"{verb(len(broker_ids), 'broker', 'brokers')} {join_ids(broker_ids)}"


def pluralize(count: int, singular: str, plural: str = "") -> str:
    """Return `1 partition` or `2,000 partitions`; `plural` is needed where an s does not do."""
    return f"{count:,} {singular if count == 1 else plural or f'{singular}s'}"


def capitalized(sentence: str) -> str:
    """Return a sentence that begins with a capital letter."""
    return sentence[:1].upper() + sentence[1:]


def verb(count: int, one: str, more: str) -> str:
    """Return the form of a verb (`has` or `have`) that follows `count` things."""
    return one if count == 1 else more


_FORMS_FOR_ONE: Final = {
    "is": "is",
    "has": "has",
    "s": "s",
    "they": "it",
    "them": "it",
    "their": "its",
}
_FORMS_FOR_SEVERAL: Final = {
    "is": "are",
    "has": "have",
    "s": "",
    "they": "they",
    "them": "them",
    "their": "their",
}


def agree(count: int, sentence: str) -> str:
    """Return a sentence about `count` things in their number.

    "need{s} as many as {they} {has}" is "needs as many as it has" of one.
    """
    return sentence.format(**(_FORMS_FOR_ONE if count == 1 else _FORMS_FOR_SEVERAL))


def _first(values: Sequence[object], max_shown: int, count: int) -> str:
    shown = ", ".join(map(str, values[:max_shown]))
    return f"{shown} and {count - max_shown:,} more" if count > max_shown else shown
