"""The command line on a simulated cluster: whole stories, as a person types them."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from counterpoise.cli import repeating
from counterpoise.ledger import Ledger
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import (
    FOLLOWER_RATE,
    CallResults,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
)
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.command_line import CommandLine, interrupted_while_moving
from tests.support.ledger_view import (
    bring_the_ledger_back,
    let_step_locks_run_out,
    take_the_ledger_away,
)
from tests.support.runs import at_broker, clock_of, own_configs

YES = ("--rate", "1MB/s", "--reason", "broker 3 is new")


def killed_at_work(ledger: Ledger) -> object:
    """Take the step lock as a process that was killed has: it stays while the result is kept."""
    step = ledger.step("demo")
    step.__enter__()
    return step


def planned(shell: CommandLine, *words: str) -> Path:
    path = shell.folder / "plan.json"
    words = words or ("--goal", "add-brokers", "--brokers", "3")
    assert shell.type("plan", "--cluster", "demo", *words, "--out", path).code == 0
    return path


def interrupted(
    shell: CommandLine, kafka: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, *words: str
) -> Path:
    """A plan whose execution was interrupted while copies were in flight."""
    path = planned(shell, *words)
    assert shell.type("approve", path, *YES).code == 0
    with interrupted_while_moving(kafka):
        stopped = shell.type("execute", path)
    assert stopped.code == 130
    assert "partitions keep moving, throttled (" in stopped.err
    assert "throttle keys stay set. The same command goes on with it, `counter" in stopped.err
    assert kafka.list_reassignments() and own_configs(kafka)
    return path


def placement(kafka: SimulatedCluster) -> dict[str, tuple[int, ...]]:
    return {
        f"{t.topic}-{p.partition}": p.replicas
        for t in kafka.describe_topics()
        for p in t.partitions
    }


def test_there_and_back_again(shell: CommandLine, kafka: SimulatedCluster) -> None:
    before = placement(kafka)
    path, back = planned(shell), shell.folder / "undo.json"
    assert shell.type("preflight", path).out == "all allowed\n"
    assert shell.type("approve", path, *YES).code == 0
    ran = shell.type("execute", path)
    assert ran.code == 0, ran.err
    assert (
        "of 120 MB" in ran.out
        and "in flight, " in ran.out
        and "at most 1.0 MB/s per broker" in ran.out
    )
    assert shell.type("verify", path).code == 0
    assert placement(kafka) != before
    typed = shell.type("undo", path, "--why", "too early", "--out", back)
    assert typed.code == 0, typed.err
    assert "approve it" in typed.out
    assert shell.type("approve", back, *YES).code == 0
    assert shell.type("execute", back).code == 0
    assert placement(kafka) == before
    assert own_configs(kafka) == {}
    again = shell.type("undo", back, "--why", "x", "--out", shell.folder / "again.json")
    assert again.code == 1
    assert not (shell.folder / "again.json").exists()


def test_keys_that_somebody_set_meanwhile_are_not_counted_as_restored(
    shell: CommandLine, kafka: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = interrupted(shell, kafka, monkeypatch)
    lower = ConfigChange(at_broker(3), FOLLOWER_RATE, ConfigOperation.SET, "300000")
    kafka.alter_configs([lower])
    ran = shell.type("execute", path)
    assert ran.code == 0, ran.err
    assert "at most 1.0 MB/s per broker and 300 kB/s at broker 3, where somebody set" in ran.out
    outcome = " ".join(ran.out.split())
    assert "; left as somebody else set them: 1; waiting for a broker" in outcome
    assert own_configs(kafka) == {at_broker(3): {FOLLOWER_RATE: "300000"}}


def test_nothing_runs_without_a_yes(shell: CommandLine, kafka: SimulatedCluster) -> None:
    path, before = planned(shell), placement(kafka)
    typed = shell.type("execute", path)
    assert typed.code == 1
    assert "was not approved; approve it first" in typed.err
    assert shell.type("approve", path, *YES).code == 0
    assert shell.type("reject", path, "--reason", "second thoughts", user="bob").code == 0
    rejected = shell.type("execute", path)
    assert rejected.code == 1
    assert "was rejected by bob (system user) on 20" in rejected.err
    assert "(second thoughts): make a new plan, or propose this one again" in rejected.err
    assert placement(kafka) == before and own_configs(kafka) == {}


def test_a_ledger_that_is_away_for_a_while_is_waited_for(
    shell: CommandLine, kafka: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = planned(shell)
    assert shell.type("approve", path, *YES).code == 0
    looks = 0

    def advance_without_ledger(seconds: float) -> None:
        nonlocal looks
        looks += 1
        if looks in (5, 9):  # away for four looks
            change = take_the_ledger_away if looks == 5 else bring_the_ledger_back
            change(shell.folder / "ledger.db")
        kafka.advance(seconds)

    monkeypatch.setattr(repeating, "sleep", advance_without_ledger)
    ran = shell.type("execute", path)
    assert ran.code == 0, ran.err
    assert "the ledger" in ran.out and "trying again" in ran.out
    assert own_configs(kafka) == {}


def test_the_step_lock_of_a_process_that_was_killed_is_waited_for(
    shell: CommandLine, ledger: Ledger, kafka: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = interrupted(shell, kafka, monkeypatch)
    _killed = killed_at_work(ledger)
    waited: list[float] = []

    def advance(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 5:
            let_step_locks_run_out(ledger)
        kafka.advance(seconds)

    monkeypatch.setattr(repeating, "sleep", advance)
    ran = shell.type("execute", path)
    assert ran.code == 0, ran.err
    assert "another process is at work on it" in ran.out and "trying again" in ran.out
    assert own_configs(kafka) == {}


def test_execute_that_is_interrupted_while_it_waits_to_start_says_that_nothing_is_under_way(
    shell: CommandLine, ledger: Ledger, kafka: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = planned(shell)
    assert shell.type("approve", path, *YES).code == 0

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(repeating, "sleep", interrupt)
    with ledger.step("demo"):
        stopped = shell.type("execute", path)
    assert stopped.code == 130
    assert stopped.err.startswith("nothing of run ") and "is under way" in stopped.err
    assert own_configs(kafka) == {}


def test_a_ledger_that_is_away_at_the_start_ends_it_with_nothing_changed(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    path, before = planned(shell), placement(kafka)
    assert shell.type("approve", path, *YES).code == 0
    shell.environment["COUNTERPOISE_LEDGER"] = f"sqlite:///{shell.folder}"
    typed = shell.type("execute", path)
    assert typed.code == 3
    assert "the ledger" in typed.err and "cannot be opened" in typed.err
    assert placement(kafka) == before and own_configs(kafka) == {}


def test_an_interrupted_run_is_settled_alone(
    shell: CommandLine, kafka: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = interrupted(shell, kafka, monkeypatch)
    assert "in flight" in shell.type("status", path).out
    settled = shell.type("settle", path)
    assert settled.code == 0, settled.err
    assert not kafka.list_reassignments() and own_configs(kafka) == {}
    assert json.loads(shell.type("status", path, "--json").out)["state"] in ("done", "halted")
    assert shell.type("watch", "--all").out == "cluster demo: nothing was left behind\n"


def test_a_halted_run_that_was_undone_starts_again(
    shell: CommandLine, kafka: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, back = placement(kafka), shell.folder / "undo.json"
    path = interrupted(shell, kafka, monkeypatch)
    kafka.advance(60)
    assert shell.type("settle", path).code == 0
    assert shell.type("undo", path, "--why", "wrong week", "--out", back).code == 0
    assert shell.type("approve", back, *YES).code == 0
    assert shell.type("execute", back).code == 0
    assert placement(kafka) == before
    assert shell.type("execute", path).code == 0
    assert shell.type("verify", path).code == 0


def test_a_run_that_lost_a_permission_is_named_by_the_watch_until_it_has_ended(
    shell: CommandLine, kafka: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = planned(shell)
    assert shell.type("approve", path, *YES).code == 0

    def advance_without_permission(seconds: float) -> None:
        kafka.unreadable_topics = {"orders"} if kafka.list_reassignments() else set()
        kafka.advance(seconds)

    with monkeypatch.context() as patch:
        patch.setattr(repeating, "sleep", advance_without_permission)
        ended = shell.type("execute", path)
    assert ended.code == 3 and "DescribeConfigs" in ended.err
    assert "partitions keep moving, throttled (" in ended.err
    kafka.unreadable_topics = set()
    number_of_keys = sum(map(len, own_configs(kafka).values()))
    assert number_of_keys > 0
    assert f"{number_of_keys} throttle keys stay set" in ended.err
    (run,) = json.loads(shell.type("status", "--json").out)
    watched = shell.type("watch", "--cluster", "demo")
    assert watched.code == 0, watched.err
    shown = " ".join(watched.out.split())
    assert f"run under way: {run['run_id']}: running, last observed at " in shown
    assert f"{number_of_keys} config keys set" in shown
    assert f"`counterpoise settle {run['run_id']}` ends it" in shown
    assert "nothing was left behind" not in shown
    found = json.loads(shell.type("watch", "--cluster", "demo", "--json").out)
    assert len(found["demo"]["runs_under_way"]) == 1
    assert shell.type("settle", path).code == 0
    assert shell.type("watch", "--all").out == "cluster demo: nothing was left behind\n"


@pytest.mark.parametrize("where", [("--cluster", "demo"), ("--bootstrap", "simulated:9092")])
def test_break_glass_needs_the_plan_and_the_cluster_alone(
    shell: CommandLine,
    kafka: SimulatedCluster,
    monkeypatch: pytest.MonkeyPatch,
    where: tuple[str, str],
) -> None:
    before = placement(kafka)
    path = interrupted(shell, kafka, monkeypatch)
    monkeypatch.setattr("counterpoise.services.emergency_stop.time.sleep", kafka.advance)
    shell.environment["COUNTERPOISE_LEDGER"] = "postgresql+psycopg://nobody@nowhere.invalid/nothing"
    stopped = shell.type("stop", "--from-plan", path, *where)
    assert stopped.code == 0, stopped.err
    assert "config keys hold nothing of the plan any more" in stopped.out
    assert not kafka.list_reassignments() and own_configs(kafka) == {}
    assert placement(kafka) == before


def test_an_emergency_stop_says_what_the_cluster_does_not_let_cancel(
    shell: CommandLine, kafka: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = interrupted(shell, kafka, monkeypatch)
    stop = "counterpoise.services.emergency_stop"
    monkeypatch.setattr(f"{stop}.time.sleep", lambda seconds: kafka.advance(10 * seconds))
    monkeypatch.setattr(f"{stop}.now_utc", clock_of(kafka))
    kafka.full_speed_bytes_per_second = 0

    def refused(targets: Iterable[TopicPartition], **_: object) -> CallResults[TopicPartition]:
        return CallResults((), dict.fromkeys(targets, "CLUSTER_AUTHORIZATION_FAILED"))

    with monkeypatch.context() as patch:
        patch.setattr(kafka, "alter_reassignments", refused)
        stopped = shell.type("stop", "--from-plan", path, "--cluster", "demo")
    assert stopped.code == 1
    assert "4 partitions are still in flight, throttled as before: orders-" in stopped.out
    assert "nothing of the plan is in flight" not in stopped.out
    assert kafka.list_reassignments() and own_configs(kafka)


def test_another_balancer_is_named_before_the_yes(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    path = planned(shell)
    kafka.create_topic("__CruiseControlMetrics", [(1, 2)])
    typed = shell.type("preflight", path)
    assert typed.code == 0
    assert "Cruise Control has topics here (__CruiseControlMetrics)" in " ".join(typed.out.split())


def test_topics_outside_the_plan_that_may_not_be_read_are_named_before_the_yes(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    path = planned(shell)
    kafka.topic_ids["other"] = "id-of-other"
    kafka.unreadable_topics = {"other"}
    allowed = shell.type("preflight", path)
    assert allowed.code == 0
    shown = " ".join(allowed.out.split())
    assert "warning: 1 topic outside the plan" in shown
    assert "kafka-acls.sh" in shown and "--operation DescribeConfigs" in shown
    assert "all that the plan needs is allowed" in shown
    typed = shell.type("approve", path, *YES)
    assert typed.code == 0 and "1 topic outside the plan" in " ".join(typed.out.split())


def test_throttles_of_others_are_reported_and_left_alone(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    broker = ConfigResource(ConfigResourceType.BROKER, "1")
    kafka.configs.dynamic[broker] = {"leader.replication.throttled.rate": "5000"}
    typed = shell.type("watch", "--cluster", "demo")
    assert (typed.code, typed.out) == (1, "")
    assert "cluster demo: foreign throttle: broker 1: leader.replication.throttled" in typed.err
    assert "delete it if nobody" in typed.err
    from_cron = shell.type("watch", "--all", "--quiet")
    assert (from_cron.code, from_cron.out, from_cron.err) == (1, "", typed.err)
    found = json.loads(shell.type("watch", "--cluster", "demo", "--json").out)
    assert len(found["demo"]["foreign_throttles"]) == 1
    assert kafka.configs.dynamic[broker] == {"leader.replication.throttled.rate": "5000"}
