"""The way back: what a run moved, and nothing that a later run or somebody else has moved since."""

import json
from pathlib import Path

import pytest

from counterpoise.kafka_admin.simulated import SimulatedCluster
from counterpoise.model.cluster import TopicPartition
from tests.support.command_line import (
    CommandLine,
    Typed,
    interrupted_while_moving,
    let_commands_reach,
)
from tests.support.pictures import simulated

SKEWED = "\n".join(f"orders-{number}: 1 2 size=30000000" for number in range(6))
YES = ("--rate", "1MB/s", "--reason", "broker 3 is new")
FIRST, SECOND = (TopicPartition("orders", number) for number in (0, 1))


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    made = simulated(SKEWED, racks="1=a 2=b 3=c 4=d")
    let_commands_reach(made, monkeypatch)
    return made


@pytest.fixture
def shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kafka: SimulatedCluster
) -> CommandLine:
    made = CommandLine.in_folder(tmp_path, capsys)
    made.configure("simulated:9092", extra="    policy: {approval: {expires_after: 1h}}\n")
    return made


def imported(shell: CommandLine, name: str, wanted: dict[int, tuple[int, ...]]) -> Path:
    source, path = shell.folder / f"{name}.r.json", shell.folder / f"{name}.json"
    rows = [
        {"topic": "orders", "partition": p, "replicas": list(replicas)}
        for p, replicas in wanted.items()
    ]
    source.write_text(json.dumps({"version": 1, "partitions": rows}))
    typed = shell.type("import", source, "--cluster", "demo", "--out", path)
    assert typed.code == 0, typed.err + typed.out
    return path


def executed(shell: CommandLine, path: Path) -> Path:
    assert shell.type("approve", path, *YES).code == 0
    ran = shell.type("execute", path)
    assert ran.code == 0, ran.err + ran.out
    return path


def interrupted(shell: CommandLine, kafka: SimulatedCluster, path: Path) -> Path:
    assert shell.type("approve", path, *YES).code == 0
    with interrupted_while_moving(kafka):
        shell.type("execute", path)
    return path


def cancelled(shell: CommandLine, path: Path) -> None:
    assert shell.type("cancel", path, "--why", "not now").code == 0
    assert shell.type("execute", path).code == 1


def undone(shell: CommandLine, path: Path, *words: str) -> tuple[Typed, dict[int, list[int]]]:
    """Return what `undo` answers, and the replicas that its plan leads back to."""
    back = shell.folder / "back.json"
    back.unlink(missing_ok=True)
    typed = shell.type("undo", path, "--why", "back", *words, "--out", back)
    moves = json.loads(back.read_text())["moves"] if back.exists() else []
    return typed, {move["partition"]: move["replicas_after"] for move in moves}


def test_a_run_that_was_executed_again_is_later_than_one_that_was_proposed_after_it(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    """A halts, B moves the partition to a step of A, and A is executed again."""
    first = interrupted(shell, kafka, imported(shell, "a", {0: (3, 4)}))
    cancelled(shell, first)
    assert kafka.partitions[FIRST].replicas == (1, 2)
    second = executed(shell, imported(shell, "b", {0: (1, 4)}))
    ran = shell.type("execute", first)
    assert ran.code == 0, ran.out + ran.err
    assert kafka.partitions[FIRST].replicas == (3, 4)
    refused, _ = undone(shell, second)
    assert refused.code == 1 and "moved again since" in " ".join(refused.err.split())
    assert undone(shell, first)[1] == {0: [1, 2]}
