"""The benchmark of the pages: each of them answers, over a fleet that is made for it."""

from pathlib import Path

from benchmarks.pages import make_fleet, measure, pages_of


def test_every_page_answers(tmp_path: Path) -> None:
    pages = make_fleet(tmp_path, clusters=3, snapshots=30)
    found = list(measure(pages, pages_of("cluster-000"), repeats=1))
    assert {timed.path for timed in found} == set(pages_of("cluster-000"))
    assert all(timed.size_bytes > 1_000 for timed in found)
