"""Brokers that freeze (SIGSTOP) with a call of ours in hand, and act on it when they wake, after
the client gave it up: what comes late is harmless, or a watch of the throttles owns it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from counterpoise.kafka_admin.broker_client import BrokerClient
from counterpoise.model.person import Person
from counterpoise.model.run import RunState
from counterpoise.services import requests
from counterpoise.services.plans import PlannedRun
from dev.local_kafka import LocalKafka
from dev.local_processes import wait_until
from tests.support.faults import FAST, KB, SLOW, Ground
from tests.support.kafka_facts import configs, configs_now, placement, throttles

CALL_SECONDS = 3.0  # shorter than a broker's session: it counts as live all the while


@dataclass
class Freezer:
    """Freezes whoever is sent to, between the moment it is chosen and the request; thaws when the
    client gave up.
    """

    kafka: LocalKafka
    points: list[str] = field(default_factory=list)  # at which of them, each once
    thaws: bool = True
    victim: int | None = None  # who is to be sent to; None: whoever it happens to be
    frozen: list[int] = field(default_factory=list)
    is_armed: bool = False

    def tell(self, point: str) -> None:
        when, _, what = point.partition(" ")
        if when == "before" and what in self.points:
            self.points.remove(what)
            self.is_armed = True
        elif when == "after" and self.frozen and self.thaws:
            self.is_armed = False
            self.kafka.thaw_broker(self.frozen[-1])

    def chosen(self, broker_id: int) -> int:
        if self.is_armed:
            self.is_armed = False
            broker_id = self.victim or broker_id
            self.kafka.freeze_broker(broker_id)
            self.frozen.append(broker_id)
        return broker_id


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory, kafka: LocalKafka) -> Iterator[Ground]:
    ground = Ground(kafka, tmp_path_factory.mktemp("installation"), call_seconds=CALL_SECONDS)
    for name in ("asked", "stopped"):
        ground.create_topic(name, [(1, 2, 3), (2, 3, 1), (1, 2, 3)])
    # Its moves end by themselves, at the low rate.
    ground.create_topic("late", [(1, 2, 3), (2, 3, 1), (1, 2, 3)], size=100 * KB)
    ground.create_topic("later", [(1, 2), (2, 1)])
    yield ground
    ground.close()


@pytest.fixture(scope="module")
def before(kafka: LocalKafka, ground: Ground) -> list[str]:
    lines = configs(kafka)
    assert throttles(lines) == []
    return lines


@pytest.fixture
def freezer(kafka: LocalKafka, monkeypatch: pytest.MonkeyPatch) -> Iterator[Freezer]:
    freezer = Freezer(kafka)
    forwarding_broker_id, responding_broker_id = (
        BrokerClient.forwarding_broker_id,
        BrokerClient.responding_broker_id,
    )
    monkeypatch.setattr(
        BrokerClient,
        "forwarding_broker_id",
        lambda broker_client: freezer.chosen(forwarding_broker_id(broker_client)),
    )
    monkeypatch.setattr(
        BrokerClient,
        "responding_broker_id",
        lambda broker_client: freezer.chosen(responding_broker_id(broker_client)),
    )
    yield freezer
    for broker_id in set(kafka.processes) - set(kafka.live_brokers):
        kafka.thaw_broker(broker_id)
    kafka.wait_until_ready()


def approved(ground: Ground, topic: str, rate: str) -> PlannedRun:
    """Two copies and an order whose new leader has to be elected."""
    return ground.approved(
        {f"{topic}-0": (4, 2, 3), f"{topic}-1": (2, 4, 1), f"{topic}-2": (2, 1, 3)}, rate
    )


def test_whoever_is_asked_to_change_the_cluster_freezes(
    kafka: LocalKafka, ground: Ground, before: list[str], freezer: Freezer
) -> None:
    freezer.points += [
        "alter_configs while throttling",
        "alter_reassignments while moving",
        "elect_preferred_leaders while electing",
        "alter_configs while restoring",
    ]
    run = approved(ground, "asked", FAST)
    ended = ground.finish(run, tell=freezer.tell)
    assert len(freezer.frozen) == 4, freezer.points
    assert ended.state is RunState.DONE, ground.diagnosis(run)
    assert ground.is_as_planned(run)
    kafka.wait_until_ready()
    ground.watch()
    assert configs(kafka) == before
    assert not ground.reassignments()


def test_whoever_is_asked_to_cancel_and_restore_freezes(
    kafka: LocalKafka, ground: Ground, before: list[str], freezer: Freezer
) -> None:
    run = approved(ground, "stopped", SLOW)
    ground.advance(run, lambda: ground.in_flight(run) == 2, "two moves are under way")
    with ground.installation() as installation:
        requests.cancel(installation, run["run_id"], by=Person.airflow("alice"), why="test")
    freezer.points += [
        "alter_reassignments while cancelling",
        "alter_reassignments while restoring",
        "alter_configs while restoring",
    ]
    ended = ground.finish(run, tell=freezer.tell)
    assert len(freezer.frozen) == 3, freezer.points
    assert ended.state is RunState.CANCELLED, ground.diagnosis(run)
    kafka.wait_until_ready()
    ground.watch()
    assert ground.is_as_before(run), ground.diagnosis(run)
    assert configs(kafka) == before
    assert not ground.reassignments()


def test_a_broker_wakes_with_a_move_in_hand_after_the_run_has_ended(
    kafka: LocalKafka, ground: Ground, before: list[str], freezer: Freezer
) -> None:
    """The move comes, or does not: in the end it is throttled to its end or taken back, and nothing
    is left.
    """
    freezer.thaws = False
    freezer.points += ["alter_reassignments while moving"]
    run = approved(ground, "late", SLOW)
    ground.advance(
        run,
        lambda: ground.has_event(run, "no answer"),
        "a call without an answer",
        tell=freezer.tell,
    )
    (frozen,) = freezer.frozen
    with ground.installation() as installation:
        requests.cancel(installation, run["run_id"], by=Person.airflow("alice"), why="test")
    ended = ground.finish(run)
    assert ended.state is RunState.CANCELLED, ground.diagnosis(run)
    kafka.thaw_broker(frozen)
    kafka.wait_until_ready()

    def is_over() -> bool:
        return ground.watch().is_clean and not ground.reassignments()

    wait_until(is_over, "nothing to be pending or under way", 240)
    now = placement(kafka)
    for move in ground.plan_of(run).moves:
        assert now[str(move.topic_partition)][0] in (move.replicas_before, move.replicas_after)
    assert configs(kafka) == before


def test_a_bystander_wakes_with_throttle_keys_in_hand_after_the_run_has_ended(
    kafka: LocalKafka, ground: Ground, before: list[str], freezer: Freezer
) -> None:
    """It was only asked to pass them on; the run went on through others and put everything back."""
    freezer.thaws, freezer.victim = False, 3
    freezer.points += ["alter_configs while throttling"]
    run = ground.approved({"later-0": (4, 2), "later-1": (2, 4)}, FAST)
    assert ground.finish(run, tell=freezer.tell).state is RunState.DONE, ground.diagnosis(run)
    assert freezer.frozen == [3]
    assert ground.has_event(run, "no answer")
    kafka.wait_until_fenced(3)
    assert throttles(configs(kafka)) == []
    kafka.thaw_broker(3)
    kafka.wait_until_ready()
    wait_until(
        lambda: ground.watch().is_clean and configs_now(kafka) == before, "nothing to be left", 180
    )
    assert configs(kafka) == before
