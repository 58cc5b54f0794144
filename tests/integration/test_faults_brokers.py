"""Brokers that die while a run moves partitions: each time the run ends at the plan, or halts
cleanly and leaves nothing pending that it does not show."""

from collections.abc import Iterator

import pytest

from counterpoise.model.run import RunState
from dev import local_kafka
from dev.local_kafka import LocalKafka, brokers_in_racks
from dev.local_processes import wait_until
from tests.support.faults import BROKER_PROPERTIES, NOTICED_SOON, Ground
from tests.support.kafka_facts import configs, placement, throttles

PATIENT = "{dead_broker_patience: 5m}"
IMPATIENT = "{dead_broker_patience: 15s}"  # more than the 5 s for which a cancel counts as not made


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    """Brokers 1 to 3 are controllers, too; 4 holds nothing."""
    properties = BROKER_PROPERTIES | NOTICED_SOON
    with local_kafka.running(
        tmp_path_factory.mktemp("kafka"), brokers_in_racks("a", "b", "c"), properties
    ) as cluster:
        cluster.add_broker(4, "d")
        yield cluster


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory, kafka: LocalKafka) -> Iterator[Ground]:
    ground = Ground(kafka, tmp_path_factory.mktemp("installation"))
    yield ground
    ground.close()


def restored_at_last(ground: Ground) -> list[str]:
    """Return what watches restore until nothing is pending.

    A broker that has just started may need a moment to respond.
    """
    restored: list[str] = []

    def is_clean() -> bool:
        report = ground.watch()
        restored.extend(report.restored_keys)
        return report.is_clean

    wait_until(is_clean, "every pending restore to be done", 180)
    return restored


@pytest.fixture(scope="module")
def before(kafka: LocalKafka, ground: Ground) -> list[str]:
    """Configs before any run, with the topics of all tests there."""
    for name in ("returning", "lost", "led", "governed", "rolled"):
        ground.create_topic(name, [(1, 2, 3), (2, 3, 1), (3, 1, 2)])
    lines = configs(kafka)
    assert throttles(lines) == []
    return lines


def test_a_destination_dies_and_returns(
    kafka: LocalKafka, ground: Ground, before: list[str]
) -> None:
    ground.movement = PATIENT
    run = ground.approved(
        {"returning-0": (4, 2, 3), "returning-1": (2, 4, 1), "returning-2": (3, 1, 4)}
    )
    ground.advance(run, lambda: ground.in_flight(run) == 3, "three moves are under way")
    kafka.kill_broker(4)
    ground.advance(
        run, lambda: "broker 4 is dead" in ground.waits_for(run), "the run waits for broker 4"
    )
    kafka.restart_broker(4)
    ground.change_rate(run)
    assert ground.finish(run).state is RunState.DONE, ground.diagnosis(run)
    assert ground.state(run).reason == ""
    assert ground.is_as_planned(run)
    assert configs(kafka) == before
    assert not ground.reassignments()


def test_a_destination_dies_for_good_and_its_keys_are_restored_later(
    kafka: LocalKafka, ground: Ground, before: list[str]
) -> None:
    ground.movement = IMPATIENT
    run = ground.approved({"lost-0": (4, 2, 3), "lost-1": (2, 4, 1)})
    ground.advance(run, lambda: ground.in_flight(run) == 2, "two moves are under way")
    kafka.kill_broker(4)
    ended = ground.finish(run)
    assert ended.state is RunState.HALTED
    assert "broker 4 is dead, for" in ended.reason
    assert "of dead brokers to restore" in ended.reason
    assert ground.is_as_before(run), "cancelled, and the order restored"
    assert not ground.reassignments()
    assert throttles(configs(kafka)) == []
    pending = ground.watch().pending_keys
    assert pending
    assert all(line.startswith("broker 4") for line in pending)
    kafka.restart_broker(4)
    assert throttles(configs(kafka)), "what the dead broker kept"
    assert set(restored_at_last(ground)) == set(pending)
    assert configs(kafka) == before
    assert not ground.reassignments()
    assert ground.watch().is_clean


def test_the_leader_of_moving_partitions_dies(
    kafka: LocalKafka, ground: Ground, before: list[str]
) -> None:
    ground.movement = PATIENT
    run = ground.approved({"led-1": (2, 4, 1), "led-2": (4, 1, 2)})
    ground.advance(run, lambda: ground.in_flight(run) == 2, "two moves are under way")
    kafka.kill_broker(3)
    wait_until(lambda: placement(kafka)["led-2"][1] in (1, 2), "another leader", 120)
    ground.change_rate(run)
    ended = ground.finish(run)
    assert ended.state is RunState.DONE, ground.diagnosis(run)
    assert ended.reason.startswith("1 config key of dead brokers to restore")
    assert ground.is_as_planned(run)
    assert throttles(configs(kafka)) == []
    kafka.restart_broker(3)
    assert len(restored_at_last(ground)) == 1
    assert configs(kafka) == before
    assert not ground.reassignments()


def test_the_active_controller_dies(kafka: LocalKafka, ground: Ground, before: list[str]) -> None:
    ground.movement = PATIENT
    run = ground.approved(
        {"governed-0": (4, 2, 3), "governed-1": (2, 4, 1), "governed-2": (3, 1, 4)}
    )
    ground.advance(run, lambda: ground.in_flight(run) == 3, "three moves are under way")
    with ground.installation() as installation, installation.reader("demo") as reader:
        quorum = reader.describe_quorum()
    assert quorum is not None
    controller = quorum.leader_id
    kafka.kill_broker(controller)
    ground.advance(
        run, lambda: f"broker {controller} is dead" in ground.waits_for(run), "the run waits"
    )
    kafka.restart_broker(controller)
    ground.change_rate(run)
    assert ground.finish(run).state is RunState.DONE, ground.diagnosis(run)
    assert ground.is_as_planned(run)
    assert configs(kafka) == before
    assert not ground.reassignments()


def test_all_brokers_restart_one_after_another(
    kafka: LocalKafka, ground: Ground, before: list[str]
) -> None:
    ground.movement = PATIENT
    run = ground.approved(
        {"rolled-0": (4, 2, 3), "rolled-1": (2, 4, 1), "rolled-2": (3, 1, 4)}, rate="5kB/s"
    )
    ground.advance(run, lambda: ground.in_flight(run) == 3, "three moves are under way")
    with ground.victim(run) as runner:
        for broker_id in (4, 1, 2, 3):
            kafka.restart_broker(broker_id)
        assert runner.is_alive, ground.diagnosis(run)
        assert ground.state(run).state is RunState.RUNNING, ground.diagnosis(run)
        ground.change_rate(run)
        assert runner.wait() == 0
    assert ground.state(run).state is RunState.DONE, ground.diagnosis(run)
    assert ground.is_as_planned(run)
    assert configs(kafka) == before
    assert not ground.reassignments()


def test_a_log_dir_that_is_lost_under_a_copy_is_named(kafka: LocalKafka, ground: Ground) -> None:
    ground.movement = "{dead_broker_patience: 20s}"
    kafka.add_broker(5, "e", log_dirs=2)
    ground.create_topic("beside", [(5,)])  # in the first dir, which has the metadata log
    ground.create_topic("disk", [(1, 2, 3)])
    before = configs(kafka)
    run = ground.approved({"disk-0": (5, 2, 3)})
    ground.advance(run, lambda: ground.in_flight(run) == 1, "the move is under way")
    disk = kafka.home(5).log_directories[1]
    assert (disk / "disk-0").exists()
    disk.rename(disk.with_name("lost"))
    ended = ground.finish(run)
    assert ended.state is RunState.HALTED
    assert f"; a log dir is offline: broker 5 {disk}: replace the disk first" in ended.reason
    assert configs(kafka) == before
    assert not ground.reassignments()
