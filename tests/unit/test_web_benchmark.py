"""The benchmark of the pages: each of them answers, over a fleet that is made for it."""

from pathlib import Path

from benchmarks.pages import make_fleet, measure, pages_of


def test_every_page_answers(tmp_path: Path) -> None:
    made = make_fleet(tmp_path, clusters=3, snapshots=30, moves=1_200)
    found = list(measure(made.pages, pages_of(made), repeats=1))
    assert {timed.path for timed in found} == set(pages_of(made))
    for timed in found:
        assert timed.size_bytes > (100 if "/api/" in timed.path else 1_000), timed.path
