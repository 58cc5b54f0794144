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
from tests.support.command_line import CommandLine
from tests.support.pasting import Operator

ONE_REPLICA: Final = "replication-factor-1"
TOPICS: Final = tuple(TopicSpec(f"events-{number}", [(1,), (2,), (3,)]) for number in range(4))


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    folder = tmp_path_factory.mktemp("copied")
    with local_kafka.running(folder, brokers_in_racks("a", "b", "c")) as started:
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
