"""Lists and counts in words: where they are cut, and what an s does not make many of."""

import pytest

from counterpoise.model.words import few, many, some


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (some([]), ""),
        (some((1, 2, 3)), "1, 2, 3"),
        (some(range(12)), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11"),
        (some(range(13)), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 1 more"),
        (few("abcde"), "a, b, c, d, e"),
        (few("abcdef"), "a, b, c, d, e and 1 more"),
        (few("abcde", 60_000), "a, b, c, d, e and 59,995 more"),
        (few("ab", 2), "a, b"),
        (many(0, "partition"), "0 partitions"),
        (many(1, "partition"), "1 partition"),
        (many(2_000, "partition"), "2,000 partitions"),
        (many(1, "address", "addresses"), "1 address"),
        (many(2, "address", "addresses"), "2 addresses"),
    ],
)
def test_lists_are_cut_and_counts_have_their_noun(said: str, expected: str) -> None:
    assert said == expected
