"""The way back: what a run moved, and nothing that a later run or somebody else has moved since."""

import json
from pathlib import Path

import pytest

from counterpoise.errors import CounterpoiseError
from counterpoise.installation import open_installation
from counterpoise.model.approval import Decision
from counterpoise.model.cluster import TopicPartition
from counterpoise.services import approvals
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.command_line import (
    CommandLine,
    Typed,
    interrupted_while_moving,
    let_commands_reach,
)
from tests.support.decisions import BOB
from tests.support.ledger_view import LedgerView, let_two_hours_pass
from tests.support.pictures import ON_TWO_BROKERS, simulated
from tests.support.runs import own_configs

YES = ("--rate", "1MB/s", "--reason", "broker 3 is new")
FIRST, SECOND = (TopicPartition("orders", number) for number in (0, 1))


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    made = simulated(ON_TWO_BROKERS, racks="1=a 2=b 3=c 4=d")
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


def move_by_hand(kafka: SimulatedCluster, partition: TopicPartition, *replicas: int) -> None:
    kafka.alter_reassignments({partition: replicas})
    kafka.advance(3600)
    assert kafka.partitions[partition].replicas == replicas


# -- what somebody else has moved since


@pytest.mark.parametrize("why", ["", "  "])
def test_undo_of_an_ended_run_needs_a_reason_and_keeps_it(shell: CommandLine, why: str) -> None:
    path, back = executed(shell, imported(shell, "a", {0: (3, 2)})), shell.folder / "back.json"
    refused = shell.type("undo", path, "--why", why, "--out", back)
    assert refused.code == 2 and "why: must not be empty" in refused.err
    assert not back.exists()
    assert shell.type("undo", path, "--why", "too slow", "--out", back).code == 0
    with shell._environment(), open_installation() as opened:
        (run,) = opened.ledger.runs()
        *_, event = LedgerView.of(opened.ledger).events(run.run_id)
    fingerprint = json.loads(back.read_text())["fingerprint"]
    text = f"by tester (system user): too slow; made plan {fingerprint}"
    assert (event.kind, event.text) == ("undo plan asked", text)


def test_undo_leaves_and_names_what_somebody_has_moved_on_since(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    path = executed(shell, imported(shell, "a", {0: (3, 2), 1: (3, 2)}))
    move_by_hand(kafka, SECOND, 3, 4)
    typed, back = undone(shell, path)
    assert back == {0: [1, 2]}
    shown = " ".join(typed.out.split())
    assert "1 partition stays where it is: orders-1 has been moved again since" in shown
    assert typed.code == 0


def test_undo_leaves_what_somebody_redirected_before_it_arrived(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    path = interrupted(shell, kafka, imported(shell, "a", {0: (3, 2), 1: (3, 2)}))
    assert SECOND in kafka.list_reassignments()
    kafka.alter_reassignments({SECOND: (4, 2)})
    ran = shell.type("execute", path)
    assert "somebody else redirected 1 move of this run" in ran.out + ran.err
    kafka.advance(3600)
    assert kafka.partitions[SECOND].replicas == (4, 2)
    _, back = undone(shell, path)
    assert back == {0: [1, 2]}


# -- what the run itself has left


def test_undo_takes_back_the_first_step_of_a_move_that_was_cancelled_in_the_second(
    shell: CommandLine, kafka: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = imported(shell, "a", {0: (3, 4)})
    assert shell.type("approve", path, *YES).code == 0

    def interrupt_in_the_second_step(seconds: float) -> None:
        reassignment = kafka.list_reassignments().get(FIRST)
        if reassignment is not None and reassignment.target == (3, 4):
            raise KeyboardInterrupt
        kafka.advance(seconds)

    with monkeypatch.context() as patch:
        patch.setattr("counterpoise.cli.repeating.sleep", interrupt_in_the_second_step)
        shell.type("execute", path)
    cancelled(shell, path)
    assert kafka.partitions[FIRST].replicas == (1, 4)
    assert undone(shell, path)[1] == {0: [1, 2]}


def test_a_cancelled_move_is_where_it_was_so_undo_moves_nothing(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    path = interrupted(shell, kafka, imported(shell, "a", {0: (3, 2)}))
    cancelled(shell, path)
    assert kafka.partitions[FIRST].replicas == (1, 2)
    typed, back = undone(shell, path)
    assert (typed.code, back) == (1, {})
    assert "is left to undo: orders-0 is where it was before" in " ".join(typed.err.split())
    assert not (shell.folder / "back.json").exists()


def test_a_plan_that_was_cancelled_and_undone_runs_again_and_is_undone_again(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    before = {tp: partition.replicas for tp, partition in kafka.partitions.items()}
    path = imported(shell, "a", {0: (3, 2), 1: (3, 2), 2: (3, 2)})
    kafka.partitions[SECOND].size_bytes = 3_000_000_000
    interrupted(shell, kafka, path)
    kafka.advance(150)
    cancelled(shell, path)
    kafka.partitions[SECOND].size_bytes = 30_000_000
    assert undone(shell, path)[1].keys() == {0, 2}
    executed(shell, shell.folder / "back.json")
    assert {tp: partition.replicas for tp, partition in kafka.partitions.items()} == before
    assert shell.type("propose", path).code == 0
    executed(shell, path)
    assert undone(shell, path)[1] == {0: [1, 2], 1: [1, 2], 2: [1, 2]}
    executed(shell, shell.folder / "back.json")
    assert {tp: partition.replicas for tp, partition in kafka.partitions.items()} == before
    assert own_configs(kafka) == {}
    assert shell.type("watch", "--cluster", "demo").code == 0


# -- what another run has moved since


def test_a_run_can_be_undone_once_the_later_one_is(shell: CommandLine) -> None:
    first = executed(shell, imported(shell, "a", {0: (3, 2)}))
    second = executed(shell, imported(shell, "b", {0: (3, 4)}))
    refused, _ = undone(shell, first)
    assert refused.code == 1 and "moved again since" in " ".join(refused.err.split())
    assert undone(shell, second)[1] == {0: [3, 2]}
    executed(shell, shell.folder / "back.json")
    typed, back = undone(shell, first)
    assert (typed.code, back) == (0, {0: [1, 2]}), typed.err


def test_undo_can_be_asked_for_again_after_an_undo_was_cancelled_half_way(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    path = executed(shell, imported(shell, "a", {0: (3, 2), 1: (3, 2)}))
    undone(shell, path)
    stopped = (shell.folder / "back.json").rename(shell.folder / "stopped.json")
    interrupted(shell, kafka, stopped)
    kafka.partitions[FIRST].copied[1] = kafka.partitions[FIRST].size_bytes
    kafka.advance(1)
    cancelled(shell, stopped)
    assert [kafka.partitions[tp].replicas for tp in (FIRST, SECOND)] == [(1, 2), (3, 2)]
    typed, back = undone(shell, path)
    assert (typed.code, back) == (0, {1: [1, 2]}), typed.err
    executed(shell, shell.folder / "back.json")
    assert [kafka.partitions[tp].replicas for tp in (FIRST, SECOND)] == [(1, 2), (1, 2)]


# -- what cannot go back now


def test_undo_takes_back_what_can_go_back_when_one_of_the_old_brokers_is_lost(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    move_by_hand(kafka, SECOND, 4, 2)
    path = executed(shell, imported(shell, "a", {0: (3, 2), 1: (3, 2)}))
    kafka.kill_broker(1)
    typed, back = undone(shell, path)
    assert (typed.code, back) == (0, {1: [4, 2]}), typed.err
    shown = " ".join(typed.out.split())
    assert "orders-0 cannot go back now (broker 1 is not live)" in shown
    executed(shell, shell.folder / "back.json")
    kafka.restart_broker(1)
    kafka.advance(60)
    assert undone(shell, path)[1] == {0: [1, 2]}


# -- when old rows of the ledger are deleted


def test_undo_of_a_run_whose_rows_are_deleted_says_so_also_where_somebody_has_answered_since(
    shell: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = executed(shell, imported(shell, "a", {0: (3, 2)}))
    between = let_two_hours_pass(monkeypatch)
    typed = shell.type("ledger", "prune", "--cluster", "demo", "--before", between)
    assert typed.code == 0, typed.out + typed.err
    with shell._environment(), open_installation() as opened:
        (run,) = opened.ledger.runs()
        answer = {
            "decision": Decision.GRANTED,
            "by": BOB,
            "reason": "x",
            "rate": "1MB",
        }
        with pytest.raises(CounterpoiseError):
            approvals.answer(opened, run.run_id, run.fingerprint, **answer)
        (event,) = LedgerView.of(opened.ledger).events(run.run_id)
    assert event.kind == "answer refused"
    typed, _ = undone(shell, path)
    assert typed.code == 1 and "ledger prune" in " ".join(typed.err.split())


def test_undo_takes_back_the_others_when_somebody_is_moving_one_partition(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    path = executed(shell, imported(shell, "a", {0: (3, 2), 1: (3, 2)}))
    kafka.alter_reassignments({SECOND: (3, 4)})
    typed, back = undone(shell, path)
    assert back == {0: [1, 2]}, typed.err
    shown = " ".join(typed.out.split())
    assert "orders-1 cannot go back now (being reassigned now: wait for its end)" in shown
