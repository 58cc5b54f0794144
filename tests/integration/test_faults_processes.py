"""The process that carries a run out dies, or freezes while another one takes over: the run ends at
its plan, with configs as before, nothing moved twice; `make soak` kills at every point."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from counterpoise.model.run import STEP_LOCK_SECONDS
from counterpoise.services.plans import PlannedRun
from dev.local_kafka import LocalKafka
from dev.local_processes import wait_until
from tests.support.fault_points import Trap
from tests.support.faults import Ground
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
