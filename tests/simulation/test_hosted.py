"""Clusters that a provider runs, typed and on the simulated cluster: what is not open is refused
before anything changes, and calls are as small as the provider asks for.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from counterpoise.errors import ConfigurationError, NotPermittedError
from counterpoise.installation import open_installation
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.provider import Provider
from counterpoise.services import self_check
from counterpoise.services.emergency_stop import stop_from_plan
from counterpoise.settings import parse_settings
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.audits import connectivity, snapshot_of
from tests.support.command_line import CommandLine, interrupted_while_moving, let_commands_reach
from tests.support.pictures import simulated
from tests.support.runs import own_configs

SKEWED = "\n".join(f"orders-{number}: 1 2 size=1000" for number in range(60))
DEMO = ("--cluster", "demo")
GOAL = ("--goal", "add-brokers", "--brokers", "3")
YES = ("--rate", "100MB/s", "--reason", "broker 3 is new")


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    made = simulated(SKEWED, racks="1=a 2=b 3=c")
    let_commands_reach(made, monkeypatch)
    return made


def configure(shell: CommandLine, provider: str) -> None:
    shell.configure("simulated:9092", extra=f"    policy: {{provider: {provider}}}\n")


def plan_of(shell: CommandLine) -> Path:
    path = shell.folder / "plan.json"
    typed = shell.type("plan", *DEMO, *GOAL, "--out", path)
    assert typed.code == 0, typed.err
    return path


def sizes_of_calls(kafka: SimulatedCluster) -> list[int]:
    targets = [call.argument for call in kafka.calls if call.name == "alter_reassignments"]
    return [len(each) for each in targets if isinstance(each, Mapping)]


def test_an_unknown_provider_is_named_with_its_line() -> None:
    content = "clusters:\n  demo:\n    connection: kafka\n    policy:\n      provider: azure\n"
    with pytest.raises(ConfigurationError) as refused:
        parse_settings(content, where="clusters.yaml")
    assert "line 5" in str(refused.value)
    assert "is none of msk, msk-serverless, confluent, strimzi" in str(refused.value)


def test_no_call_on_msk_has_more_than_10_partitions(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    configure(shell, "msk")
    plan = plan_of(shell)
    assert len(json.loads(plan.read_text())["moves"]) > 20
    assert shell.type("approve", plan, *YES).code == 0
    executed = shell.type("execute", plan)
    assert executed.code == 0, executed.err
    assert max(sizes_of_calls(kafka)) == 10
    assert own_configs(kafka) == {}


def test_an_emergency_stop_on_msk_cancels_10_at_once(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    configure(shell, "msk")
    plan = RebalancePlan.from_json(plan_of(shell).read_text())
    kafka.alter_reassignments({move.topic_partition: move.replicas_after for move in plan.moves})
    kafka.calls.clear()
    stop_from_plan(kafka, plan, lambda line: None, Provider.MSK)
    assert not kafka.list_reassignments()
    assert max(sizes_of_calls(kafka)) <= 10


@pytest.mark.parametrize("provider", [Provider.CONFLUENT, Provider.MSK_SERVERLESS])
def test_self_check_is_not_red_for_runs_that_the_provider_does_not_open(
    shell: CommandLine,
    kafka: SimulatedCluster,
    provider: Provider,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COUNTERPOISE_JAVA_HOME", "/nowhere/java")  # so that no Spark starts
    kafka.denied = {"reassign partitions": "CLUSTER_AUTHORIZATION_FAILED"}
    configure(shell, provider)
    with open_installation(environment=shell.environment) as installation:
        installation.connectivity_checker = lambda _: connectivity(snapshot_of(kafka))
        found = {
            each.what: each for each in self_check.self_check(installation, timeout_seconds=240)
        }
    assert found["kafka demo"].state == "ok"
    changes = found["kafka demo changes"]
    assert changes.state == "left out"
    assert "reports and audits only" in changes.detail


def test_confluent_cloud_is_for_reports_only(shell: CommandLine, kafka: SimulatedCluster) -> None:
    configure(shell, "confluent")
    plan = plan_of(shell)
    (warning, *_) = json.loads(plan.read_text())["warnings"]
    assert warning.startswith("Confluent Cloud: reassignments are not open to users")
    for command in (("propose", plan), ("approve", plan, *YES), ("execute", plan)):
        typed = shell.type(*command)
        assert typed.code == 1
        assert "cluster demo is on Confluent Cloud: reassignments are not open" in typed.err
    assert "demo" not in shell.type("status").out
    assert sizes_of_calls(kafka) == []


def test_an_approved_run_is_refused_where_the_provider_was_written_later(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    shell.configure("simulated:9092")
    plan = plan_of(shell)
    assert shell.type("approve", plan, *YES).code == 0
    configure(shell, "confluent")
    typed = shell.type("execute", plan)
    assert typed.code == 1
    assert "reports and audits only" in typed.err
    assert sizes_of_calls(kafka) == []
    assert own_configs(kafka) == {}


def test_a_run_under_way_is_settled_although_no_run_is_open_any_more(
    shell: CommandLine, kafka: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.configure("simulated:9092")
    plan = plan_of(shell)
    assert shell.type("approve", plan, *YES).code == 0
    with interrupted_while_moving(kafka):
        assert shell.type("execute", plan).code == 130
    assert own_configs(kafka)
    configure(shell, "confluent")
    settled = shell.type("settle", plan)
    assert settled.code == 0, settled.err
    assert not kafka.list_reassignments()
    assert own_configs(kafka) == {}


def test_plans_for_strimzi_say_what_to_pause(shell: CommandLine) -> None:
    configure(shell, "strimzi")
    (warning, *_) = json.loads(plan_of(shell).read_text())["warnings"]
    assert "KafkaRebalance" in warning and "pause-reconciliation" in warning


def test_the_canary_topics_of_msk_are_left_alone(
    shell: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MSK takes them off a broker that is removed: no move, and no reason not to remove it."""
    canaries = "__amazon_msk_canary-0: 1 2\n__amazon_msk_canary_state-0: 1 3"
    kafka = simulated(f"{SKEWED}\n{canaries}", racks="1=a 2=b 3=c")
    let_commands_reach(kafka, monkeypatch)
    configure(shell, "msk")
    quorum = kafka.current_quorum()
    kafka.quorum = replace(quorum, nodes=quorum.nodes[1:])  # no controller on broker 1
    plan = shell.folder / "plan.json"
    empty_1 = ("--goal", "remove-brokers", "--brokers", "1")
    assert shell.type("plan", *DEMO, *empty_1, "--out", plan).code == 0
    assert {move["topic"] for move in json.loads(plan.read_text())["moves"]} == {"orders"}
    assert shell.type("approve", plan, *YES).code == 0
    executed = shell.type("execute", plan)
    assert executed.code == 0, executed.err
    assert "broker 1: safe to stop (0 replicas" in executed.out


def test_an_imported_reassignment_says_it_too(shell: CommandLine) -> None:
    configure(shell, "strimzi")
    wanted = shell.folder / "wanted.json"
    row = {"topic": "orders", "partition": 0, "replicas": [1, 3]}
    wanted.write_text(json.dumps({"version": 1, "partitions": [row]}))
    path = shell.folder / "imported.json"
    typed = shell.type("import", wanted, *DEMO, "--out", path)
    assert typed.code == 0, typed.err
    (warning, *_) = json.loads(path.read_text())["warnings"]
    assert warning.startswith("Strimzi: the operators may take throttles back")


HIDDEN = ("describe_log_dirs", "list_reassignments", "list_reassignments", "describe_quorum")


@pytest.mark.parametrize("provider", ["confluent", "msk"])
def test_what_a_provider_shows_nobody_is_not_known_where_no_run_is_open(
    shell: CommandLine,
    kafka: SimulatedCluster,
    provider: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    configure(shell, provider)
    for call in HIDDEN:
        kafka.fail_next(call, NotPermittedError("CLUSTER_AUTHORIZATION_FAILED"))
    typed = shell.type("snapshot", *DEMO, "--out", shell.folder / "state.json")
    if provider == "msk":
        assert (typed.code, "CLUSTER_AUTHORIZATION_FAILED" in typed.err) == (3, True)
        return
    assert typed.code == 0, typed.err
    hidden = "metadata quorum, reassignments, log dirs and sizes"
    assert f"may not read them: {hidden}" in caplog.text
    assert typed.out.count("not known") == 2, "the bytes of two brokers"
    partitions = json.loads((shell.folder / "state.json").read_text())["partitions"]
    assert len(partitions) == 60
