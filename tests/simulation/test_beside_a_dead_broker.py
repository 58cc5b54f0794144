"""Plans where a replica has to stay on a dead broker, from command to end."""

from pathlib import Path

import pytest

from counterpoise.model.cluster import TopicPartition
from tests.support.command_line import CommandLine, let_commands_reach
from tests.support.pictures import simulated

# Broker 4 is dead. Partitions with a replica on it are left to goal repair, and led by who can.
FOUR_IS_DEAD = "1=a 2=b 3=c !4=c 5=a"
PICTURE = """
    orders-0: 4 1 5 @1 size=1000000
    orders-1: 5 1 2 @5 size=1000000
    orders-2: 4 2 5 @2 size=1000000
    orders-3: 1 4 @1 size=1000000
    orders-4: 4 2 @2 size=1000000
"""


@pytest.mark.parametrize(
    "goal",
    (
        ("--goal", "remove-brokers", "--brokers", "5"),
        ("--goal", "replication-factor", "--replication-factor", "3", "--topics", "orders"),
    ),
    ids=lambda words: words[1],
)
def test_what_is_left_to_repair_stands_in_nobodys_way(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    goal: tuple[str, ...],
) -> None:
    let_commands_reach(simulated(PICTURE, racks=FOUR_IS_DEAD), monkeypatch)
    shell = CommandLine.in_folder(tmp_path, capsys)
    shell.configure("simulated:9092")
    path = tmp_path / "plan.json"
    planned = shell.type("plan", "--cluster", "demo", *goal, "--out", path)
    assert planned.code == 0
    assert "left to goal repair" in planned.out + planned.err
    approved = shell.type("approve", path, "--rate", "1MB/s", "--reason", "as planned")
    assert approved.code == 0, approved.err
    ran = shell.type("execute", path)
    assert ran.code == 0, ran.err


def test_a_partition_of_which_one_of_two_dead_replicas_fits_nowhere_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = "orders-0: 3 4 1 @1 size=1000000\norders-1: 4 1 @1 size=1000000"
    kafka = simulated(picture, racks="1=a 2=b !3=c !4=d")
    let_commands_reach(kafka, monkeypatch)
    shell = CommandLine.in_folder(tmp_path, capsys)
    shell.configure("simulated:9092")
    path = tmp_path / "plan.json"
    planned = shell.type("plan", "--cluster", "demo", "--goal", "repair", "--out", path)
    assert planned.code == 0
    assert "1 partition (orders-0) is without a broker to go to" in planned.out + planned.err
    assert shell.type("approve", path, "--rate", "1MB/s", "--reason", "as planned").code == 0
    ran = shell.type("execute", path)
    assert ran.code == 0, ran.err
    assert set(kafka.partitions[TopicPartition("orders", 0)].replicas) == {1, 3, 4}
    assert set(kafka.partitions[TopicPartition("orders", 1)].replicas) == {1, 2}
