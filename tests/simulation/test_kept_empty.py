"""Brokers that somebody emptied: nothing is sent there until somebody releases them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from counterpoise.installation import Installation, open_installation
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.person import Person
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.request import Goal, RebalanceRequest
from counterpoise.services import plans, proposals
from counterpoise.services.proposals import why_nothing_is_proposed
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.command_line import (
    CommandLine,
    Typed,
    interrupted_while_moving,
    let_commands_reach,
)
from tests.support.hand_analysis import analyse_by_hand, held_by
from tests.support.pictures import simulated
from tests.support.planned_runs import planned_run

EVEN = "\n".join(f"orders-{n}: {n % 4 + 1} {(n + 1) % 4 + 1} size=10000000" for n in range(12))
YES = ("--rate", "5MB/s", "--reason", "go on")
REMOVE_4 = ("--goal", "remove-brokers", "--brokers", "4")
ADD_4 = ("--goal", "add-brokers", "--brokers", "4")
RELEASE = ("release", "demo", "--brokers", "4", "--why", "it has its new disks")
REFUSED = (
    "requested by tester (system user)). Nothing is moved there before somebody releases it: "
    "`counterpoise release demo --brokers 4 --why TEXT`, or Release on the cluster's page"
)


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    made = simulated(EVEN, racks="1=a 2=b 3=c 4=d")
    let_commands_reach(made, monkeypatch)
    return made


def planned(shell: CommandLine, *words: str, name: str = "plan") -> tuple[Typed, Path]:
    path = shell.folder / f"{name}.json"
    path.unlink(missing_ok=True)
    return shell.type("plan", "--cluster", "demo", *words, "--out", path), path


def executed(shell: CommandLine, path: Path, code: int = 0) -> Typed:
    approved = shell.type("approve", path, *YES)
    assert approved.code == 0, approved.err
    ran = shell.type("execute", path)
    assert ran.code == code, ran.err + ran.out
    return ran


def drained(shell: CommandLine) -> Path:
    typed, path = planned(shell, *REMOVE_4, name="removal")
    assert typed.code == 0, typed.err
    executed(shell, path)
    return path


@contextmanager
def analysing(shell: CommandLine) -> Iterator[Installation]:
    with shell._environment(), open_installation() as installation:
        yield installation


def proposed(shell: CommandLine, kafka: SimulatedCluster) -> tuple[str, list[int]] | None:
    """What an hour's snapshot and analysis propose."""
    with analysing(shell) as installation:
        analyse_by_hand(installation, held_by(kafka))
        wanted = proposals.propose(installation, "demo")
    return None if wanted is None else (wanted["goal"], wanted["broker_ids"])


def kept_empty(shell: CommandLine) -> list[int]:
    with analysing(shell) as installation:
        return [*installation.active_requests("demo").kept_empty]


def receiving(path: Path) -> frozenset[int]:
    return RebalancePlan.from_json(path.read_text()).receiving_broker_ids


def test_nothing_is_proposed_onto_a_drained_broker_until_somebody_releases_it(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    drained(shell)
    assert proposed(shell, kafka) is None, "the others are even"
    shown = shell.type("status").out
    assert "demo: broker 4 is kept empty since 20" in shown
    assert "emptied it, requested by tester (system user))" in shown
    released = shell.type(*RELEASE, user="bob")
    assert (released.code, released.out) == (
        0,
        "released on cluster demo: 4; plans may move replicas there again\n",
    )
    assert "kept empty" not in shell.type("status").out
    assert proposed(shell, kafka) == ("add-brokers", [4])
    again = shell.type(*RELEASE)
    assert again.code == 1
    assert "broker 4 of demo is not kept empty" in again.err


def test_uneven_leaders_of_the_others_are_proposed_and_leave_it_out(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    """Once: the plan that waits is the one that is wanted."""
    drained(shell)
    led_by_1 = {TopicPartition("orders", n): (1, n % 2 + 2) for n in range(8)}
    kafka.alter_reassignments(led_by_1)
    kafka.advance(3600)
    kafka.elect_preferred_leaders([*led_by_1])
    assert proposed(shell, kafka) == ("leaders", [])
    with analysing(shell) as installation:
        run = planned_run(
            installation,
            "demo",
            RebalanceRequest(Goal.LEADERS),
            plans.Origin(Person.of_analysis()),
        )
        assert run is not None
        plan = installation.run_and_plan(run["run_id"])[1]
    assert plan.scope.excluded_broker_ids == (4,)
    assert plan.receiving_broker_ids <= {1, 2, 3}
    assert proposed(shell, kafka) is None


@pytest.mark.parametrize("goal", ["rebalance", "leaders", "replication-factor"])
def test_a_plan_by_command_sends_nothing_there(
    shell: CommandLine, kafka: SimulatedCluster, goal: str
) -> None:
    drained(shell)
    for number in range(4):  # uneven
        kafka.alter_reassignments({TopicPartition("orders", number): (1, 2)})
    kafka.advance(3600)
    words = ("--replication-factor", "3", "--topics", "*") if goal == "replication-factor" else ()
    typed, path = planned(shell, "--goal", goal, *words)
    assert typed.code == 0, typed.err
    assert receiving(path) and 4 not in receiving(path)
    assert "broker 4 is kept empty since" in " ".join(typed.out.split())
    executed(shell, path)
    assert held_by(kafka)[4] == (0, 0, 0, 0, 0)


@pytest.mark.parametrize("words", [ADD_4, ("--goal", "rebalance", "--only-brokers", "1,2,4")])
def test_who_names_it_is_told_to_release_it_first(
    shell: CommandLine, kafka: SimulatedCluster, words: tuple[str, ...]
) -> None:
    drained(shell)
    typed, path = planned(shell, *words)
    assert typed.code == 1
    assert REFUSED in typed.err
    assert not path.exists()
    assert shell.type(*RELEASE).code == 0
    assert planned(shell, *words)[0].code == 0


def test_a_plan_that_was_made_elsewhere_or_before_is_refused(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    """Of a cluster document, which needs no ledger; and of a reassignment JSON."""
    drained(shell)
    state, source = shell.folder / "state.json", shell.folder / "r.json"
    assert shell.type("snapshot", "--cluster", "demo", "--out", state).code == 0
    rows = [{"topic": "orders", "partition": 0, "replicas": [4, 2]}]
    source.write_text(json.dumps({"version": 1, "partitions": rows}))
    path, imported = shell.folder / "plan.json", shell.folder / "imported.json"
    assert shell.type("plan", "--state", state, *ADD_4, "--out", path).code == 0
    assert shell.type("import", source, "--cluster", "demo", "--out", imported).code == 0
    for plan in (path, imported):
        for typed in (shell.type("propose", plan), shell.type("approve", plan, *YES)):
            assert typed.code == 1
            assert REFUSED in typed.err
    assert shell.type(*RELEASE).code == 0
    executed(shell, imported)
    assert held_by(kafka)[4] == (1, 1, 0, 1, 1)


def test_the_undo_of_another_run_than_the_one_that_emptied_it_is_refused(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    rows = [{"topic": "orders", "partition": 3, "replicas": [2, 1]}]  # broker 4 led it
    source, path = shell.folder / "r.json", shell.folder / "imported.json"
    source.write_text(json.dumps({"version": 1, "partitions": rows}))
    assert shell.type("import", source, "--cluster", "demo", "--out", path).code == 0
    executed(shell, path)
    drained(shell)
    back = ("undo", path, "--why", "it was good", "--out", shell.folder / "back.json")
    undone = shell.type(*back)
    assert undone.code == 1
    assert REFUSED in undone.err
    assert shell.type(*RELEASE).code == 0
    assert shell.type(*back).code == 0


def test_a_halted_run_that_is_executed_again_is_refused(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    """Its yes is from before somebody emptied the broker; so is a new one refused."""
    drained(shell)
    assert shell.type(*RELEASE).code == 0
    one_at_a_time = "    policy: {movement: {max_moves_in_flight: 1}}\n"
    shell.configure("simulated:9092", extra=one_at_a_time)
    _, addition = planned(shell, *ADD_4, name="addition")
    assert shell.type("approve", addition, *YES).code == 0
    with interrupted_while_moving(kafka):
        shell.type("execute", addition)
    assert shell.type("settle", addition).code == 0
    assert "halted" in shell.type("status").out
    drained(shell)
    for words in (("execute", addition), ("approve", addition, *YES)):
        typed = shell.type(*words)
        assert typed.code == 1, typed.out
        assert REFUSED in typed.err
    assert held_by(kafka)[4] == (0, 0, 0, 0, 0)
    assert shell.type(*RELEASE).code == 0
    assert shell.type("execute", addition).code in (0, 1)


def test_the_undo_of_the_removal_brings_everything_back_and_releases_it(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    before = held_by(kafka)
    path, back = drained(shell), shell.folder / "back.json"
    typed = shell.type("undo", path, "--why", "it stays", "--out", back)
    assert typed.code == 0, typed.err
    assert kept_empty(shell) == [4]
    executed(shell, back)
    assert held_by(kafka) == before
    assert kept_empty(shell) == []
    assert "kept empty" not in shell.type("status").out


def test_a_broker_that_the_undo_of_an_addition_empties_is_kept_empty(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    drained(shell)
    assert shell.type(*RELEASE).code == 0
    _, path = planned(shell, *ADD_4)
    executed(shell, path)
    assert kept_empty(shell) == []
    back = shell.folder / "back.json"
    assert shell.type("undo", path, "--why", "too slow", "--out", back).code == 0
    executed(shell, back)
    assert held_by(kafka)[4] == (0, 0, 0, 0, 0)
    assert kept_empty(shell) == [4]
    with analysing(shell) as installation:
        words = why_nothing_is_proposed(installation, "demo")
    assert words.startswith("nothing is proposed before 20")
    assert "tester (system user) took back an earlier run with run demo-" in words


def test_a_cancelled_removal_keeps_nothing_empty(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    _, path = planned(shell, *REMOVE_4)
    assert shell.type("approve", path, *YES).code == 0
    with interrupted_while_moving(kafka):
        shell.type("execute", path)
    assert shell.type("cancel", path, "--why", "not now").code == 0
    assert shell.type("execute", path).code == 1
    assert kept_empty(shell) == []
    assert planned(shell, *ADD_4)[0].code in (0, 1), "it may be added, or has its share"


@pytest.mark.parametrize("limit", [("--max-bytes", "20MB"), ("--topics", "orders")])
def test_a_broker_on_which_the_removal_leaves_replicas_is_not_kept_empty(
    shell: CommandLine, monkeypatch: pytest.MonkeyPatch, limit: tuple[str, ...]
) -> None:
    kafka = simulated(f"{EVEN}\npayments-0: 4 1 size=10000000", racks="1=a 2=b 3=c 4=d")
    let_commands_reach(kafka, monkeypatch)
    typed, path = planned(shell, *REMOVE_4, *limit)
    assert typed.code == 0, typed.err
    executed(shell, path)
    assert any(held_by(kafka)[4])
    assert kept_empty(shell) == []
    drained(shell)
    assert kept_empty(shell) == [4]
