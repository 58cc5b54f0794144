"""A cluster's policy holds whatever address somebody types, and for plans from documents."""

import json
from pathlib import Path

import pytest

from counterpoise.cli import repeating
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.command_line import CommandLine, Typed, let_commands_reach
from tests.support.pictures import simulated
from tests.support.runs import own_configs

SKEWED = "\n".join(
    f"{topic}-{number}: 1 2 size=30000000"
    for topic in ("orders", "audit-log")
    for number in range(4)
)
CLUSTER_ID = "picture-id"
AT = ("--bootstrap", "elsewhere:9092")
GOAL = ("--goal", "add-brokers", "--brokers", "3")
YES = ("--rate", "1MB/s", "--reason", "broker 3 is new")
BOB_APPROVES = "access: {approve: [bob]}, approval: {max_rate: 50MB/s}"


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    made = simulated(SKEWED, racks="1=a 2=b 3=c")
    let_commands_reach(made, monkeypatch)
    return made


def configure(
    shell: CommandLine, policy: str = "", *, name: str = "demo", cluster_id: str = ""
) -> None:
    pinned = f"    cluster_id: {cluster_id}\n" if cluster_id else ""
    shell.configure("simulated:9092", cluster=name, extra=f"{pinned}    policy: {{{policy}}}\n")


def plan_of(shell: CommandLine, *where: str | Path, name: str = "plan.json") -> Path:
    path = shell.folder / name
    typed = shell.type("plan", *where, *GOAL, "--out", path)
    assert typed.code == 0, typed.err
    return path


def document_of(shell: CommandLine, *where: str | Path) -> Path:
    path = shell.folder / "state.json"
    assert shell.type("snapshot", *where, "--out", path).code == 0
    return path


def moved_topics(path: Path) -> set[str]:
    return {move["topic"] for move in json.loads(path.read_text())["moves"]}


def refused(typed: Typed, says: str, code: int = 1) -> None:
    assert typed.code == code, typed.err or typed.out
    assert says in typed.err
    assert "Traceback" not in typed.err


def test_an_address_does_not_switch_the_approvers_and_the_limits_of_rates_off(
    shell: CommandLine,
) -> None:
    configure(shell, BOB_APPROVES)
    path = plan_of(shell, "--cluster", "demo")
    words = ("approve", path, *AT, "--reason", "x")
    fast = (*words, "--rate", "100GB/s")
    refused(shell.type(*fast, user="mallory"), "may not approve here; the policy names bob")
    assert json.loads(shell.type("status", "--json").out) == []
    assert shell.type("propose", path, *AT, user="mallory").code == 0
    refused(shell.type(*words, "--rate", "100GB/s", user="bob"), "max_rate is 50.0 MB/s")
    assert shell.type(*words, "--rate", "40MB/s", user="bob").code == 0


def test_an_address_does_not_switch_windows_and_caps_off(
    shell: CommandLine, kafka: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(shell, 'movement: {windows: [{starts: "0 0 29 2 *", lasts: 1m}]}')
    path = plan_of(shell, "--cluster", "demo")
    assert shell.type("approve", path, *AT, *YES).code == 0
    turns = iter(range(20))

    def wait(seconds: float) -> None:
        kafka.advance(seconds)
        if next(turns) == 10:
            raise KeyboardInterrupt

    monkeypatch.setattr(repeating, "sleep", wait)
    typed = shell.type("execute", path, *AT)
    assert typed.code == 130
    assert "window" in typed.out
    assert not kafka.list_reassignments()


def test_an_address_does_not_switch_the_pinned_cluster_id_off(shell: CommandLine) -> None:
    configure(shell, cluster_id=CLUSTER_ID)
    path = plan_of(shell, "--cluster", "demo")
    configure(shell, cluster_id="another-id")
    refused(shell.type("approve", path, *AT, *YES), "another-id", code=3)


def test_an_address_of_a_named_cluster_makes_plans_for_that_name(shell: CommandLine) -> None:
    configure(shell, 'balance: {excluded_topics: ["audit-*"]}', cluster_id=CLUSTER_ID)
    path = plan_of(shell, *AT)
    assert json.loads(path.read_text())["cluster"] == "demo"
    assert moved_topics(path) == {"orders"}


def test_the_ledger_knows_the_id_of_a_cluster_that_the_settings_only_name(
    shell: CommandLine,
) -> None:
    configure(shell, BOB_APPROVES)
    assert shell.type("snapshot", "--cluster", "demo").code == 0
    path = plan_of(shell, *AT)
    assert json.loads(path.read_text())["cluster"] == "demo"


def test_a_plan_under_another_name_does_not_escape_the_policy(shell: CommandLine) -> None:
    path = plan_of(shell, *AT)
    assert json.loads(path.read_text())["cluster"] == f"kafka-{CLUSTER_ID}"
    configure(shell, BOB_APPROVES, cluster_id=CLUSTER_ID)
    denied = shell.type("approve", path, *AT, *YES, user="mallory")
    refused(denied, "may not approve here; the policy names bob")
    for command in (("propose",), ("reject", "--reason", "x")):
        typed = shell.type(command[0], path, *AT, *command[1:], user="bob")
        refused(typed, "make the plan for demo")


def test_a_run_approved_under_another_name_does_not_start(shell: CommandLine) -> None:
    path = plan_of(shell, *AT)
    assert shell.type("approve", path, *AT, *YES).code == 0
    configure(shell, cluster_id=CLUSTER_ID)
    refused(shell.type("execute", path, *AT), "make the plan for demo")
    configure(shell, "access: {operate: [bob]}", cluster_id=CLUSTER_ID)
    refused(shell.type("execute", path, *AT), "may not operate here; the policy names bob")


def test_a_plan_does_not_meet_another_cluster_at_an_address(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    path = plan_of(shell, *AT)
    kafka.cluster_id = "another-id"
    refused(shell.type("approve", path, *AT, *YES), "another-id", code=3)


def test_a_cluster_that_is_listed_under_two_names_is_refused_under_the_second(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    """Also where no cluster_id is written: a run, a step lock and a policy for each name would be
    two for the same brokers.
    """
    configure(shell)
    assert shell.type("snapshot", "--cluster", "demo").code == 0
    shell.configure("simulated:9092", extra="  again:\n    connection: kafka\n")
    out = ("--out", shell.folder / "again.json")
    for command in (("snapshot", *out), ("plan", *GOAL, *out)):
        typed = shell.type(command[0], "--cluster", "again", *command[1:])
        refused(typed, "which is demo of", code=3)
    assert "again" not in shell.type("status").out
    plan_of(shell, "--cluster", "demo")
    plan_of(shell, *AT)
    shell.configure("simulated:9092", cluster="again")  # renamed
    assert shell.type("snapshot", "--cluster", "again").code == 0


@pytest.mark.parametrize("by", ["name", "id"])
def test_a_document_is_planned_by_the_policy_of_its_cluster(shell: CommandLine, by: str) -> None:
    configure(shell)
    document = document_of(shell, "--cluster", "demo")
    policy = 'balance: {excluded_topics: ["audit-*"]}'
    if by == "name":
        configure(shell, policy)
    else:
        content = json.loads(document.read_text()) | {"cluster": "as-exported"}
        document.write_text(json.dumps(content))
        configure(shell, policy, cluster_id=CLUSTER_ID)
    path = plan_of(shell, "--state", document)
    assert moved_topics(path) == {"orders"}
    assert json.loads(path.read_text())["cluster"] == "demo"


def test_a_document_of_another_cluster_under_this_name_is_refused(shell: CommandLine) -> None:
    configure(shell)
    document = document_of(shell, "--cluster", "demo")
    configure(shell, cluster_id="another-id")
    words = ("--state", document, *GOAL, "--out", shell.folder / "p.json")
    refused(shell.type("plan", *words), "another-id", code=2)


def test_settings_that_cannot_be_read_switch_no_policy_off(shell: CommandLine) -> None:
    configure(shell)
    document = document_of(shell, "--cluster", "demo")
    path = plan_of(shell, "--cluster", "demo")
    (shell.folder / "clusters.yaml").write_text("clusters: [")
    words = ("--state", document, *GOAL, "--out", shell.folder / "p.json")
    refused(shell.type("plan", *words), "clusters.yaml", code=2)
    refused(shell.type("approve", path, *AT, *YES), "clusters.yaml", code=2)


def test_the_emergency_stop_needs_no_settings(shell: CommandLine) -> None:
    configure(shell)
    path = plan_of(shell, "--cluster", "demo")
    (shell.folder / "clusters.yaml").write_text("clusters: [")
    typed = shell.type("stop", "--from-plan", path, *AT)
    assert typed.code == 0, typed.err


@pytest.mark.parametrize("is_kept", [True, False], ids=["its snapshot", "a fresh snapshot"])
def test_a_plan_against_the_policy_is_neither_approved_nor_executed(
    shell: CommandLine, kafka: SimulatedCluster, is_kept: bool
) -> None:
    configure(shell)
    path = plan_of(shell, *(("--cluster", "demo") if is_kept else AT))
    if not is_kept:
        configure(shell, cluster_id=CLUSTER_ID)
        path = plan_of(shell, *AT)
    assert moved_topics(path) == {"orders", "audit-log"}
    configure(shell, 'balance: {excluded_topics: ["audit-*"]}')
    refused(shell.type("approve", path, *YES), "is of a topic that the policy excludes")
    refused(shell.type("approve", path, *AT, *YES), "is of a topic that the policy excludes")
    configure(shell)
    assert shell.type("approve", path, *YES).code == 0
    configure(shell, 'balance: {excluded_topics: ["audit-*"]}')
    refused(shell.type("execute", path, *AT), "is of a topic that the policy excludes")
    assert not kafka.list_reassignments() and own_configs(kafka) == {}


def test_a_run_goes_on_whatever_it_has_moved(
    shell: CommandLine, kafka: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own progress is no reason to refuse it: the plan was checked before anything moved."""
    configure(shell, cluster_id=CLUSTER_ID)
    path = plan_of(shell, *AT)
    assert shell.type("approve", path, *AT, *YES).code == 0

    def advance_or_stop(seconds: float) -> None:
        if any(set(p.replicas) == {3} for t in kafka.describe_topics() for p in t.partitions):
            raise KeyboardInterrupt
        if kafka.list_reassignments():
            kafka.advance(seconds)
            raise KeyboardInterrupt
        kafka.advance(seconds)

    with monkeypatch.context() as patch:
        patch.setattr(repeating, "sleep", advance_or_stop)
        assert shell.type("execute", path, *AT).code == 130
    typed = shell.type("execute", path, *AT)
    assert typed.code == 0, typed.err


def test_the_name_of_another_cluster_does_not_bring_its_policy(shell: CommandLine) -> None:
    """A document is edited easily; what meets a cluster is its id."""
    configure(shell)
    document = document_of(shell, "--cluster", "demo")
    shell.configure(
        "simulated:9092",
        extra=f"    cluster_id: {CLUSTER_ID}\n    policy: {{{BOB_APPROVES}}}\n"
        "  test:\n    connection: kafka\n",
    )
    renamed = json.loads(document.read_text()) | {"cluster": "test"}
    document.write_text(json.dumps(renamed))
    refused(
        shell.type("plan", "--state", document, *GOAL, "--out", shell.folder / "p.json"),
        f"cluster id {CLUSTER_ID}, which is demo",
        code=2,
    )
