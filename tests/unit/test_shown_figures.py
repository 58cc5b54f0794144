"""The figures of a cluster over a period that somebody chooses: those of the report, written
nowhere, read once for each analysis.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from counterpoise.installation import Installation
from counterpoise.services import reports, shown_figures
from tests.support.pages import Pages
from tests.support.series import Story, story
from tests.support.written_history import write_history

HOURS = 24 * 40


@pytest.fixture(scope="module")
def told() -> Story:
    return story(brokers=3, snapshots=HOURS)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, told: Story) -> Pages:
    folder = tmp_path_factory.mktemp("shown")
    made = Pages.in_folder(folder, "clusters: {demo: {connection: a}, other: {connection: a}}")
    made = replace(made, now=told.times[-1] + timedelta(minutes=20))
    with made.installation() as installation:
        write_history(installation, told)
    return made


@pytest.fixture
def installation(pages: Pages) -> Iterator[Installation]:
    with pages.installation(for_pages=True) as installation:
        yield installation


def files(installation: Installation) -> set[str]:
    folder = Path(installation.locations.store)
    return {f"{path} {path.stat().st_mtime_ns}" for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("period", "days"), [("24h", 1), ("7d", 7), ("30d", 30)])
def test_a_period_ends_with_the_newest_snapshot_and_nothing_is_written(
    period: str, days: int, installation: Installation, told: Story
) -> None:
    before = files(installation)
    shown = shown_figures.shown_figures(installation, "demo", period, with_load=True)
    assert shown is not None and shown.load is not None
    newest = told.times[-1]
    expected = [at for at in told.times if at >= newest - timedelta(days=days)]
    assert len(shown.balance.series) == len(expected)
    assert shown.balance.latest.observed_at == newest
    assert (shown.balance.before is not None) == (days < 30)
    assert files(installation) == before


def test_it_is_read_once_until_a_report_is_written(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = shown_figures.shown_figures(installation, "demo", "7d", with_load=False)
    again = shown_figures.shown_figures(installation, "demo", "7d", with_load=False)
    assert first is again and first is not None
    reports.report_balance(installation, "demo")
    later = shown_figures.shown_figures(installation, "demo", "7d", with_load=False)
    assert later is not first and later is not None
    assert later.balance.latest == first.balance.latest


def test_a_view_that_is_gone_is_made_by_the_analysis_not_by_a_page(
    installation: Installation, told: Story
) -> None:
    store = installation.archive.store
    store.write_text("reports/other/leader-balance.json", "{}")
    before = files(installation)
    assert shown_figures.shown_figures(installation, "other", "7d", with_load=True) is None
    assert files(installation) == before
    store.delete_folder("reports/other/")


def test_before_the_first_report_there_is_nothing(installation: Installation) -> None:
    assert shown_figures.shown_figures(installation, "other", "7d", with_load=True) is None


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("balance", ("Preferred leaders", "Max − min over the live brokers", "Every broker")),
        ("load", ("Bytes in per broker, as leader", "When disks are full", "orders.events-0")),
    ],
)
def test_a_tab_shows_the_period_that_is_chosen(
    part: str, words: tuple[str, ...], pages: Pages, told: Story
) -> None:
    with pages.browser() as browser:
        usual = browser.get(f"/clusters/demo/{part}").text
        month = browser.get(f"/clusters/demo/{part}?period=30d").text
        odd = browser.get(f"/clusters/demo/{part}?period=%3Cb%3E").text
        nothing = browser.get(f"/clusters/other/{part}").text
    for word in words:
        assert word in usual and word in month
    assert 'period=7d" aria-current="true"' in usual and 'period=30d" aria-current="true"' in month
    assert "169 snapshots since" in usual and "169 snapshots since" not in month
    assert odd.count("snapshots since") == usual.count("snapshots since")
    assert "No analysis yet" in nothing
    for page in (usual, month):
        assert "style=" not in page.partition("<main")[2] and len(page.encode()) < 300_000
