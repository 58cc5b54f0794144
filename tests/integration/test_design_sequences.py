"""What others do, and what dies, after and between runs, on real brokers: a run gives back what it
owns, and leaves all else alone. `tests/simulation/test_design_sequences.py` has them in memory.

Hours and days pass by the clock of the ledger's database.
"""

import json
import signal
import subprocess
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from counterpoise.model.kafka import FOLLOWER_RATE, FOLLOWER_REPLICAS
from dev.local_kafka import LocalKafka, TopicSpec, create_topics, fill
from dev.local_processes import wait_until
from tests.support.command_line import CommandLine
from tests.support.kafka_facts import (
    CONFIGS,
    ON_A_SHARED_DISK,
    REASSIGN,
    configs,
    configs_now,
    ongoing_reassignments,
    placement,
    throttles,
    times_added,
)
from tests.support.ledger_view import let_step_locks_of_a_file_run_out, let_time_pass
from tests.support.typed_runs import RUN, executed, imported, start

MB: Final = 1_000_000
SLOW: Final = "20kB/s"
TO_FOUR: Final = (4, 2, 3)

# The process dies inside the call that submits, after Kafka has accepted it or before.
_KILLED: Final = """
import os, signal
from counterpoise.kafka_admin.cluster_admin import ClusterAdmin

submit = ClusterAdmin.alter_reassignments

def killed(*args, **more):
    {call}
    os.kill(os.getpid(), signal.SIGKILL)

ClusterAdmin.alter_reassignments = killed
"""
KILLED_AFTER_IT_SUBMITTED: Final = _KILLED.format(call="submit(*args, **more)") + RUN
KILLED_BEFORE_IT_SUBMITTED: Final = _KILLED.format(call="pass") + RUN

# Kafka sets the first throttle keys, and nobody hears of it.
LOSES_AN_ANSWER: Final = f"""
from counterpoise.errors import UnknownOutcomeError
from counterpoise.kafka_admin.cluster_admin import ClusterAdmin

change = ClusterAdmin.alter_configs

def unheard(*args, **more):
    ClusterAdmin.alter_configs = change
    change(*args, **more)
    raise UnknownOutcomeError("no broker answered")

ClusterAdmin.alter_configs = unheard
{RUN}
"""


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], kafka: LocalKafka) -> CommandLine:
    shell = CommandLine.in_folder(tmp_path, capsys)
    configure(shell, kafka)
    return shell


def configure(shell: CommandLine, kafka: LocalKafka, movement: str = "{}") -> None:
    policy = f"{{{ON_A_SHARED_DISK}, movement: {movement}}}"
    shell.configure(kafka.bootstrap_string, extra=f"    policy: {policy}\n")


def partitions_of(
    kafka: LocalKafka, topic: str, partitions: int, size: int = 5 * MB
) -> dict[str, Sequence[int]]:
    """New partitions on brokers 1 to 3, with where they are to go."""
    create_topics(kafka.bootstrap_string, [TopicSpec(topic, [(1, 2, 3)] * partitions)])
    fill(kafka.bootstrap_string, topic, dict.fromkeys(range(partitions), size))
    return {f"{topic}-{number}": TO_FOUR for number in range(partitions)}


def moves(kafka: LocalKafka, partitions: int) -> bool:
    return len(ongoing_reassignments(kafka).splitlines()) == partitions + 1  # with a heading


def restores_all(shell: CommandLine) -> bool:
    return shell.type("watch", "--all").code == 0


def change_config(kafka: LocalKafka, kind: str, name: str, *change: str) -> None:
    entity = ("--entity-type", kind, "--entity-name", name)
    kafka.tool(CONFIGS, "--bootstrap-server", kafka.bootstrap_string, "--alter", *entity, *change)


def stop_process(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)


def by_hand(kafka: LocalKafka, shell: CommandLine, *words: str) -> None:
    """A person types Kafka's tool, with the reassignment JSON that the plan was imported from."""
    file = ("--reassignment-json-file", str(shell.folder / "r.json"))
    kafka.tool(REASSIGN, "--bootstrap-server", kafka.bootstrap_string, *words, *file)


def test_what_another_tool_sets_two_hours_later_as_we_had_it_stays(
    kafka: LocalKafka, shell: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, wanted = configs(kafka), partitions_of(kafka, "tools", 1)
    executed(shell, imported(shell, "tools", wanted, "50MB/s"))
    assert throttles(configs(kafka)) == []
    let_time_pass(monkeypatch, timedelta(hours=2))
    change_config(kafka, "brokers", "4", "--add-config", f"{FOLLOWER_RATE}=50000000")
    change_config(kafka, "topics", "tools", "--add-config", f"{FOLLOWER_REPLICAS}=0:4")
    theirs = [f"broker 4: {FOLLOWER_RATE}=50000000", f"topic tools: {FOLLOWER_REPLICAS}=0:4"]
    found = shell.type("watch", "--all")
    assert found.code == 1 and FOLLOWER_RATE in found.err, "throttles of others are named"
    assert throttles(configs(kafka)) == theirs
    change_config(kafka, "brokers", "4", "--delete-config", FOLLOWER_RATE)
    change_config(kafka, "topics", "tools", "--delete-config", FOLLOWER_REPLICAS)
    assert set(before) <= set(configs(kafka))


def test_the_keys_of_a_broker_that_returns_three_days_later_are_restored_by_a_sweep(
    kafka: LocalKafka, shell: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(shell, kafka, "{dead_broker_patience: 15s}")
    wanted = partitions_of(kafka, "days", 2)
    before = configs(kafka)
    plan = imported(shell, "days", wanted, SLOW)
    with start(shell, "execute", plan) as process:
        wait_until(lambda: moves(kafka, 2), "partitions to move", 240)
        kafka.kill_broker(4)
        told = process.communicate(timeout=240)[0]
    assert process.returncode == 1 and "broker 4 is dead" in told, told
    let_time_pass(monkeypatch, timedelta(days=3))
    kafka.restart_broker(4)
    assert throttles(configs(kafka)), "what the dead broker kept"
    wait_until(lambda: restores_all(shell), "broker 4 to respond to the watch", 120)
    assert configs(kafka) == before
    assert placement(kafka)["days-0"][0] == (1, 2, 3)


def test_who_starts_after_a_kill_inside_the_call_that_submits_moves_nothing_twice(
    kafka: LocalKafka, shell: CommandLine
) -> None:
    wanted = partitions_of(kafka, "inside", 2)
    before, added_before = configs(kafka), times_added(kafka, 4)
    plan = imported(shell, "inside", wanted, "500kB/s")
    with start(shell, "execute", plan, code=KILLED_AFTER_IT_SUBMITTED) as process:
        assert process.wait(120) == -signal.SIGKILL
    let_step_locks_of_a_file_run_out(shell.folder / "ledger.db")
    executed(shell, plan)
    assert {placement(kafka)[name][0] for name in wanted} == {TO_FOUR}
    added = times_added(kafka, 4) - added_before
    assert sorted(added.values()) == [1, 1], "no partition was moved twice"
    assert configs(kafka) == before


def test_what_a_person_finishes_by_hand_after_a_halt_is_left_alone(
    kafka: LocalKafka, shell: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With Kafka's tool; an answer about throttles of the run was lost."""
    configure(shell, kafka, "{on_halt: cancel}")
    wanted = partitions_of(kafka, "hand", 2, 2 * MB)
    before = configs(kafka)
    plan = imported(shell, "hand", wanted, SLOW)
    with start(shell, "execute", plan, code=LOSES_AN_ANSWER) as process:
        wait_until(lambda: moves(kafka, 2), "partitions to move", 240)
        stop_process(process)
    assert shell.type("settle", plan).code == 0
    (run,) = json.loads(shell.type("status", "--json").out)
    assert run["state"] == "halted"
    assert configs(kafka) == before and not ongoing_reassignments(kafka)
    let_time_pass(monkeypatch, timedelta(hours=1))
    by_hand(kafka, shell, "--execute", "--throttle", "25000")
    theirs = throttles(configs_now(kafka))
    shell.type("watch", "--all")
    assert moves(kafka, 2)
    assert throttles(configs_now(kafka)) == theirs
    by_hand(kafka, shell, "--execute", "--additional", "--throttle", "50000000")
    wait_until(lambda: not ongoing_reassignments(kafka), "the copies of the person to end", 240)
    by_hand(kafka, shell, "--verify")
    assert restores_all(shell)
    assert {placement(kafka)[name][0] for name in wanted} == {TO_FOUR}
    assert configs(kafka) == before


def test_the_moves_of_a_second_run_to_the_same_targets_are_not_taken_for_late_ones_of_the_first(
    kafka: LocalKafka, shell: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = partitions_of(kafka, "second", 2)
    before = configs(kafka)
    first = imported(shell, "first", wanted, SLOW)
    with start(shell, "execute", first, code=KILLED_BEFORE_IT_SUBMITTED) as process:
        assert process.wait(120) == -signal.SIGKILL
    let_step_locks_of_a_file_run_out(shell.folder / "ledger.db")
    with monkeypatch.context() as patch:
        let_time_pass(patch, timedelta(seconds=31))
        assert shell.type("settle", first).code == 0
    assert configs(kafka) == before and not ongoing_reassignments(kafka)
    second = imported(shell, "second", {**wanted, "second-1": (2, 4, 3)}, SLOW)
    with start(shell, "execute", second) as process:
        wait_until(lambda: moves(kafka, 2), "partitions to move", 240)
        shell.type("watch", "--all")
        assert moves(kafka, 2)
        assert shell.type("rate", second, "50MB/s", "--why", "to see the end of it").code == 0
        told = process.communicate(timeout=240)[0]
    assert process.returncode == 0, told
    assert placement(kafka)["second-0"][0] == TO_FOUR
    assert restores_all(shell)
    assert configs(kafka) == before


def test_a_rate_that_an_operator_sets_midway_stays_also_where_the_run_had_used_it(
    kafka: LocalKafka, shell: CommandLine
) -> None:
    wanted = partitions_of(kafka, "midway", 1, 2 * MB)
    before = configs(kafka)
    plan = imported(shell, "midway", wanted, SLOW)

    def is_in_force(rate: int) -> bool:
        return f"broker 4: {FOLLOWER_RATE}={rate}" in throttles(configs_now(kafka))

    with start(shell, "execute", plan) as process:
        wait_until(lambda: moves(kafka, 1), "the partition to move", 240)
        for rate in (60_000, 90_000):
            requested = shell.type("rate", plan, f"{rate // 1000}kB/s", "--why", "try").code
            assert requested == 0
            wait_until(lambda rate=rate: is_in_force(rate), "the rate to change", 60)
        change_config(kafka, "brokers", "4", "--add-config", f"{FOLLOWER_RATE}=60000")
        told = process.communicate(timeout=240)[0]
    assert process.returncode == 0, told
    assert "set to 60.0 kB/s by somebody else" in " ".join(told.split())
    assert throttles(configs(kafka)) == [f"broker 4: {FOLLOWER_RATE}=60000"]
    shell.type("watch", "--all")
    assert throttles(configs(kafka)) == [f"broker 4: {FOLLOWER_RATE}=60000"]
    change_config(kafka, "brokers", "4", "--delete-config", FOLLOWER_RATE)
    assert configs(kafka) == before
