"""A broker that leads copies is killed, and is back a minute later: with default settings a run
goes on.
"""

from pathlib import Path

import pytest

from counterpoise.errors import HaltedError
from counterpoise.execution import Driver, decide
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.plan import Move
from counterpoise.model.run import RunState
from tests.support.plans import move
from tests.support.runs import SimulatedRun

SMALL, LARGE = 30_000_000, 900_000_000


def moving_slowly(folder: Path, picture: str, *moves: Move) -> tuple[SimulatedRun, Driver]:
    run = SimulatedRun.of_moves(folder, picture, *moves)
    run.rate = 3_000_000
    driver = run.driver()
    run.until_moving(driver)
    return run, driver


def go_for(run: SimulatedRun, driver: Driver, seconds: float) -> None:
    """Observe every ten seconds."""
    run.repeat_for(driver.step, seconds, every=10.0)


@pytest.mark.parametrize("noticed", [True, False])
def test_what_a_dead_leader_had_sent_is_no_lack_of_progress_of_the_next_one(
    tmp_path: Path, noticed: bool
) -> None:
    """While its session lasts, nobody knows what has arrived of the partitions that it led."""
    run, driver = moving_slowly(
        tmp_path,
        f"orders-0: 1 2 3 size={LARGE}\norders-1: 2 1 3 size={LARGE}",
        move("orders-0", "1 2 3", "1 2 4", size=LARGE),
        move("orders-1", "2 1 3", "2 1 4", size=LARGE),
    )
    go_for(run, driver, 60)
    run.cluster.kill_broker(1, noticed=noticed)
    run.cluster.advance(3)
    go_for(run, driver, 60)
    run.cluster.restart_broker(1)
    go_for(run, driver, 1200)
    assert run.end(driver) is RunState.DONE, run.run.reason


@pytest.mark.parametrize("restarts", [False, True])
def test_a_leader_that_moves_to_a_broker_as_another_copy_from_there_ends(
    tmp_path: Path, restarts: bool
) -> None:
    """It sends as many copies as before, and has more left to send: others."""
    rows = [("orders-0", "1 2 3", "1 2 4", SMALL), ("orders-1", "1 2 3", "1 2 4", LARGE)]
    rows.append(("orders-2", "2 1 3", "2 1 4", LARGE))
    picture = "\n".join(f"{name}: {before} size={size}" for name, before, _, size in rows)
    moves = [move(name, before, after, size=size) for name, before, after, size in rows]
    run, driver = moving_slowly(tmp_path, picture, *moves)
    small = run.cluster.partitions[TopicPartition("orders", 0)]
    while small.copied.get(4, 0.0) < SMALL - 9_000_000:
        go_for(run, driver, 1)
    assert small.is_moving
    if restarts:
        run.cluster.kill_broker(2)  # broker 1 leads orders-2 now
    run.cluster.advance(10)
    assert not small.is_moving
    go_for(run, driver, 60)
    run.cluster.restart_broker(2)
    go_for(run, driver, 1500)
    assert run.end(driver) is RunState.DONE, run.run.reason


def catching_up_beside_copies(folder: Path, *, written_percent: int) -> tuple[SimulatedRun, Driver]:
    """A replica that is kept was down for 5 min, while producers wrote so much of the rate to
    partitions in flight: it catches up at the leader of their copies, under the same rate.
    """
    rate = 10_000_000
    each = rate * written_percent // 100 // 2
    run = SimulatedRun.of_moves(
        folder,
        "\n".join(f"orders-{number}: 1 2 3 size={LARGE} rate={each}" for number in (0, 1)),
        *(move(f"orders-{number}", "1 2 3", "1 4 3", size=LARGE) for number in (0, 1)),
    )
    run.rate = rate
    driver = run.driver()
    run.until_moving(driver)
    run.cluster.kill_broker(3)
    go_for(run, driver, 300)
    run.cluster.restart_broker(3)
    return run, driver


def test_a_run_goes_on_while_a_kept_replica_catches_up_under_its_rate(tmp_path: Path) -> None:
    run, driver = catching_up_beside_copies(tmp_path, written_percent=40)
    go_for(run, driver, 3600)
    assert run.end(driver) is RunState.DONE, run.run.reason


def test_a_rate_too_low_for_copies_and_kept_replicas_together_is_said_so(tmp_path: Path) -> None:
    """Of 10 MB/s each of the two gets 5, and producers write 6: neither ever arrives. Then the run
    must not hold the kept replica back for longer.
    """
    run, driver = catching_up_beside_copies(tmp_path, written_percent=60)
    with pytest.raises(HaltedError, match="replicas on broker 3 catch up under the same rate"):
        go_for(run, driver, 3600)
    assert run.end(driver) is RunState.HALTED
    assert "cancelling" in run.event_kinds()
    run.cluster.advance(600)
    assert all(len(partition.isr) == 3 for partition in run.cluster.partitions.values())


# -- between the end of a run and its settling


def all_elected(folder: Path) -> tuple[SimulatedRun, Driver]:
    run = SimulatedRun.make(folder)
    driver = run.driver()
    driver.open()
    run.repeat(driver.step)
    return run, driver


@pytest.mark.parametrize("seconds", [0, 7200])
def test_a_broker_that_restarts_before_a_finished_run_is_settled_does_not_make_it_a_halt(
    tmp_path: Path, seconds: float
) -> None:
    """In Airflow, `settle` begins some seconds after `execute`, or hours, where the Dag is paused;
    a rolling restart takes broker 4 just then.
    """
    run, driver = all_elected(tmp_path)
    run.cluster.advance(seconds)
    run.cluster.kill_broker(4)
    run.cluster.advance(30)
    assert run.end(driver) is RunState.DONE, run.run.reason
    assert "led by another broker again since all leaders were elected" in run.run.reason


def test_a_finished_run_stays_done_beside_a_restart_where_a_topic_of_it_is_gone(
    tmp_path: Path,
) -> None:
    run = SimulatedRun.make(tmp_path)
    driver = run.driver()
    run.until_moving(driver)
    run.cluster.delete_topic("payments")
    run.repeat(driver.step)
    run.cluster.kill_broker(4)
    run.cluster.advance(30)
    assert run.end(driver) is RunState.DONE, run.run.reason
    assert "skipped: its topic is gone" in run.run.reason


def test_a_finished_run_of_which_somebody_moves_a_partition_before_it_is_settled_is_halted(
    tmp_path: Path,
) -> None:
    run, driver = all_elected(tmp_path)
    moved = next(move for move in run.plan.moves if move.adding)
    run.cluster.alter_reassignments({moved.topic_partition: moved.replicas_before})
    run.cluster.advance(3600)
    assert run.end(driver) is RunState.HALTED


def test_a_run_that_ends_before_all_leaders_are_elected_is_halted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decide, "MAX_ELECTIONS_PER_CALL", 1)
    run = SimulatedRun.make(tmp_path)
    driver = run.driver()
    driver.open()
    while run.run_progress().best.leaders_elected < len(run.plan.moves) - 2:
        run.cluster.advance(driver.step() or 0)
    assert run.end(driver) is RunState.HALTED
