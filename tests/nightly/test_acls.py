"""Each permission (ACL) of docs/security.md is taken away in turn: the message names it and the
command that grants it, it is found before the approval, and nothing is half done.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from counterpoise.model.acl import (
    ALTER_CONFIGS_OF_TOPICS,
    DESCRIBE_TOPICS,
    OPERATOR_ACLS,
    READER_ACLS,
    Acl,
)
from dev.local_kafka import TopicSpec, create_topics, fill
from dev.local_processes import wait_until
from tests.support.acl_rows import ROWS, AclRow
from tests.support.command_line import CommandLine, Typed
from tests.support.kafka_facts import ongoing_reassignments, placement, throttle_lines
from tests.support.secured_kafka import SecuredKafka, connect, secured_kafka

ACLS = "org.apache.kafka.tools.AclCommand"
WHERE = ("--cluster", "demo")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with secured_kafka(tmp_path_factory.mktemp("secured")) as cluster:
        create_topics(cluster.kafka.bootstrap_string, [TopicSpec("orders", [(1, 2, 3)] * 2)])
        cluster.allow("reader", READER_ACLS)
        cluster.allow("operator", OPERATOR_ACLS)
        with group_member(cluster):
            yield cluster


@contextmanager
def group_member(secured: SecuredKafka) -> Iterator[None]:
    """Be in a consumer group, for what may not be read of it."""
    config = {"bootstrap.servers": secured.kafka.bootstrap_string, "group.id": "billing"}
    consumer = Consumer(config | {"auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    wait_until(lambda: consumer.poll(0.1) is None and consumer.assignment(), "a member", 60)
    yield
    consumer.close()


@pytest.fixture
def shell(secured: SecuredKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    shell = CommandLine.in_folder(tmp_path, capsys)
    reader = secured.settings("SCRAM-SHA-512", "reader")
    connect(shell, reader, secured.settings("PLAIN", "operator"))
    return shell


def typed(shell: CommandLine, *words: str | Path, code: int = 0) -> Typed:
    found = shell.type(*words)
    assert found.code == code, f"{words}: {found.code}\n{found.out}\n{found.err}"
    return found


@pytest.fixture
def taken(secured: SecuredKafka, row: AclRow) -> Iterator[None]:
    """Take the permission away, and give it back in the end."""
    secured.disallow(row.who, row.acl)
    yield
    secured.allow(row.who, [row.acl])


def run_command(secured: SecuredKafka, text: str, acl: Acl, principal: str) -> None:
    """Run the command that a message shows, with Kafka's own tool, and nothing else."""
    (command,) = set(re.findall(r"kafka-acls\.sh [^`\n│]*", " ".join(text.split())))
    assert command.strip() == acl.grant(principal)
    words = shlex.split(command.replace("$BOOTSTRAP", secured.kafka.bootstrap[0]))
    secured.kafka.tool(ACLS, *words[1:])


def is_named(shell: CommandLine, words: tuple[str | Path, ...], acl: Acl) -> bool:
    """Return whether a command that asks for permissions finds this one missing."""
    found = shell.type(*words)
    return f"needs {acl.in_words}" in " ".join((found.out + found.err).split())


@pytest.mark.parametrize("row", [row for row in ROWS if row.who == "reader"], ids=str)
@pytest.mark.usefixtures("taken")
def test_a_reader_without_one_permission(
    secured: SecuredKafka, shell: CommandLine, row: AclRow
) -> None:
    doctor = ("doctor", *WHERE, "--json")
    wait_until(lambda: is_named(shell, doctor, row.acl), f"doctor to name {row.acl}", 20)
    rows = json.loads(shell.type(*doctor).out)["findings"]
    (finding,) = [found for found in rows if found["rule"] == "permission-missing"]
    assert f"User:reader needs {row.acl.in_words}" in finding["seen"]
    for command in row.fails:
        extra = {
            "plan": ("--goal", "leaders", "--out", shell.folder / "plan.json"),
            "verify": (write_plan(shell),),
        }.get(command, ())
        words = (command, *extra) if command == "verify" else (command, *WHERE, *extra)
        failed = typed(shell, *words, code=3)
        assert row.acl.grant("User:reader") in failed.err
    if not row.fails:
        typed(shell, "snapshot", *WHERE, "--out", shell.folder / "state.json")
    assert not (shell.folder / "plan.json").exists()
    run_command(secured, "; ".join(finding["fix"]), row.acl, "User:reader")
    wait_until(lambda: not json.loads(shell.type(*doctor).out)["findings"], "doctor's yes", 20)
    typed(shell, "snapshot", *WHERE, "--out", shell.folder / "state.json")


def write_plan(shell: CommandLine) -> Path:
    """A plan as somebody else could have made it: only to be verified."""
    state, plan = shell.folder / "other.json", shell.folder / "other-plan.json"
    partitions = [["orders", number, [1, 2, 3], 1, 0, 0] for number in range(2)]
    brokers = [{"id": broker_id, "rack": None} for broker_id in (1, 2, 3)]
    state.write_text(json.dumps({"cluster": "demo", "brokers": brokers, "partitions": partitions}))
    typed(shell, "plan", "--state", state, "--goal", "leaders", "--out", plan)
    return plan


@pytest.fixture
def reading_operator(secured: SecuredKafka, row: AclRow) -> Iterator[None]:
    """Let the operator read by permissions of its own, so that only the change is refused."""
    own = [acl for acl in READER_ACLS if acl not in OPERATOR_ACLS]
    secured.allow("operator", own)
    yield
    for acl in own:
        secured.disallow("operator", acl)


@pytest.mark.parametrize("row", [row for row in ROWS if row.who == "operator"], ids=str)
@pytest.mark.usefixtures("reading_operator", "taken")
def test_an_operator_without_one_permission(
    secured: SecuredKafka, shell: CommandLine, row: AclRow
) -> None:
    topic, bootstrap = f"moved-{ROWS.index(row)}", secured.kafka.bootstrap_string
    create_topics(bootstrap, [TopicSpec(topic, [(1, 2)] * 6)])
    plan = shell.folder / "plan.json"
    typed(shell, "plan", *WHERE, "--goal", "rebalance", "--topics", topic, "--out", plan)
    before = state_of(secured)
    preflight = ("preflight", plan)
    wait_until(lambda: is_named(shell, preflight, row.acl), f"preflight to name {row.acl}", 20)
    refused = typed(shell, *preflight, code=1)
    grant = ("--rate", "50MB/s", "--reason", "a test")
    not_approved = typed(shell, "approve", plan, *grant, code=1)
    assert "nothing was approved" in not_approved.err
    assert json.loads(typed(shell, "status", "--json").out) == []
    typed(shell, "approve", plan, *grant, "--no-preflight")
    failed = shell.type("execute", plan)
    assert failed.code in (1, 3)
    assert row.acl.grant("User:operator") in " ".join((failed.out + failed.err).split())
    assert state_of(secured) == before
    run_command(secured, refused.out, row.acl, "User:operator")
    wait_until(lambda: shell.type(*preflight).code == 0, "preflight's yes", 20)
    typed(shell, "execute", plan)
    typed(shell, "verify", plan)
    assert throttle_lines(secured.kafka) == []


@pytest.mark.parametrize("acl", [ALTER_CONFIGS_OF_TOPICS, DESCRIBE_TOPICS], ids=str)
def test_a_permission_that_one_topic_of_a_plan_lacks(
    secured: SecuredKafka, shell: CommandLine, acl: Acl
) -> None:
    """Where ACLs are on topics by name, the last topic of a plan counts as much as the first."""
    topics = [f"{acl.operation.lower()}-{number}" for number in range(3)]
    create_topics(
        secured.kafka.bootstrap_string, [TopicSpec(topic, [(1, 2)] * 6) for topic in topics]
    )
    plan = shell.folder / "plan.json"
    words = ("--goal", "rebalance", "--topics", ",".join(topics))
    typed(shell, "plan", *WHERE, *words, "--out", plan)
    assert {move["topic"] for move in json.loads(plan.read_text())["moves"]} == set(topics)
    before = state_of(secured)
    with denied(secured, "operator", acl, topics[-1]):
        preflight = ("preflight", plan)
        wait_until(lambda: is_named(shell, preflight, acl), f"preflight to name {acl}", 20)
        refused = " ".join(typed(shell, *preflight, code=1).out.split())
        assert f"topic {topics[-1]}: TOPIC_AUTHORIZATION_FAILED" in refused
        typed(shell, "approve", plan, "--rate", "50MB/s", "--reason", "a test", code=1)
    assert json.loads(typed(shell, "status", "--json").out) == []
    assert state_of(secured) == before
    wait_until(lambda: shell.type(*preflight).code == 0, "preflight's yes", 20)


@contextmanager
def denied(secured: SecuredKafka, who: str, acl: Acl, topic: str) -> Iterator[None]:
    """Deny `who` an operation on one topic, by Kafka's own tool."""
    where = ("--bootstrap-server", secured.kafka.bootstrap[0])
    what = ("--deny-principal", f"User:{who}", "--operation", acl.operation, "--topic", topic)
    secured.kafka.tool(ACLS, *where, "--add", *what)
    yield
    secured.kafka.tool(ACLS, *where, "--remove", "--force", *what)


def state_of(secured: SecuredKafka) -> tuple[object, ...]:
    """Where everything is, what moves and what is throttled, by Kafka's own tools."""
    kafka = secured.kafka
    return placement(kafka), ongoing_reassignments(kafka), throttle_lines(kafka)


@pytest.mark.parametrize("acl", OPERATOR_ACLS, ids=str)
def test_a_permission_lost_while_partitions_move(
    secured: SecuredKafka, shell: CommandLine, acl: Acl
) -> None:
    """The run ends with the missing permission, and one command gives back all that it needs; then
    the same command goes on, and every config is as it was.
    """
    topic, bootstrap = f"large-{OPERATOR_ACLS.index(acl)}", secured.kafka.bootstrap_string
    create_topics(bootstrap, [TopicSpec(topic, [(1, 2)] * 6)])
    fill(bootstrap, topic, dict.fromkeys(range(6), 10_000_000))
    plan = shell.folder / "plan.json"
    typed(shell, "plan", *WHERE, "--goal", "rebalance", "--topics", topic, "--out", plan)
    typed(shell, "approve", plan, "--rate", "2MB/s", "--reason", "a test")
    code = "from counterpoise.cli.main import run; run()"
    with subprocess.Popen(
        [sys.executable, "-c", code, "execute", str(plan)],
        env=os.environ | shell.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            wait_until(lambda: bool(ongoing_reassignments(secured.kafka)), "a partition moves", 60)
            secured.disallow("operator", acl)
            output, _ = process.communicate(timeout=120)
            assert process.returncode in (1, 3)
            assert f"User:operator needs {acl.in_words}" in " ".join(output.split())
            assert throttle_lines(secured.kafka), "what moves is still throttled"
            run_command(secured, output, acl, "User:operator")
        finally:
            process.kill()
            secured.allow("operator", [acl])
    wait_until(lambda: shell.type("preflight", plan).code == 0, "preflight's yes", 20)
    typed(shell, "execute", plan)
    typed(shell, "verify", plan)
    assert throttle_lines(secured.kafka) == []
