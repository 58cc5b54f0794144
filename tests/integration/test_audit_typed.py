"""What `counterpoise audit` prints, typed where it was printed: each line does what it says.

Three brokers, and everything with one replica, as in the compose files that people copy. No file
names the cluster: the audit gets its addresses.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from dev import local_kafka
from dev.local_kafka import LocalKafka, TopicSpec, brokers_in_racks, create_topics
from dev.local_processes import wait_until
from tests.support.command_line import CommandLine
from tests.support.pasting import Operator

ONE_REPLICA: Final = "replication-factor-1"
TOPICS: Final = tuple(TopicSpec(f"events-{number}", [(1,), (2,), (3,)]) for number in range(4))


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    folder = tmp_path_factory.mktemp("copied")
    properties = {"min.insync.replicas": "2"}
    with local_kafka.running(folder, brokers_in_racks("a", "b", "c"), properties) as started:
        create_topics(started.bootstrap_string, TOPICS)
        yield started


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine.in_folder(tmp_path, capsys)


def printed_commands(out: str) -> list[str]:
    return [line.strip() for line in out.splitlines() if "counterpoise plan" in line]


def test_one_line_for_all_topics_works_where_it_was_printed(
    kafka: LocalKafka, shell: CommandLine, tmp_path: Path
) -> None:
    audited = shell.type("audit", "--bootstrap", kafka.bootstrap_string)
    (command,) = printed_commands(audited.out)
    operator = Operator(kafka, tmp_path / "operator", shell.environment)
    operator.paste([command])
    plan = json.loads((tmp_path / "operator/replication-factor-3.json").read_text())
    assert {move["topic"] for move in plan["moves"]} == {topic.name for topic in TOPICS}


def test_what_kafkas_tool_generates_is_imported_as_it_was_printed(
    kafka: LocalKafka, shell: CommandLine, tmp_path: Path
) -> None:
    operator = Operator(kafka, tmp_path / "operator")
    wanted = json.dumps({"topics": [{"topic": "events-0"}], "version": 1})
    printed = operator.paste(
        [
            f"echo '{wanted}' > topics.json",
            'kafka-reassign-partitions.sh --bootstrap-server "$BOOTSTRAP" --generate '
            "--topics-to-move-json-file topics.json --broker-list 2,3",
        ]
    )
    (tmp_path / "generated.txt").write_text(printed)
    imported = tmp_path / "imported.json"
    words = ("--bootstrap", kafka.bootstrap_string, "--out", imported)
    typed = shell.type("import", tmp_path / "generated.txt", *words)
    assert typed.code == 0, typed.err
    moves = json.loads(imported.read_text())["moves"]
    assert {broker for move in moves for broker in move["replicas_after"]} <= {2, 3}


MIXED: Final = '{"version":1,"partitions":[{"topic":"mixed","partition":1,"replicas":[2,3,1]}]}'


def found(shell: CommandLine, kafka: LocalKafka) -> set[tuple[str, str]]:
    typed = shell.type("audit", "--bootstrap", kafka.bootstrap_string, "--json")
    rows = json.loads(typed.out)["findings"]
    return {(row["rule"], row["subject"]) for row in rows if row["severity"] != "unknown"}


def test_what_is_typed_for_mixed_factors_mends_them_and_brings_nothing_new(
    kafka: LocalKafka, shell: CommandLine, tmp_path: Path
) -> None:
    """A lower min.insync.replicas, which the next audit would raise again, is not proposed."""
    topics = [TopicSpec("mixed", [(1, 2), (2, 3)])]
    topics.append(TopicSpec("pair", [(1, 2)], configs={"min.insync.replicas": "3"}))
    create_topics(kafka.bootstrap_string, topics)
    operator = Operator(kafka, tmp_path / "operator", shell.environment)
    operator.paste(
        [
            f"echo '{MIXED}' > mixed.json",
            'kafka-reassign-partitions.sh --bootstrap-server "$BOOTSTRAP" --execute '
            "--reassignment-json-file mixed.json",
        ]
    )
    blocks = ("min-insync-blocks", "topic mixed")
    wait_until(
        lambda: {blocks, ("replication-factor-mixed", "topic mixed")} <= found(shell, kafka),
        "mixed factors",
        timeout_seconds=120,
    )
    before = found(shell, kafka)
    audited = shell.type("audit", "--bootstrap", kafka.bootstrap_string)
    assert "min.insync.replicas=1" not in audited.out
    (command,) = [one for one in printed_commands(audited.out) if "replication-factor" in one]
    of_pair = [line for line in audited.out.splitlines() if "--entity-name pair" in line]
    plan, where = "replication-factor-3.json", f"--bootstrap {kafka.bootstrap_string}"
    operator.paste(
        [
            *of_pair,
            command,
            f"counterpoise approve {plan} {where} --rate 100MB/s --reason 'three replicas'",
            f"counterpoise execute {plan} {where}",
        ]
    )
    after = found(shell, kafka)
    assert not after - before
    assert ("min-insync-blocks", "topic pair") in before - after
    assert {blocks, (ONE_REPLICA, "topic events-0")} <= before - after
