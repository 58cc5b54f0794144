"""Several plans for one snapshot beside each other, before one is asked for."""

import json
from pathlib import Path

import pytest

from counterpoise.model.document import to_document
from tests.support.command_line import CommandLine
from tests.support.pictures import cluster

LINES = [
    f"t-{n}: {' '.join('123123'[n % 3 : n % 3 + 3])} size={1000 + n} rate=100" for n in range(60)
]


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    snapshot = cluster("\n".join(LINES), racks="1=a 2=b 3=c 4=a", name="demo")
    (tmp_path / "state.json").write_text(json.dumps(to_document(snapshot)))
    return CommandLine.in_folder(tmp_path, capsys)


def words(shell: CommandLine, *more: str) -> list[str | Path]:
    return ["plan", "--state", shell.folder / "state.json", *more]


def test_plans_stand_beside_each_other_and_nothing_is_written(shell: CommandLine) -> None:
    typed = shell.type(
        *words(shell, "--compare", "add-brokers,rebalance,leaders", "--brokers", "4"),
        *("--rate", "1kB/s"),
    )
    assert typed.code == 0
    for expected in ("add-brokers 4", "rebalance", "bytes copied", "takes about", "bytes in"):
        assert expected in typed.out
    assert [path.name for path in shell.folder.iterdir()] == ["state.json"]


def test_what_if_two_more_brokers_were_there(shell: CommandLine) -> None:
    typed = shell.type(*words(shell, "--what-if-brokers", "2", "--json", "--rate", "1kB/s"))
    assert typed.code == 0
    told = json.loads(typed.out)
    assert told["new_brokers"] == [5, 6]
    add, rebalance = told["plans"]
    assert (add["goal"], add["brokers"]) == ("add-brokers", [5, 6])
    # Rack a has two brokers, so that the new ones join b and c: 30 replicas for each of the six.
    assert rebalance["per_broker"]["replicas"]["after"] == {"lowest": 30, "highest": 30}
    assert add["copied_bytes"] < rebalance["copied_bytes"]
    assert 0 < add["expected_seconds"] <= rebalance["expected_seconds"]


def test_a_rack_of_their_own(shell: CommandLine) -> None:
    typed = shell.type(*words(shell, "--what-if-brokers", "1", "--rack", "d", "--json"))
    told = json.loads(typed.out)
    assert told["plans"][1]["per_broker"]["leaders"]["after"] == {"lowest": 12, "highest": 12}


def test_a_goal_that_cannot_be_planned_does_not_hide_the_others(shell: CommandLine) -> None:
    typed = shell.type(*words(shell, "--compare", "add-brokers,rebalance"))
    assert typed.code == 0
    assert "add-brokers: goal add-brokers needs the brokers" in typed.out
    assert "bytes copied" in typed.out


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (("--compare", "balance"), "'balance' is unknown"),
        (("--compare", "rebalance", "--out", "p"), "--out is for one plan"),
        (("--what-if-brokers", "0"), "whole number from 1"),
        (("--compare", "rebalance", "--rack", "a"), "--rack is for --what-if-brokers"),
        (("--goal", "rebalance"), "required: --out"),
        (("--out", "p"), "required: --goal"),
        (("--goal", "rebalance", "--out", "p", "--rack", "a"), "--rack is for"),
    ],
)
def test_what_is_wrong_is_said(shell: CommandLine, more: tuple[str, ...], complaint: str) -> None:
    typed = shell.type(*words(shell, *more))
    assert typed.code == 2
    assert complaint in typed.err + typed.out
