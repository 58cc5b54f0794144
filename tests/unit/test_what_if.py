"""A plan for brokers that are not there yet: shown, and written nowhere."""

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


def planned(shell: CommandLine, goal: str, *more: str) -> dict[str, object]:
    typed = shell.type(*words(shell, "--goal", goal, *more, "--json"))
    assert typed.code == 0, typed.err
    told: dict[str, object] = json.loads(typed.out)
    return told


def test_what_if_two_more_brokers_were_there(shell: CommandLine) -> None:
    what_if = ("--what-if-brokers", "2", "--rate", "1kB/s")
    add = planned(shell, "add-brokers", *what_if)
    rebalance = planned(shell, "rebalance", *what_if)
    assert (add["goal"], add["brokers"]) == ("add-brokers", [5, 6])
    # Rack a has two brokers, so that the new ones join b and c: 30 replicas for each of the six.
    assert replicas_after(rebalance) == {"lowest": 30, "highest": 30}
    assert add["copied_bytes"] < rebalance["copied_bytes"]  # type: ignore[operator]
    assert [path.name for path in shell.folder.iterdir()] == ["state.json"]


def replicas_after(told: dict[str, object]) -> object:
    return told["per_broker"]["replicas"]["after"]  # type: ignore[index]


def test_the_plan_is_shown_as_any_other(shell: CommandLine) -> None:
    typed = shell.type(*words(shell, "--goal", "add-brokers", "--what-if-brokers", "1"))
    assert typed.code == 0
    assert "add-brokers 5" in typed.out and "replicas" in typed.out


def test_a_rack_of_their_own(shell: CommandLine) -> None:
    told = planned(shell, "rebalance", "--what-if-brokers", "1", "--rack", "d")
    assert told["per_broker"]["leaders"]["after"] == {"lowest": 12, "highest": 12}  # type: ignore[index]


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (("--goal", "balance", "--what-if-brokers", "1"), "'balance' is unknown"),
        (("--goal", "rebalance", "--what-if-brokers", "0"), "whole number from 1"),
        (("--goal", "rebalance", "--what-if-brokers", "1", "--out", "p"), "--out is for a plan"),
        (("--what-if-brokers", "1"), "required: --goal"),
        (("--goal", "rebalance"), "required: --out"),
        (("--out", "p"), "required: --goal"),
        (("--goal", "rebalance", "--out", "p", "--rack", "a"), "--rack is for"),
    ],
)
def test_what_is_wrong_is_said(shell: CommandLine, more: tuple[str, ...], complaint: str) -> None:
    typed = shell.type(*words(shell, *more))
    assert typed.code == 2
    assert complaint in typed.err + typed.out
