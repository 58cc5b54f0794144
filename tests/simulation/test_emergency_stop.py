"""An emergency stop knows nothing of the ledger: what it leaves, the ledger still knows when it is
back.
"""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from counterpoise.errors import ClusterError, HaltedError
from counterpoise.model.kafka import RATE_KEYS
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.run import RunState
from counterpoise.services.emergency_stop import Stopped, stop_from_plan
from tests.simulation.test_whose_moves import FIRST, a_run, half_submitted
from tests.support.plans import move
from tests.support.runs import SimulatedRun, at_broker, own_configs

SIZE = 3_000_000


def stop(run: SimulatedRun, monkeypatch: pytest.MonkeyPatch, *, waits_for: float = 1) -> Stopped:
    """Stop a run; with `waits_for`, each of its waits lasts as many times as long."""
    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", lambda seconds: run.cluster.advance(waits_for * seconds))
        patch.setattr("counterpoise.services.emergency_stop.now_utc", run.clock)
        return stop_from_plan(run.cluster, run.plan, run.log.append)


def test_a_stop_that_cannot_cancel_leaves_the_rates_that_are_in_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker is back later, and so is the ledger: the run can be settled."""
    alone = move("alone-0", "2", "3", size=SIZE)
    run = SimulatedRun.of_moves(tmp_path, f"alone-0: 2 size={SIZE}", alone)
    run.until_moving(run.driver())
    in_force = own_configs(run.cluster)
    run.cluster.kill_broker(2)
    stopped = stop(run, monkeypatch, waits_for=20)
    assert stopped.in_flight == (alone,)
    assert own_configs(run.cluster) == in_force
    run.cluster.restart_broker(2)
    run.cluster.advance(60)
    assert run.end(run.driver()) is RunState.DONE
    run.restore_pending()
    assert own_configs(run.cluster) == {}


def test_a_stop_sets_no_rate_where_none_is_in_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has deleted it, of a move that cannot be cancelled."""
    alone = move("alone-0", "2", "3", size=100 * SIZE)
    run = SimulatedRun.of_moves(tmp_path, f"alone-0: 2 size={100 * SIZE}", alone)
    run.until_moving(run.driver())
    run.cluster.configs.dynamic[at_broker(3)].clear()
    run.cluster.kill_broker(2)
    stop(run, monkeypatch, waits_for=20)
    assert not own_configs(run.cluster).get(at_broker(3), {}).keys() & set(RATE_KEYS)


def test_a_stop_leaves_the_order_that_somebody_gave_a_partition_which_never_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, ours, theirs = half_submitted(tmp_path)
    run.cluster.alter_reassignments({theirs: (3, 2, 1)})
    stop(run, monkeypatch)
    assert own_configs(run.cluster) == {}
    assert run.cluster.partitions[theirs].replicas == (3, 2, 1)
    assert run.cluster.partitions[ours].replicas == (1, 2, 3)


def test_a_stop_that_is_tried_again_restores_the_order_of_what_it_cancelled_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run(tmp_path, FIRST)
    run.until_moving(run.driver())
    first = FIRST.topic_partition
    monkeypatch.setattr("counterpoise.services.emergency_stop.now_utc", run.clock)

    def fail(_seconds: float) -> None:
        raise ClusterError("the controller does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", fail)
        with pytest.raises(ClusterError):
            stop_from_plan(run.cluster, run.plan, run.log.append)
    assert run.cluster.partitions[first].replicas == (2, 3, 1), "as Kafka's cancel leaves it"
    run.cluster.advance(5)
    monkeypatch.setattr(time, "sleep", run.cluster.advance)
    stop_from_plan(run.cluster, run.plan, run.log.append)
    assert run.cluster.partitions[first].replicas == (1, 2, 3)


def test_a_stop_ends_soon_beside_a_process_that_executes_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process neither sends again nor throttles what the stop has just cancelled."""
    first, second = (move(f"orders-{n}", "1 2 3", "4 2 3", size=1000 * SIZE) for n in range(2))
    picture = "\n".join(f"orders-{n}: 1 2 3 size={1000 * SIZE}" for n in range(2))
    limits = MovementPolicy(max_moves_in_flight=1)
    run = SimulatedRun.of_moves(tmp_path, picture, first, second, limits=limits)
    run.until_moving(run.driver())
    run.cluster.advance(run.driver().step() or 0)
    began = observes_at = run.cluster.now

    def execute_for(seconds: float) -> None:
        nonlocal observes_at
        end = run.cluster.now + seconds
        assert end - began < 15, f"the stop does not end: {run.log[-4:]}"
        while run.cluster.now < end - 1e-6:
            if run.cluster.now >= observes_at - 1e-6:
                observes_at = run.cluster.now + execute_once(run)
            run.cluster.advance(max(0.01, min(observes_at, end) - run.cluster.now))

    no_pause = SimpleNamespace(sleep=lambda _: None)
    monkeypatch.setattr("counterpoise.execution.driver.time", no_pause)
    monkeypatch.setattr("counterpoise.services.emergency_stop.now_utc", run.clock)
    sleeping = SimpleNamespace(sleep=execute_for)
    monkeypatch.setattr("counterpoise.services.emergency_stop.time", sleeping)
    stopped = stop_from_plan(run.cluster, run.plan, run.log.append)
    assert stopped.in_flight == ()
    assert own_configs(run.cluster) == {}


def execute_once(run: SimulatedRun) -> float:
    """Go on with the run, or settle it; return the seconds to wait."""
    driver = run.driver()
    go_on = driver.step if run.run.state is RunState.RUNNING else driver.settle_step
    try:
        return go_on() or 2.0
    except HaltedError:
        return 2.0
