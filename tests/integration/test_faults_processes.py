"""The process that carries a run out dies, freezes while another one takes over, or loses its
ledger: the run ends at its plan, with configs as before, nothing moved twice; `make soak` kills at
every point. Nothing moves without a yes."""

import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from counterpoise.errors import LedgerError, NotApprovedError, StalePlanError
from counterpoise.installation import now_utc
from counterpoise.ledger import database
from counterpoise.model.approval import Decision
from counterpoise.model.run import STEP_LOCK_SECONDS, RunState
from counterpoise.services import execution
from counterpoise.services.plans import PlannedRun
from dev.local_kafka import LocalKafka
from dev.local_processes import wait_until
from tests.support.fault_points import Trap
from tests.support.faults import KB, Ground
from tests.support.kafka_facts import configs, ongoing_reassignments, placement
from tests.support.soak import TWO_AT_A_TIME, Travel, killed_at

# Each row is one run, to broker 4 or back: its process is killed at each of the points.
POINTS = [
    (
        "after touching while running",
        "after alter_configs while throttling",
        "before alter_reassignments while moving",
        "after elect_preferred_leaders while electing",
    ),
    (
        "after submitting while moving",
        "after alter_reassignments while moving",
        "before keys_done while restoring",
        "before change_state while settling",
    ),
]


@pytest.fixture(scope="module")
def travel(tmp_path_factory: pytest.TempPathFactory, kafka: LocalKafka) -> Iterator[Travel]:
    ground = Ground(kafka, tmp_path_factory.mktemp("installation"), TWO_AT_A_TIME)
    travel = Travel(ground)
    ground.create_topic("waits", [(1, 2, 3)], size=2_000 * KB)
    travel.prepare()
    yield travel
    ground.close()


@pytest.mark.parametrize("points", POINTS)
def test_a_process_killed_at_exact_points_is_resumed(
    travel: Travel, points: tuple[str, ...], tmp_path: Path
) -> None:
    trap = Trap(at=points, record=tmp_path / "points.txt")
    row = travel.once(killed_at(travel.ground, trap))
    assert row.losses == ()
    assert set((tmp_path / "points.txt").read_text().splitlines()) == set(points)


@pytest.mark.parametrize(
    "point",
    [
        "after step while running",  # it observes, then
        "before alter_configs while throttling",
        "before alter_reassignments while moving",
    ],
)
def test_a_process_that_froze_and_was_overtaken_changes_nothing_when_it_wakes(
    travel: Travel, point: str, tmp_path: Path
) -> None:
    ground = travel.ground
    trap = Trap(at=(point,), number=signal.SIGSTOP, record=tmp_path / "points.txt")

    def overtake(run: PlannedRun) -> int:
        with ground.victim(run, trap) as first:
            wait_until(lambda: first.is_frozen, "the first process to freeze", 120)
            lost_at = time.monotonic() + STEP_LOCK_SECONDS
            ground.forget_lock()
            with ground.victim(run) as second:
                assert second.wait() == 0
            assert first.is_frozen
            wait_until(lambda: time.monotonic() > lost_at, "the end of the first one's step", 120)
            before, placed = configs(ground.kafka), placement(ground.kafka)
            first.signal(signal.SIGCONT)
            assert first.wait() == 0
        assert configs(ground.kafka) == before, "and nobody has repaired anything"
        assert placement(ground.kafka) == placed
        assert ongoing_reassignments(ground.kafka) == ""
        return 0

    assert travel.once(overtake).losses == ()


def test_nothing_was_moved_twice(travel: Travel) -> None:
    """By all the runs above."""
    assert sum(travel.added.values()) >= 12
    assert travel.moved_twice() == []


def test_a_broker_with_older_metadata_is_not_taken_for_a_foreign_change(
    travel: Travel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It still shows the replicas of a move that has ended by the controller's list."""
    ground = travel.ground
    run = ground.approved({"waits-0": (4, 2, 3)})
    ground.advance(run, lambda: ground.in_flight(run) == 1, "a move is under way")
    with ground.installation() as installation, installation.reader("demo") as reader:
        older = [reader.describe_topics()]
        client = type(reader)
    ground.change_rate(run)
    ground.advance(run, lambda: not ground.reassignments(), "the move to end")
    now = client.describe_topics
    monkeypatch.setattr(
        client, "describe_topics", lambda self, *names: older.pop() if older else now(self, *names)
    )
    ended = ground.finish(run)
    assert not older
    assert ended.state is RunState.DONE, ground.diagnosis(run)
    assert "somebody else" not in " ".join(ground.events(run))


@contextmanager
def locked(ground: Ground) -> Iterator[None]:
    """Somebody else holds the ledger's database."""
    holder = sqlite3.connect(ground.folder / "ledger.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        holder.execute("ROLLBACK")
        holder.close()


def test_the_ledger_does_not_answer_at_the_start_and_midway(
    travel: Travel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_LOCK_WAIT_SECONDS", 0.5)
    ground = travel.ground
    run = ground.approved({"waits-0": (1, 2, 3)})
    with locked(ground), ground.installation() as installation, pytest.raises(LedgerError):
        execution.open_run(installation, run["run_id"], run["fingerprint"])
    assert configs(ground.kafka) == travel.before
    ground.advance(run, lambda: ground.in_flight(run) == 1, "a move is under way")
    moving = ground.reassignments()
    with (
        ground.installation() as installation,
        execution.driver_of(installation, run["run_id"], run["fingerprint"]) as driver,
    ):
        with locked(ground), pytest.raises(LedgerError):
            driver.step()
        assert ground.reassignments() == moving == {"waits-0"}
    ground.change_rate(run)
    assert ground.finish(run).state is RunState.DONE, ground.diagnosis(run)
    assert ground.is_as_planned(run)
    assert configs(ground.kafka) == travel.before


def test_without_a_yes_that_holds_for_this_plan_nothing_is_changed(travel: Travel) -> None:
    """Expired, revoked by a later no, given for another plan."""
    ground = travel.ground
    places = placement(ground.kafka)
    expired = ground.approved({"waits-0": (2, 1, 3)})
    with ground.installation() as installation:
        installation.clock = lambda: now_utc() + timedelta(hours=25)
        with pytest.raises(NotApprovedError, match="expired"):
            execution.open_run(installation, expired["run_id"], expired["fingerprint"])
    revoked = ground.approved({"waits-0": (3, 1, 2)})
    ground.decide(revoked, Decision.REJECTED, by="bob", reason="not now")
    with (
        ground.installation() as installation,
        pytest.raises(NotApprovedError, match="rejected by bob"),
    ):
        execution.open_run(installation, revoked["run_id"], revoked["fingerprint"])
    other = ground.planned({"waits-0": (3, 2, 1)})
    with ground.installation() as installation:
        (yes, _) = installation.ledger.approvals_of(revoked["run_id"])
        installation.ledger.record_decision(replace(yes, run_id=other["run_id"]))
        with pytest.raises(NotApprovedError, match="the approval is for plan"):
            execution.open_run(installation, other["run_id"], other["fingerprint"])
        with pytest.raises(StalePlanError):
            execution.open_run(installation, other["run_id"], revoked["fingerprint"])
    assert placement(ground.kafka) == places
    assert configs(ground.kafka) == travel.before
    assert not ground.reassignments()


@contextmanager
def moved_away(ground: Ground) -> Iterator[None]:
    """Somebody has taken the ledger's file away; what lies beside it stays."""
    there, away = ground.folder / "ledger.db", ground.folder / "away.db"
    there.rename(away)
    try:
        yield
        assert not there.exists(), "no other ledger is made in its place"
    finally:
        away.rename(there)


def test_the_ledger_is_moved_away_midway(travel: Travel) -> None:
    """No step goes on without it: not one that had it open, nor a new one; afterwards the same run
    ends at its plan.
    """
    ground = travel.ground
    here, _ = placement(ground.kafka)["waits-0"]
    run = ground.approved({"waits-0": (1, 2, 3) if 4 in here else (4, 2, 3)})
    ground.advance(run, lambda: ground.in_flight(run) == 1, "a move is under way")
    moving = ongoing_reassignments(ground.kafka)
    throttled = configs(ground.kafka)
    assert moving
    assert throttled != travel.before
    with (
        ground.installation() as installation,
        execution.driver_of(installation, run["run_id"], run["fingerprint"]) as driver,
    ):
        with moved_away(ground):
            with pytest.raises(
                LedgerError, match=r"ledger.db is gone, and nothing goes on without it. Put it back"
            ):
                driver.step()
            with (
                ground.installation() as other,
                pytest.raises(LedgerError, match=r"ledger.db is gone"),
            ):
                execution.execute_step(other, run["run_id"], run["fingerprint"], ground.log.append)
            assert ongoing_reassignments(ground.kafka) == moving
            assert configs(ground.kafka) == throttled
        assert driver.step() is not None
    ground.change_rate(run)
    assert ground.finish(run).state is RunState.DONE, ground.diagnosis(run)
    assert ground.is_as_planned(run)
    assert configs(ground.kafka) == travel.before
