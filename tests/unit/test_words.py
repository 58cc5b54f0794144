"""Lists and counts in words: where they are cut, and what an s does not make many of."""

import pytest

from counterpoise.model.words import (
    join_ids,
    join_names,
    list_brokers,
    name_brokers,
    pluralize,
    verb,
)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (join_ids([]), ""),
        (join_ids((1, 2, 3)), "1, 2, 3"),
        (join_ids(range(12)), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11"),
        (join_ids(range(13)), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 1 more"),
        (join_names("abcde"), "a, b, c, d, e"),
        (join_names("abcdef"), "a, b, c, d, e and 1 more"),
        (join_names("abcde", 60_000), "a, b, c, d, e and 59,995 more"),
        (join_names("ab", 2), "a, b"),
        (name_brokers([7]), "broker 7"),
        (name_brokers(range(14)), "brokers 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13"),
        (list_brokers([7]), "broker 7"),
        (list_brokers(range(14)), "brokers 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more"),
        (pluralize(0, "partition"), "0 partitions"),
        (pluralize(1, "partition"), "1 partition"),
        (pluralize(2_000, "partition"), "2,000 partitions"),
        (pluralize(1, "address", "addresses"), "1 address"),
        (pluralize(2, "address", "addresses"), "2 addresses"),
        (verb(0, "has", "have"), "have"),
        (verb(1, "has", "have"), "has"),
        (verb(2, "has", "have"), "have"),
    ],
)
def test_lists_are_cut_and_counts_have_their_noun(said: str, expected: str) -> None:
    assert said == expected
