"""Replicas on live brokers that do not keep up, on real brokers: the first finding says what holds
them back, and the lines that mend it.

Broker 2 advertises a port to the other brokers where nobody listens; clients reach it elsewhere.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from dev import local_kafka
from dev.local_kafka import BrokerSpec, Listener, LocalKafka, TopicSpec, create_topics, fill
from dev.local_processes import free_ports, wait_until
from tests.support.command_line import CommandLine
from tests.support.faults import NOTICED_SOON
from tests.support.kafka_facts import ON_A_SHARED_DISK
from tests.support.pasting import Operator

SECONDS: Final = 120.0
UNDER: Final = "partitions-under-replicated"
THROTTLE: Final = (
    'kafka-configs.sh --bootstrap-server "$BOOTSTRAP" --alter --entity-type brokers '
    "--entity-name 3 --add-config follower.replication.throttled.rate=1",
    'kafka-configs.sh --bootstrap-server "$BOOTSTRAP" --alter --entity-type topics '
    "--entity-name slow --add-config follower.replication.throttled.replicas=*",
)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    *ports, nobody = free_ports(4)
    brokers = [
        BrokerSpec(
            broker_id,
            None,
            listeners=(
                Listener(
                    "INTERNAL", port, advertised=f"127.0.0.1:{nobody}" if broker_id == 2 else None
                ),
            ),
        )
        for broker_id, port in enumerate(ports, start=1)
    ]
    properties = {
        **NOTICED_SOON,
        "inter.broker.listener.name": "INTERNAL",
        "replica.lag.time.max.ms": "3000",
    }
    topics = [
        TopicSpec("orders", [(2, 1), (1, 3)], configs={"min.insync.replicas": "2"}),
        TopicSpec("slow", [(1, 3)]),
    ]
    folder = tmp_path_factory.mktemp("held-back")
    with local_kafka.running(folder, brokers, properties) as started:
        create_topics(started.bootstrap_string, topics)
        yield started


@pytest.fixture
def shell(kafka: LocalKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    shell = CommandLine.in_folder(tmp_path, capsys)
    shell.configure(kafka.bootstrap_string, extra=f"    policy:\n      {ON_A_SHARED_DISK}\n")
    return shell


def findings(shell: CommandLine) -> list[dict[str, Any]]:
    typed = shell.type("audit", "--cluster", "demo", "--json")
    assert typed.code in (0, 1), typed.err
    rows: list[dict[str, Any]] = json.loads(typed.out)["findings"]
    return rows


def lacking(shell: CommandLine, broker_id: int) -> dict[str, Any] | None:
    """Return the finding about replicas of a broker that are out of sync."""
    return next(
        (
            row
            for row in findings(shell)
            if (row["rule"], row["subject"]) == (UNDER, f"broker {broker_id}")
        ),
        None,
    )


def test_a_broker_that_others_cannot_reach(kafka: LocalKafka, shell: CommandLine) -> None:
    """All brokers are live, since heartbeats go to the controllers."""
    wait_until(lambda: lacking(shell, 1) is not None, "broker 1 to fall behind", SECONDS)
    first = findings(shell)[0]
    assert (first["rule"], first["subject"]) == ("partitions-under-min-isr", "topic orders")
    assert first["seen"].endswith("; no replica keeps up with broker 2")
    assert first["fix"][0].startswith(
        "# check that other brokers reach broker 2 at INTERNAL://127.0.0.1:"
    )


def test_a_throttle_that_was_left_behind(
    kafka: LocalKafka, shell: CommandLine, tmp_path: Path
) -> None:
    operator = Operator(kafka, tmp_path / "operator")
    operator.paste(THROTTLE)
    kafka.kill_broker(3)
    kafka.wait_until_fenced(3)
    # A throttle lets a batch through every ten seconds, however low it is.
    fill(kafka.bootstrap_string, "slow", {0: 40_000_000})
    kafka.restart_broker(3)
    found: list[dict[str, Any]] = []

    def is_held_back() -> bool:
        found[:] = filter(None, [lacking(shell, 3)])
        return bool(found) and "throttle" in found[0]["seen"]

    wait_until(is_held_back, "broker 3 to be held back", SECONDS)
    held = "; a throttle that was left behind on broker 3 holds them back"
    assert found[0]["seen"] == f"1 partition of 1 topic lacks broker 3 in their ISR{held}"
    operator.paste(found[0]["fix"])
    wait_until(lambda: lacking(shell, 3) is None, "broker 3 to be in sync", SECONDS)
