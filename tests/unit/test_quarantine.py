"""Bad snapshots never join the history and are never planned on; a real loss is accepted."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from counterpoise.errors import RefusedError
from counterpoise.installation import Installation
from counterpoise.kafka_admin.cluster_admin import ClusterAdmin
from counterpoise.kafka_admin.connection import ConnectionSettings
from counterpoise.model.request import Goal, RebalanceRequest
from counterpoise.services import plans, snapshots
from counterpoise.validation import BadSnapshotError, DataCheck
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.contradictions import name_a_broker_twice
from tests.support.decisions import ALICE
from tests.support.installations import DEMO, installation_over
from tests.support.pictures import simulated
from tests.support.planned_runs import planned_run

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
RACKS = "1=a 2=b 3=c"


def topics(count: int) -> str:
    return "\n".join(f"topic{number:02d}-0: 1 2 size=100" for number in range(count))


@dataclass
class Place:
    """An installation over one simulated cluster, with a clock that a test sets."""

    folder: Path
    kafka: SimulatedCluster = field(default_factory=lambda: simulated(topics(20), racks=RACKS))
    now: datetime = NOON
    history: str = "{}"

    def installation(self) -> Installation:
        clusters = f"{DEMO}    policy:\n      history: {self.history}\n"
        return installation_over(
            self.folder, self._connect, clusters=clusters, clock=lambda: self.now
        )

    def _connect(self, _settings: ConnectionSettings) -> ClusterAdmin:
        return self.kafka

    def snapshot(self, after: timedelta = timedelta()) -> str:
        self.now = NOON + after
        with self.installation() as installation:
            return snapshots.make(installation, "demo", self.now)["snapshot_id"]

    def is_refused(self, after: timedelta) -> str:
        with pytest.raises(BadSnapshotError) as refused:
            self.snapshot(after)
        return str(refused.value)

    def has(self, count: int) -> None:
        """From now on, the cluster shows so many topics."""
        self.kafka = simulated(topics(count), racks=RACKS)

    def in_history(self) -> list[str]:
        with self.installation() as installation:
            return list(installation.archive.manifests(["demo"])["snapshot_id"].to_pylist())


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Great Expectations is left out: the last test here has it."""

    def check(*_: object, docs: Path) -> DataCheck:
        (docs / "index.html").write_text("<p>docs</p>")
        return DataCheck(success=False, failures=())

    monkeypatch.setattr(snapshots, "check_snapshot_data", check)
    yield Place(tmp_path)


def test_a_cluster_that_lost_more_than_half_of_its_topics_is_quarantined(place: Place) -> None:
    good = place.snapshot()
    place.has(9)
    message = place.is_refused(HOUR)
    assert (
        "topics: has at least 50 % of the rows before: 9 now, 20 in demo-20260131T120000Z"
        in message
    )
    aside = place.folder / "store/aside/demo/demo-20260131T130000Z"
    assert str(aside) in message
    assert f"{aside}/data-docs/index.html" in message
    assert place.in_history() == [good]
    assert not list((place.folder / "store/history").rglob("*T130000Z*")), (
        "nothing of it lies where Spark looks"
    )
    reason = json.loads((aside / "reason.json").read_text())
    assert reason["row_counts"]["topics"] == 9
    assert reason["compared_with"] == good
    assert (aside / "partitions.parquet").is_file()
    with place.installation() as installation:
        assert installation.ledger.last_snapshot_id("demo") == good


def test_a_cluster_that_was_built_anew_is_not_compared_with_the_one_before(place: Place) -> None:
    place.snapshot()
    with place.installation() as installation:
        snapshot = snapshots.fresh_snapshot(installation, "demo", place.now)
        assert snapshots.counts_before(installation, snapshot) is not None
        assert (
            snapshots.counts_before(installation, replace(snapshot, cluster_id="another")) is None
        )


def test_a_glitch_passes_and_the_next_snapshot_is_compared_with_the_last_good_one(
    place: Place,
) -> None:
    place.snapshot()
    place.has(5)
    place.is_refused(HOUR)
    place.has(20)
    assert place.snapshot(2 * HOUR) in place.in_history()
    place.has(5)
    assert "20 in demo-20260131T140000Z" in place.is_refused(3 * HOUR)
    place.is_refused(4 * HOUR)
    assert place.snapshot(5 * HOUR) in place.in_history(), (
        "the one before the good one did not count"
    )


def test_half_is_still_enough_and_so_is_anything_on_a_small_cluster(place: Place) -> None:
    place.snapshot()
    place.has(10)
    place.snapshot(HOUR)
    place.has(9)
    place.snapshot(2 * HOUR)
    place.has(1)
    place.snapshot(3 * HOUR)
    assert len(place.in_history()) == 4


def test_a_policy_may_say_that_nothing_is_compared(place: Place) -> None:
    place.history = "{least_share_of_previous_percent: 0}"
    place.snapshot()
    place.has(1)
    place.snapshot(HOUR)


def test_a_loss_that_three_snapshots_in_a_row_show_is_accepted(place: Place) -> None:
    place.snapshot()
    place.has(8)
    assert "accepted once 3 snapshots in a row show it" in place.is_refused(HOUR)
    place.is_refused(2 * HOUR)
    assert place.snapshot(3 * HOUR) in place.in_history()
    place.snapshot(4 * HOUR)


def test_attempts_in_quick_succession_see_one_hiccup(place: Place) -> None:
    place.snapshot()
    place.has(8)
    for minutes in range(9):
        place.is_refused(HOUR + minutes * MINUTE)
    place.snapshot(HOUR + 10 * MINUTE)


def test_the_same_snapshot_again_is_not_counted_twice(place: Place) -> None:
    place.snapshot()
    place.has(8)
    for _ in range(4):
        place.is_refused(HOUR)


def test_losses_that_go_on_begin_the_count_again(place: Place) -> None:
    place.snapshot()
    place.has(9)
    place.is_refused(HOUR)
    place.has(1)
    place.is_refused(2 * HOUR)
    place.has(9)
    place.is_refused(3 * HOUR)
    place.is_refused(4 * HOUR)
    place.snapshot(5 * HOUR)


def test_a_snapshot_that_contradicts_itself_is_quarantined_however_often(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.kafka = simulated("orders-0: 1 2\nreturns-0: 2 3", racks=RACKS)
    name_a_broker_twice(place.kafka, "returns", monkeypatch)
    for hours in range(4):
        message = place.is_refused(hours * HOUR)
        assert "replica_count counts each broker once: not so in 1 row, like returns-0" in message
        assert "accepted" not in message
    assert place.in_history() == []


def test_nothing_is_planned_on_a_bad_snapshot(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.snapshot()
    place.has(8)
    place.now = NOON + HOUR
    with (
        place.installation() as installation,
        pytest.raises(RefusedError, match="neither analysed nor planned on"),
    ):
        planned_run(
            installation,
            "demo",
            RebalanceRequest(Goal.REBALANCE),
            plans.Origin(ALICE),
        )
    place.has(20)
    name_a_broker_twice(place.kafka, "topic00", monkeypatch)
    with place.installation() as installation:
        with pytest.raises(RefusedError, match="counts each broker once"):
            planned_run(
                installation,
                "demo",
                RebalanceRequest(Goal.REBALANCE),
                plans.Origin(ALICE),
            )
        assert installation.ledger.runs() == ()
    assert not (place.folder / "store/plans").exists()


def test_without_data_docs_it_is_as_bad(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, docs: Path) -> DataCheck:
        raise ImportError("no great_expectations here")

    monkeypatch.setattr(snapshots, "check_snapshot_data", fail)
    place.snapshot()
    place.has(8)
    assert "the reason in reason.json." in place.is_refused(HOUR)


def test_only_the_newest_quarantined_snapshots_stay(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "_ACCEPTED_AFTER", 1000)
    place.snapshot()
    place.has(8)
    for minutes in range(53):
        place.is_refused(HOUR + minutes * MINUTE)
    kept = sorted(path.name for path in (place.folder / "store/aside/demo").iterdir())
    assert (len(kept), kept[0], kept[-1]) == (50, "demo-20260131T130300Z", "demo-20260131T135200Z")


def test_an_audit_links_to_the_data_docs_of_the_newest_snapshot(tmp_path: Path) -> None:
    place = Place(tmp_path)
    good = place.snapshot()
    with place.installation() as installation:
        (check,) = snapshots.write_data_docs(installation, ["demo"]).values()
        assert check.success and check.passed > 20
        assert installation.archive.has_data_docs("demo")
        names = [file.path for file in installation.archive.report_files()]
    assert names == ["demo/data-docs/index.html"], "its other pages are no reports of their own"
    place.has(8)
    message = place.is_refused(HOUR)
    index = tmp_path / "store/aside/demo/demo-20260131T130000Z/data-docs/index.html"
    assert f"{index}" in message
    assert index.is_file()
    assert place.in_history() == [good]


def test_a_snapshot_is_not_made_before_its_time_however_far_the_clock_is_behind(
    place: Place,
) -> None:
    place.now = NOON - 3 * HOUR
    with place.installation() as installation:
        for scheduled_at, observed_at in ((NOON, NOON), (place.now - MINUTE, place.now)):
            fresh = snapshots.fresh_snapshot(installation, "demo", scheduled_at)
            assert fresh.observed_at == observed_at
