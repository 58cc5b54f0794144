"""What breaks the promises on an ordinary night, each as a test that fails today."""

from pathlib import Path

import pytest

from counterpoise.errors import HaltedError
from counterpoise.kafka_admin.simulated import SimulatedCluster
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.control import Control
from counterpoise.model.policy import InFlight, MovementPolicy
from counterpoise.model.request import Goal
from counterpoise.model.run import RunState
from tests.simulation.test_undo import (
    cancelled,
    executed,
    imported,
    interrupted,
    kafka,
    shell,
    undone,
)
from tests.support.command_line import CommandLine
from tests.support.plans import move
from tests.support.promises import Watch
from tests.support.runs import SKEWED, SimulatedRun, at_broker

__all__ = ["kafka", "shell"]

FIRST = TopicPartition("orders", 0)


# -- disks


def test_a_disk_that_fills_up_while_a_run_settles_cancels_what_would_fill_it_further(
    tmp_path: Path,
) -> None:
    """A run was halted, what is in flight finishes under its throttle for hours, and the disk of
    its destination gets full.
    """
    picture = "orders-0: 1 2 size=30000000\norders-1: 1 2 size=30000000"
    moves = [move(f"orders-{p}", "1 2", "4 2", size=30_000_000) for p in range(2)]
    limits = MovementPolicy(on_halt=InFlight.FINISH)
    run = SimulatedRun.of_moves(tmp_path, picture, *moves, limits=limits)
    driver = run.driver()
    run.until_moving(driver)
    run.change_state(RunState.SETTLING, "interrupted")
    driver.settle_step()
    run.cluster.brokers[4].disk_total_bytes = 1_000_000  # 100 % used by now, and by others
    run.repeat(driver.settle_step)
    assert run.cluster.partitions[FIRST].replicas == (1, 2)


# -- rolling restarts


def test_a_broker_that_restarts_before_a_finished_run_is_settled_does_not_make_it_a_halt(
    tmp_path: Path,
) -> None:
    """In Airflow, `settle` begins some seconds after `execute`, or hours, where the Dag is paused;
    a rolling restart takes broker 4 just then.
    """
    run = SimulatedRun.make(tmp_path, SKEWED)
    driver = run.driver()
    driver.open()
    run.repeat(driver.step)  # all moved, all elected
    run.cluster.kill_broker(4)
    run.cluster.advance(30)
    assert run.end(driver) is RunState.DONE, run.run.reason


# -- undo


def test_undo_takes_back_what_can_go_back_when_one_of_the_old_brokers_is_lost(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    kafka.alter_reassignments({TopicPartition("orders", 1): (4, 2)})
    kafka.advance(3600)
    path = executed(shell, imported(shell, "a", {0: (3, 2), 1: (3, 2)}))
    kafka.kill_broker(1)
    typed, back = undone(shell, path)
    assert back == {1: [4, 2]}, typed.out + typed.err


def test_undo_can_be_asked_for_again_after_an_undo_was_cancelled_half_way(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    path = executed(shell, imported(shell, "a", {0: (3, 2), 1: (3, 2)}))
    undone(shell, path)
    back = shell.folder / "back.json"
    stopped = back.rename(shell.folder / "stopped.json")
    interrupted(shell, kafka, stopped)
    cancelled(shell, stopped)
    at_new_place = {p: [1, 2] for p in range(2) if kafka.partitions[
        TopicPartition("orders", p)].replicas == (3, 2)}
    assert at_new_place
    typed, again = undone(shell, path, "--rebase")
    assert again == at_new_place, typed.out + typed.err


def test_undo_of_a_run_goes_on_after_a_later_run_was_cancelled_before_anything_arrived(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    """The later run left everything where it found it, so that undoing it first is no way out."""
    path = executed(shell, imported(shell, "a", {0: (3, 2)}))
    later = imported(shell, "b", {0: (4, 2)})
    interrupted(shell, kafka, later)
    cancelled(shell, later)
    assert kafka.partitions[FIRST].replicas == (3, 2)
    typed, back = undone(shell, path)
    first, _ = undone(shell, later)  # what the refusal tells to do
    assert back == {0: [1, 2]}, (typed.err, first.out)


def test_undo_takes_back_the_others_when_one_partition_has_no_leader(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    """An undo is asked for in the middle of an incident."""
    path = executed(shell, imported(shell, "a", {0: (3, 2), 1: (3, 2)}))
    partition = kafka.partitions[FIRST]
    partition.isr.clear()
    partition.leader = None
    typed, back = undone(shell, path)
    assert back == {1: [1, 2]}, typed.out + typed.err


# -- throttles on the way


def test_both_ends_are_throttled_when_a_replica_that_has_arrived_leads_before_the_other(
    tmp_path: Path,
) -> None:
    """Two of three brokers are lost; both are replaced at once, one copy is done first, and Kafka's
    own auto.leader.rebalance has it lead: it is the first of the target.
    """
    picture = "orders-0: 3 1 2 @3 size=30000000"
    run = SimulatedRun.of_moves(
        tmp_path,
        picture,
        move("orders-0", "3 1 2", "4 5 3", leader=3, size=30_000_000),
        goal=Goal.REPAIR,
        racks="!1=a !2=b 3=c 4=d 5=e",
    )
    watch = Watch(run.cluster)
    watch.plans.append(run.plan)
    watch.highest_rate = run.rate
    partition = run.cluster.partitions[FIRST]
    partition.isr = {3}
    driver = run.driver()
    run.until_moving(driver)
    assert set(partition.adding) == {4, 5}
    partition.copied[4] = partition.size_bytes
    run.cluster.advance(1)
    run.cluster.elect_preferred_leaders([FIRST])
    assert partition.leader == 4
    assert partition.is_moving
    for _ in range(3):
        run.cluster.advance(driver.step() or 0)
    assert partition.is_moving
    watch.check()


# -- pending restores


def test_the_watch_restores_what_a_broker_that_returned_still_has_beside_a_run_that_waits(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    """A run of several nights, or a paused one, is under way: what an earlier run left on a broker
    that has returned is neither restored nor shown.
    """
    first = imported(shell, "a", {0: (4, 2)})
    interrupted(shell, kafka, first)
    kafka.kill_broker(4)
    assert shell.type("cancel", first, "--why", "broker 4 is gone").code == 0
    assert shell.type("execute", first).code == 1
    assert kafka.configs.dynamic[at_broker(4)]
    interrupted(shell, kafka, imported(shell, "b", {1: (3, 2)}))
    kafka.restart_broker(4)
    watched = shell.type("watch", "--cluster", "demo")
    assert not kafka.configs.dynamic[at_broker(4)], watched.out + watched.err


# -- executed again


def test_a_run_whose_topic_was_deleted_midway_can_be_executed_again_after_a_halt(
    tmp_path: Path,
) -> None:
    """Topics come and go; a gone one is skipped, until the run halts for another reason."""
    run = SimulatedRun.make(tmp_path, SKEWED, limits=MovementPolicy(max_moves_in_flight=1))
    driver = run.driver()
    run.until_moving(driver)
    assert any(m.topic == "payments" for m in run.plan.moves)
    run.cluster.delete_topic("payments")
    run.cluster.advance(driver.step() or 0)
    run.ask(Control.CANCEL)
    with pytest.raises(HaltedError):
        run.repeat(driver.step)
    assert run.end(driver) is RunState.HALTED
    run.ledger.record_decision(run.approval())
    assert run.go() is RunState.DONE
