"""Clusters of providers, on real brokers that have the same restrictions by ACLs, and beside
somebody who does what a provider's operator does.

What came of it is read with Kafka's own tools.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
)

from counterpoise.model.acl import (
    DESCRIBE_CONFIGS_OF_BROKERS,
    OPERATOR_ACLS,
    READER_ACLS,
    Acl,
)
from counterpoise.model.kafka import LEADER_REPLICAS
from dev.local_kafka import TopicSpec, create_topics, fill
from dev.local_processes import wait_until
from tests.support.command_line import CommandLine, Typed
from tests.support.kafka_facts import (
    configs_by_tool,
    is_copying,
    ongoing_reassignments,
    placement,
)
from tests.support.secured_kafka import SecuredKafka, connect, secured_kafka

WHERE = ("--cluster", "demo")
MB = 1_000_000
ACL_SECONDS = 60.0  # brokers act on an ACL a moment after it was made


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with secured_kafka(tmp_path_factory.mktemp("secured")) as cluster:
        yield cluster


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine.in_folder(tmp_path, capsys)


def typed(shell: CommandLine, *words: str | Path, code: int = 0) -> Typed:
    found = shell.type(*words)
    assert found.code == code, f"{words}: {found.code}\n{found.out}\n{found.err}"
    return found


def one_line(found: Typed) -> str:
    return " ".join((found.out + found.err).split())


def await_yes(shell: CommandLine, *words: str | Path) -> None:
    wait_until(lambda: shell.type(*words).code == 0, f"{words[0]} to work", ACL_SECONDS)


def state_of(secured: SecuredKafka) -> tuple[object, ...]:
    """Where everything is, every config and what moves, by Kafka's own tools."""
    kafka = secured.kafka
    return placement(kafka), configs_by_tool(kafka), ongoing_reassignments(kafka)


def make_topic(secured: SecuredKafka, name: str, partitions: int = 6, size: int = 0) -> None:
    bootstrap = secured.kafka.bootstrap_string
    create_topics(bootstrap, [TopicSpec(name, [(1, 2)] * partitions)])
    if size:
        fill(bootstrap, name, dict.fromkeys(range(partitions), size))


def plan_for(shell: CommandLine, topic: str) -> Path:
    plan = shell.folder / f"{topic}.json"
    await_yes(shell, "plan", *WHERE, "--goal", "rebalance", "--topics", topic, "--out", plan)
    return plan


# -- Confluent Cloud: one API key, which reads what topics are, and of brokers little or nothing


@pytest.mark.parametrize("shown", [(DESCRIBE_CONFIGS_OF_BROKERS,), ()], ids=["configs", "nothing"])
def test_confluent_cloud_is_read_as_far_as_it_lets(
    secured: SecuredKafka,
    shell: CommandLine,
    shown: tuple[Acl, ...],
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = f"read-{len(shown)}"
    make_topic(secured, topic, size=MB)
    connect(shell, secured.settings("PLAIN", "reader"), policy="provider: confluent")
    before = state_of(secured)
    with secured.allowing("reader", [*acls_of_topics(), *shown]):
        await_yes(shell, "snapshot", *WHERE)
        caplog.clear()
        snapshot = typed(shell, "snapshot", *WHERE, "--out", shell.folder / "state.json")
        assert "may not read them: reassignments, log dirs and sizes" in caplog.text
        assert ("throttle rates of brokers" in caplog.text) is not bool(shown)
        assert "not known" in snapshot.out
        doctor = json.loads(typed(shell, "doctor", *WHERE, "--json").out)
        assert doctor["findings"] == []
        assert any("log dirs" in reason for reason in doctor["cluster"]["not_told"])
        audit = json.loads(shell.type("audit", *WHERE, "--json").out)
        unknown = {row["subject"] for row in audit["findings"] if row["rule"] == "not-answered"}
        assert {"log dirs", "metadata quorum"} <= unknown
        assert ("broker configs" in unknown) is not bool(shown)
        plan = json.loads(plan_for(shell, topic).read_text())
        assert any("no partition size is known" in warning for warning in plan["warnings"])
    described = json.loads((shell.folder / "state.json").read_text())["partitions"]
    assert [row[:3] for row in described if row[0] == topic] == [
        [topic, number, [1, 2]] for number in range(6)
    ]
    assert state_of(secured) == before


def acls_of_topics() -> list[Acl]:
    return [acl for acl in READER_ACLS if acl.resource_type != "cluster"]


# -- Strimzi: an operator that gives each topic the configs of its KafkaTopic


class TopicOperator:
    """Does as Strimzi's: a topic has exactly the configs of its KafkaTopic, each time `is_due`."""

    def __init__(
        self, bootstrap: str, topic: str, spec: Mapping[str, str], is_due: Callable[[], bool]
    ) -> None:
        self.times = 0  # that it took something away
        self._client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._topic, self._spec, self._is_due = topic, spec, is_due

    @contextmanager
    def at_work(self) -> Iterator[None]:
        ended = threading.Event()

        def reconcile_until_the_end() -> None:
            while not ended.wait(0.1):
                if self._is_due():
                    self.reconcile()

        thread = threading.Thread(target=reconcile_until_the_end, daemon=True)
        thread.start()
        yield
        ended.set()
        thread.join()

    def reconcile(self) -> None:
        resource = ConfigResource(ConfigResource.Type.TOPIC, self._topic)
        now = self._client.describe_configs([resource])[resource].result(60)
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        values = {entry.name: entry.value for entry in now.values() if entry.source == own}
        spec = self._spec
        strange = [name for name in values if name not in spec]
        changed = [name for name, value in spec.items() if values.get(name) != value]
        if not strange and not changed:
            return
        self.times += bool(strange)
        delete, set_to = AlterConfigOpType.DELETE, AlterConfigOpType.SET
        entries = [
            *(ConfigEntry(name, "", incremental_operation=delete) for name in strange),
            *(ConfigEntry(name, spec[name], incremental_operation=set_to) for name in changed),
        ]
        wanted = ConfigResource(ConfigResource.Type.TOPIC, self._topic, incremental_configs=entries)
        self._client.incremental_alter_configs([wanted])[wanted].result(60)


def test_strimzi_takes_throttles_back_and_the_run_halts(
    secured: SecuredKafka, shell: CommandLine
) -> None:
    """The KafkaTopic has the leaders' side, or the copies would be done before anybody looks."""
    kafka = secured.kafka
    make_topic(secured, "fought", size=10 * MB)
    spec = {LEADER_REPLICAS: "*"}
    operator = TopicOperator(kafka.bootstrap_string, "fought", spec, lambda: is_copying(kafka, 2))
    operator.reconcile()
    reader, acting = (secured.settings("SCRAM-SHA-512", who) for who in ("reader", "operator"))
    connect(shell, reader, acting, policy="provider: strimzi")
    replicas_before = {name: replicas for name, (replicas, _) in placement(kafka).items()}
    configs_before = configs_by_tool(kafka)
    with secured.allowing("reader", READER_ACLS), secured.allowing("operator", OPERATOR_ACLS):
        plan = plan_for(shell, "fought")
        assert "pause-reconciliation" in plan.read_text()
        await_yes(shell, "preflight", plan)
        typed(shell, "approve", plan, "--rate", "500kB/s", "--reason", "a test")
        with operator.at_work():
            found = shell.type("execute", plan)
    halted = one_line(found)
    assert "somebody else changed our throttle keys again" in halted
    assert "find out who, and stop that" in halted
    until_halted = found.out.partition(" halted: ")[0]
    assert until_halted.count("throttling: ") == 2, "set, and set again once; then while it settles"
    # A broker that does not know of it yet makes it take the same away twice.
    assert operator.times >= 2
    # Who leads a partition is not given back by a cancel.
    assert {name: replicas for name, (replicas, _) in placement(kafka).items()} == replicas_before
    assert configs_by_tool(kafka) == configs_before
    assert ongoing_reassignments(kafka) == ""
