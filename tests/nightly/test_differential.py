"""Random sequences of calls on both clusters: the simulated one says the same as real brokers.

Every move is held by a rate of 0, so that it takes no time in either; what needs no copy is done at
once. A sequence that fails prints its calls.

    COUNTERPOISE_SEQUENCES=200 pytest tests/nightly/test_differential.py
"""

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import (
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    CallResults,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
)
from dev.local_kafka import KAFKA_VERSION
from dev.local_processes import ChildFailedError
from tests.support.conformance import (
    HELD_BYTES,
    Cluster,
    RealBrokers,
    SimulatedBrokers,
    broker,
    error_name,
    topic,
)

SEQUENCES = int(os.environ.get("COUNTERPOISE_SEQUENCES", "12"))
CALLS = 12
UNKNOWN_BROKER = 9
VALUES = (
    *("", "*", "0:1", "0:1,1:2", "0:1,0:1", "1:2,0:1", "7:77", "0:1,", ",0:1", "0:1,,1:2", ","),
    *(" 0:1", "0:1, 1:2", "*,0:1", "0:1,*", "none", "**", " * ", ":", "0:1;1:2", "-1:1", "00:01"),
)
RATES = ("0", "1", "5000000", "-1", "", "x", "1.5", "007", "9223372036854775807")

Observed = tuple[object, ...]


@dataclass
class Pair:
    """The same two topics on one of the clusters, and the calls that were made."""

    cluster: Cluster
    names: list[str] = field(default_factory=list)

    def make_topics(self) -> None:
        for assignment in (((1, 2, 3), (2, 3, 4)), ((3, 1),)):
            name = self.cluster.make_topic(*assignment)
            self.names.append(name)
            for number in range(len(assignment)):
                self.cluster.produce(TopicPartition(name, number), HELD_BYTES)
            self.cluster.hold_followers(name, 1, 2, 3, 4, 5)

    @property
    def keys(self) -> list[TopicPartition]:
        first, second = self.names
        known = [TopicPartition(first, 0), TopicPartition(first, 1), TopicPartition(second, 0)]
        return [*known, TopicPartition(first, 7), TopicPartition("no-such-topic", 0)]

    @property
    def resources(self) -> list[ConfigResource]:
        return [*map(topic, self.names), topic("no-such-topic"), broker(4), broker(99)]

    def observed(self) -> Observed:
        """Return all that the calls of a sequence can change."""
        admin = self.cluster.admin
        described = {t.topic: t for t in admin.describe_topics(self.names)}
        partitions = [
            (p.replicas, p.leader, tuple(sorted(p.isr)))
            for name in self.names
            for p in described[name].partitions
        ]
        ongoing = admin.list_reassignments()
        moves = [ongoing.get(key) for key in self.keys]
        resources = self.resources
        found = admin.describe_configs(resources, [LEADER_REPLICAS, FOLLOWER_REPLICAS, LEADER_RATE])
        configs = [sorted(found[r].items()) if r in found else None for r in resources]
        return partitions, moves, configs

    def results(self, results: CallResults[object], subjects: list[object]) -> Observed:
        """Return what a call said of each subject, by its place in the list."""
        return tuple(
            "accepted" if subject in results.accepted else error_name(results.errors[subject])
            for subject in subjects
            if subject in results.accepted or subject in results.errors
        )


Call = tuple[object, ...]


def draw_call(rng: random.Random) -> Call:
    kind = rng.choice(["move", "move", "move", "cancel", "elect", "list", "list", "rate", "resize"])
    if kind in ("move", "resize"):
        brokers = [1, 2, 3, 4, 5] if rng.random() < 0.9 else [1, 2, 3, UNKNOWN_BROKER]
        target = rng.sample(brokers, rng.choice([1, 2, 3, 3, 3, 3]))
        if rng.random() < 0.05:
            target.append(target[0])
        if rng.random() < 0.03:
            target = []
        return kind, rng.choice([0, 0, 1, 1, 2, 2, 3, 4]), tuple(target)
    if kind in ("cancel", "elect"):
        return kind, rng.choice([0, 0, 1, 1, 2, 2, 3, 4]), ()
    operation = rng.choice(list(ConfigOperation))
    if kind == "list":
        return kind, rng.choice([0, 0, 0, 1, 1, 2]), (operation, rng.choice(VALUES))
    return kind, rng.choice([3, 3, 4]), (operation, rng.choice(RATES))


def make_call(pair: Pair, call: Call) -> Observed:
    kind, index, argument = call
    admin = pair.cluster.admin
    if kind in ("move", "cancel", "resize"):
        key = pair.keys[index]
        target = None if kind == "cancel" else argument
        may_resize = kind == "resize"
        results = admin.alter_reassignments({key: target}, may_change_replication_factor=may_resize)
        return pair.results(results, [key])
    if kind == "elect":
        key = pair.keys[index]
        return pair.results(admin.elect_preferred_leaders([key]), [key])
    resource = pair.resources[index]
    operation, value = argument
    key_name = LEADER_REPLICAS if resource.is_topic else LEADER_RATE
    results = admin.alter_configs([ConfigChange(resource, key_name, operation, value)])
    return pair.results(results, [resource])


@pytest.fixture(scope="module")
def real_brokers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealBrokers]:
    version = os.environ.get("COUNTERPOISE_KAFKA_VERSION", KAFKA_VERSION)
    with RealBrokers.started(tmp_path_factory.mktemp("kafka"), version) as brokers:
        yield brokers


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_both_clusters_say_the_same(real_brokers: RealBrokers, seed: int) -> None:
    rng = random.Random(seed)
    model, real = Pair(SimulatedBrokers(real_brokers.version)), Pair(real_brokers)
    for pair in (model, real):
        pair.make_topics()
    calls: list[Call] = []
    try:
        for _ in range(CALLS):
            calls.append(draw_call(rng))
            expected = make_call(model, calls[-1])
            assert make_call(real, calls[-1]) == expected, calls
            model.cluster.let_pass(0.01)
            await_same(real, model.observed(), calls)
    finally:
        for name in real.names:
            real_brokers.delete_topic(name)
        real_brokers.clean_up()


def await_same(real: Pair, expected: Observed, calls: list[Call]) -> None:
    """Wait until real brokers show what the model shows, or fail with the difference."""
    last: list[Observed] = []

    def is_same() -> bool:
        last.append(real.observed())
        return last[-1] == expected

    try:
        real.cluster.wait_until(is_same, "the same")
    except ChildFailedError:
        assert last[-1] == expected, calls
