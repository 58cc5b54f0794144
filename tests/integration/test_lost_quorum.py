"""A metadata quorum without a leader, on real brokers: doctor, audit and snapshot say so first, and
soon.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from counterpoise.errors import BrokerUnresponsiveError
from dev import local_kafka
from dev.local_kafka import BrokerSpec, LocalKafka, TopicSpec, brokers_in_racks, create_topics
from dev.local_processes import wait_until
from tests.support.command_line import CommandLine, Typed
from tests.support.connected import connected

CONTROLLERS = tuple(BrokerSpec(n, None, is_only_controller=True) for n in (101, 102))
# The nodes, those that are killed, and how many of the voters still listen.
SHAPES = {
    "two controllers, one dead": ((*CONTROLLERS, *brokers_in_racks("a", "b")), (102,), "1 of 2"),
    "three combined nodes, two dead": (brokers_in_racks("a", "b", "c"), (2, 3), "1 of 3"),
}
SECONDS = 15.0
LOST = "no broker reaches an active controller: the metadata quorum has no leader"


@dataclass(frozen=True)
class Lost:
    kafka: LocalKafka
    bootstrap: str
    dead: tuple[int, ...]
    listening: str
    dead_addresses: tuple[str, ...]  # of brokers


@pytest.fixture(scope="module", params=SHAPES, ids=lambda shape: shape.replace(" ", "-"))
def lost(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lost]:
    nodes, dead, listening = SHAPES[request.param]
    with local_kafka.running(tmp_path_factory.mktemp("lost"), nodes) as kafka:
        create_topics(kafka.bootstrap_string, [TopicSpec("orders", [(1, 2), (2, 1)])])
        bootstrap = kafka.bootstrap_string
        dead_brokers = set(dead) & set(kafka.live_brokers)
        addresses = tuple(kafka.home(broker_id).address for broker_id in sorted(dead_brokers))
        for node_id in dead:
            kafka.kill_broker(node_id)
        wait_until(lambda: has_no_leader(kafka), "the last leader to resign", 60)
        yield Lost(kafka, bootstrap, dead, listening, addresses)


def has_no_leader(kafka: LocalKafka) -> bool:
    """A leader that hears of too few voters resigns after some seconds."""
    with connected(kafka) as reader:
        try:
            reader.describe_quorum()
        except BrokerUnresponsiveError:
            return True
    return False


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], lost: Lost) -> CommandLine:
    shell = CommandLine.in_folder(tmp_path, capsys)
    shell.configure(lost.bootstrap)
    return shell


def typed_soon(shell: CommandLine, *words: str) -> Typed:
    started_at = time.monotonic()
    typed = shell.type(*words, "--cluster", "demo")
    assert time.monotonic() - started_at < SECONDS
    return typed


@pytest.mark.parametrize("command", ["doctor", "audit"])
def test_it_is_the_first_finding(command: str, lost: Lost, shell: CommandLine) -> None:
    typed = typed_soon(shell, command, "--json")
    assert typed.code == 1, typed.err
    first: dict[str, Any] = json.loads(typed.out)["findings"][0]
    assert (first["rule"], first["severity"], first["subject"]) == (
        "quorum-no-leader",
        "critical",
        "quorum",
    )
    assert first["seen"].startswith(LOST)
    assert f"{lost.listening} voters listen" in first["seen"]
    for node_id in lost.dead:
        assert (
            f"controller {node_id} (" in first["seen"]
            and f"controller {node_id} (" in (first["fix"][0])
        )


@pytest.mark.parametrize("command", ["doctor", "audit"])
def test_what_died_with_its_controller_follows_from_that(
    command: str, lost: Lost, shell: CommandLine
) -> None:
    """Nobody fences these brokers, whose addresses are right."""
    rows = json.loads(typed_soon(shell, command, "--json").out)["findings"]
    where = {f"broker {node_id}" for node_id in lost.dead}
    where |= {f"bootstrap address {address}" for address in lost.dead_addresses}
    followers = [row for row in rows if row["subject"] in where and row["severity"] != "unknown"]
    assert {row["rule"] for row in followers} == (
        {"advertised-loopback", "advertised-unreachable", "bootstrap-dead-address"}
        if lost.dead_addresses
        else set()
    )
    assert {tuple(row["causes"]) for row in followers} <= {("quorum",)}
    said = typed_soon(shell, command).out
    assert not [line for line in said.splitlines() if "if broker" in line]
    assert ("  and so " in said) is bool(lost.dead_addresses)


def test_the_audit_names_what_it_could_not_look_at(shell: CommandLine) -> None:
    document = json.loads(typed_soon(shell, "audit", "--json").out)
    (unread,) = [
        row
        for row in document["findings"]
        if (row["rule"], row["subject"]) == ("not-answered", "snapshot")
    ]
    blind = {rule_id for rule_id, _ in unread["evidence"]["rows"]}
    assert {"disk-nearly-full", "min-insync-1", "quorum-size"} & blind
    assert unread["evidence"]["total"] > 50 and not blind & set(document["passed"])


def test_a_snapshot_names_it_in_one_sentence(shell: CommandLine) -> None:
    typed = typed_soon(shell, "snapshot")
    assert typed.code == 3
    assert f"no snapshot of demo can be made: {LOST}" in typed.err


@pytest.mark.parametrize("command", ["audit", "snapshot"])
def test_a_cluster_that_no_file_names_is_told_the_same(
    command: str, lost: Lost, shell: CommandLine
) -> None:
    started_at = time.monotonic()
    typed = shell.type(command, "--bootstrap", lost.bootstrap)
    assert time.monotonic() - started_at < SECONDS
    assert LOST in typed.out + typed.err
