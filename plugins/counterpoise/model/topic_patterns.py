"""Topic patterns: names in which `*` stands for any text and `?` for one character."""

import re
from collections.abc import Iterable
from fnmatch import translate


def matching(patterns: Iterable[str], topics: Iterable[str]) -> frozenset[str]:
    """Return the topics that any of the patterns matches."""
    any_pattern = re.compile("|".join(map(translate, patterns)) or r"(?!)")
    return frozenset(topic for topic in topics if any_pattern.match(topic))
