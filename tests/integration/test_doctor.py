"""`counterpoise doctor` on real brokers: it names every mistake from bootstrap to leader, and only
those. Mistakes with TLS and SASL are in test_secured.py.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
)

from dev import local_kafka
from dev.local_kafka import BrokerSpec, Listener, LocalKafka, TopicSpec, create_topics
from dev.local_processes import free_ports
from tests.support.command_line import CommandLine, Typed
from tests.support.faults import NOTICED_SOON
from tests.support.kafka_facts import ON_THIS_MACHINE

NAMES = ("ASTRAY", "NAMED", "SWAPPED")


@dataclass(frozen=True)
class Clinic:
    """Two brokers.

    Broker 1 is well everywhere; broker 2 advertises something wrong on three of its listeners.
    """

    kafka: LocalKafka
    ports: dict[str, tuple[int, int]]
    dead: str

    def at(self, listener: str, broker_id: int = 1) -> str:
        return f"127.0.0.1:{self.ports[listener][broker_id - 1]}"


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clinic]:
    folder = tmp_path_factory.mktemp("doctor")
    ports, dead = listener_ports()
    wrong = {
        "ASTRAY": dead,
        "NAMED": f"kafka2.invalid:{ports['NAMED'][1]}",
        "SWAPPED": f"127.0.0.1:{ports['SWAPPED'][0]}",
    }
    brokers = [
        BrokerSpec(
            broker_id,
            f"rack-{broker_id}",
            listeners=tuple(
                Listener(
                    name,
                    ports[name][broker_id - 1],
                    advertised=wrong[name] if broker_id == 2 else None,
                )
                for name in NAMES
            ),
        )
        for broker_id in (1, 2)
    ]
    properties = NOTICED_SOON | {"auto.create.topics.enable": "true"}
    with local_kafka.running(folder / "kafka", brokers, properties) as kafka:
        create_topics(
            kafka.bootstrap_string, [TopicSpec("orders", [(1, 2), (2, 1), (1, 2), (2, 1)])]
        )
        yield Clinic(kafka, ports, dead)


def listener_ports() -> tuple[dict[str, tuple[int, int]], str]:
    """A port for each listener of each broker, and an address where nobody listens."""
    free = iter(free_ports(2 * len(NAMES) + 1))
    dead = f"127.0.0.1:{next(free)}"
    return {name: (next(free), next(free)) for name in NAMES}, dead


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine.in_folder(tmp_path, capsys)


def examined(command: CommandLine, bootstrap: str, *words: str) -> tuple[int, dict[str, Any]]:
    """Exit code and JSON of `doctor` for a bootstrap list."""
    command.configure(bootstrap, extra=f"    policy: {{{ON_THIS_MACHINE}}}\n")
    typed: Typed = command.type("doctor", "--cluster", "demo", "--json", *words)
    assert not typed.err
    return typed.code, json.loads(typed.out)


def rules(found: dict[str, Any]) -> list[str]:
    return [finding["rule"] for finding in known(found)]


def known(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The findings but for what a broker that is not reached does not tell."""
    return [finding for finding in found["findings"] if finding["severity"] != "unknown"]


def failed_stage(end: dict[str, Any]) -> tuple[str, str]:
    last = end["steps"][-1]
    assert not last["ok"]
    return last["step"], last["said"]


def test_a_healthy_cluster_is_told_in_full_and_nothing_is_found(
    clinic: Clinic, command: CommandLine
) -> None:
    code, found = examined(command, clinic.kafka.bootstrap_string, "--topic", "orders")
    assert (code, found["findings"]) == (0, [])
    assert found["cluster_id"] == clinic.kafka.cluster_id
    assert found["cluster"]["controller_id"] == 1
    assert [
        (b["broker_id"], b["rack"], b["is_fenced"], b["leaders"])
        for b in found["cluster"]["brokers"]
    ] == [
        (1, "rack-1", False, 2),
        (2, "rack-2", False, 2),
    ]
    assert [end["is_expected_broker"] for end in found["advertised"].values()] == [True, True]
    assert [step["step"] for step in found["bootstrap"][0]["steps"]] == [
        "resolve",
        "tcp",
        "api versions",
        "metadata",
    ]
    shown = command.type("doctor", "--cluster", "demo")
    assert shown.code == 0
    assert (
        "active controller 1; brokers: 2 registered, 2 live, 0 fenced; 1 topic, 4 partitions"
        in shown.out
    )


def test_a_topic_that_is_not_there_is_named_and_not_created(
    clinic: Clinic, command: CommandLine
) -> None:
    code, found = examined(command, clinic.kafka.bootstrap_string, "--topic", "no-such")
    assert (code, rules(found)) == (1, ["topic-unknown"])
    words = ("--topic", "no-such", "--fail-at", "critical")
    code, _ = examined(command, clinic.kafka.bootstrap_string, *words)
    assert code == 0, "it is a warning"
    topics = (
        AdminClient({"bootstrap.servers": clinic.kafka.bootstrap_string})
        .list_topics(timeout=20)
        .topics
    )
    assert set(topics) == {"orders"}


def test_a_dead_entry_of_the_list_is_found_although_the_next_one_answers(
    clinic: Clinic, command: CommandLine
) -> None:
    alive = clinic.kafka.bootstrap[0]
    code, found = examined(command, f"{clinic.dead},{alive},no-such-host.invalid:9092")
    assert (code, found["answered_by"]) == (1, alive)
    assert [end["answered"] for end in found["bootstrap"]] == [False, True, False]
    assert rules(found) == ["bootstrap-dead-address", "bootstrap-dead-address"]
    assert failed_stage(found["bootstrap"][0]) == ("tcp", "Connection refused")
    assert failed_stage(found["bootstrap"][2])[0] == "resolve"


def test_nothing_answers(clinic: Clinic, command: CommandLine) -> None:
    code, found = examined(command, clinic.dead)
    assert (code, found["answered_by"], found["cluster"]) == (3, None, None)


def test_a_wrong_advertised_port_and_what_it_breaks(clinic: Clinic, command: CommandLine) -> None:
    code, found = examined(command, clinic.at("ASTRAY"), "--topic", "orders")
    (finding,) = known(found)
    assert (code, finding["rule"], finding["subject"]) == (1, "advertised-unreachable", "broker 2")
    assert finding["seen"] == (
        f"broker 2 advertises {clinic.dead}: tcp: Connection refused; it leads partitions of 1 "
        "topic that clients cannot use: orders"
    )
    assert finding["fix"][0] == "# if broker 2 does not run, start it; if it does:"
    assert "server.properties of broker 2" in finding["fix"][1]
    assert [(p["leader"], p["endpoint"]) for p in found["leaders"]["orders"]] == [
        (1, "answers"),
        (2, "does not answer"),
    ] * 2
    assert (
        "2       DOES NOT ANSWER  1, 3"
        in command.type("doctor", "--cluster", "demo", "--topic", "orders").out
    )


def test_an_advertised_name_that_does_not_resolve(clinic: Clinic, command: CommandLine) -> None:
    _, found = examined(command, clinic.at("NAMED"), "--topic", "orders")
    (finding,) = known(found)
    port = clinic.ports["NAMED"][1]
    assert finding["rule"] == "advertised-unreachable"
    assert (
        f'broker 2 advertises kafka2.invalid:{port}: resolve: the name "kafka2.invalid" '
        in (finding["seen"])
    )
    assert "clients cannot use: orders" in finding["seen"]


def test_another_broker_at_the_advertised_endpoint(clinic: Clinic, command: CommandLine) -> None:
    code, found = examined(command, clinic.at("SWAPPED", 2))
    assert [end["actual_broker_id"] for end in found["advertised"].values()] == [1, 1]
    assert [end["is_expected_broker"] for end in found["advertised"].values()] == [True, False]
    assert code == 1


def test_a_dead_broker_is_named(clinic: Clinic, command: CommandLine) -> None:
    """The last test: broker 2 is dead afterwards."""
    bootstrap = clinic.kafka.bootstrap_string
    clinic.kafka.kill_broker(2)
    deadline = time.monotonic() + 120
    while True:
        code, found = examined(command, bootstrap)
        if "broker-fenced" in rules(found) or time.monotonic() > deadline:
            break
    assert (code, set(rules(found))) == (1, {"bootstrap-dead-address", "broker-fenced"})
    assert found["cluster"]["brokers"][1]["is_fenced"]
