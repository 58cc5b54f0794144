"""The main job by command line on real brokers, killed on the way; what came of it is read with
Kafka's own tools.
"""

import io
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from counterpoise.installation import open_installation
from counterpoise.model.kafka import FOLLOWER_RATE, FOLLOWER_REPLICAS, LIST_KEYS
from dev.local_kafka import LocalKafka, TopicSpec, create_topics, fill
from dev.local_processes import wait_until
from tests.support.audit_lines import ENDLESS
from tests.support.command_line import CommandLine
from tests.support.kafka_facts import (
    CONFIGS,
    ON_A_SHARED_DISK,
    REASSIGN,
    configs,
    configs_now,
    delete_topics,
    is_copying,
    leaders_per_broker,
    ongoing_reassignments,
    placement,
    replicas_per_broker,
    throttles,
    times_added,
)
from tests.support.ledger_view import LedgerView
from tests.support.pasting import Operator
from tests.support.typed_runs import RUN, executed, imported, start

MB = 1_000_000
IMPATIENT = f"from counterpoise.cli import repeating; repeating.PATIENCE_SECONDS = 3.0; {RUN}"


@pytest.fixture(scope="module", autouse=True)
def topics(kafka: LocalKafka) -> None:
    """Nearly all leaders are on the first broker, and the fourth holds nothing."""
    topics = [
        TopicSpec("orders", [(1, 2, 3)] * 9 + [(2, 1, 3)] * 2, configs={"retention.ms": "-1"}),
        TopicSpec("returns", [(1, 3, 2)] * 5),
    ]
    create_topics(kafka.bootstrap_string, topics)
    fill(kafka.bootstrap_string, "orders", dict.fromkeys(range(11), 5 * MB))
    fill(kafka.bootstrap_string, "returns", dict.fromkeys(range(5), 2 * MB))


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], kafka: LocalKafka) -> CommandLine:
    shell = CommandLine.in_folder(tmp_path, capsys)
    shell.configure(
        f"127.0.0.1:1,{kafka.bootstrap_string}", extra=f"    policy: {{{ON_A_SHARED_DISK}}}\n"
    )
    return shell


def test_a_no_leaves_the_cluster_untouched_and_the_plan_cannot_run(
    kafka: LocalKafka, shell: CommandLine
) -> None:
    before = (placement(kafka), configs(kafka))
    plan = shell.folder / "plan.json"
    assert (
        shell.type(
            "plan", "--cluster", "demo", "--goal", "add-brokers", "--brokers", "4", "--out", plan
        ).code
        == 0
    )
    assert shell.type("execute", plan).code == 1
    assert shell.type("reject", plan, "--reason", "not today").code == 0
    refused = shell.type("execute", plan)
    assert refused.code == 1
    assert "rejected" in refused.err
    assert (placement(kafka), configs(kafka)) == before
    assert not ongoing_reassignments(kafka)


def test_a_cluster_with_another_id_than_the_pinned_one_is_refused(
    kafka: LocalKafka, shell: CommandLine
) -> None:
    shell.configure(kafka.bootstrap_string, extra="    cluster_id: another-cluster\n")
    typed = shell.type("snapshot", "--cluster", "demo")
    assert typed.code == 3
    assert "pins another-cluster" in typed.err
    assert kafka.cluster_id in typed.err


def test_an_expired_approval_a_wrong_rate_and_a_full_store_change_nothing(
    kafka: LocalKafka, shell: CommandLine
) -> None:
    before = configs(kafka)
    policy = (
        f"{{{ON_A_SHARED_DISK}, access: {{approve: [alice]}}, approval: {{expires_after: 1s}}}}"
    )
    shell.configure(kafka.bootstrap_string, extra=f"    policy: {policy}\n")
    plan = shell.folder / "plan.json"
    shell.type("plan", "--cluster", "demo", "--goal", "leaders", "--out", plan)
    assert shell.type("propose", plan).code == 0
    because = ("--reason", "x")
    assert shell.type("approve", plan, "--rate", "10", *because, user="alice").code == 2
    other_user = shell.type("approve", plan, "--rate", "10MB/s", *because, user="mallory")
    assert other_user.code == 1
    assert "alice" in other_user.err
    assert shell.type("approve", plan, "--rate", "10MB/s", *because, user="alice").code == 0
    expired_at = time.time() + 1
    wait_until(lambda: time.time() > expired_at, "the approval to expire", 10)
    assert "expired" in shell.type("execute", plan).err
    (shell.folder / "other").mkdir()
    (shell.folder / "other" / "history").write_text("a file where a folder should be")
    shell.environment["COUNTERPOISE_STORE"] = str(shell.folder / "other" / "history")
    assert shell.type("snapshot", "--cluster", "demo").code == 2
    shell.environment["COUNTERPOISE_STORE"] = str(shell.folder / "other")
    assert shell.type("snapshot", "--cluster", "demo").code == 3
    assert configs(kafka) == before
    assert not ongoing_reassignments(kafka)


def test_a_run_killed_twice_ends_at_the_plan_with_configs_as_before(
    kafka: LocalKafka, shell: CommandLine
) -> None:
    plan, before, added_before = (
        shell.folder / "plan.json",
        configs(kafka),
        times_added(kafka, 4),
    )
    words = [
        "plan",
        "--cluster",
        "demo",
        "--goal",
        "add-brokers",
        "--brokers",
        "4",
        "--out",
        plan,
        "--json",
    ]
    figures = json.loads(shell.type(*words).out)
    assert figures["lower_bound"]["replicas"] == figures["copied_replicas"] == 12
    # What is in flight goes on while nobody drives the run: longer than its step lock holds.
    assert shell.type("approve", plan, "--rate", "400kB/s", "--reason", "broker 4 joined").code == 0
    conditions = [
        ("throttles are set", lambda: bool(throttles(configs_now(kafka)))),
        ("partitions move", lambda: is_copying(kafka, 3)),
    ]
    for what, condition in conditions:
        with start(shell, "execute", plan) as process:
            try:
                wait_until(condition, what, 240)
            finally:
                process.send_signal(signal.SIGKILL)
    assert throttles(configs(kafka)), "what a killed run leaves behind, until it is run again"
    assert shell.type("rate", plan, "50MB/s", "--why", "to see the end of it").code == 0
    done = shell.type("execute", plan, "--json")
    assert done.code == 0, done.err
    outcome = json.loads(done.out)
    assert outcome["state"] == "done"
    assert outcome["moves_done"] == outcome["moves_submitted"]
    check_outcome(kafka, json.loads(plan.read_text()), added_before)
    assert configs(kafka) == before
    assert shell.type("verify", plan).code == 0
    again = shell.type("execute", plan)
    assert again.code == 1
    assert "a plan runs once" in again.err


def check_outcome(
    kafka: LocalKafka,
    plan: dict[str, list[dict[str, object]]],
    added_before: Counter[tuple[str, int]],
) -> None:
    """The plan came true, told by Kafka: placement, leaders, evenness, no throttle, nothing moving,
    nothing twice.
    """
    now = placement(kafka)
    for move in plan["moves"]:
        after = tuple(move["replicas_after"])  # type: ignore[arg-type]
        assert now[f"{move['topic']}-{move['partition']}"] == (after, after[0])
    leaders, replicas = leaders_per_broker(kafka), replicas_per_broker(kafka)
    assert max(leaders.values()) - min(leaders.values()) <= 1
    assert max(replicas.values()) - min(replicas.values()) <= 1
    assert throttles(configs(kafka)) == []
    assert not ongoing_reassignments(kafka)
    added = times_added(kafka, 4) - added_before
    assert len(added) == 12
    assert set(added.values()) == {1}, "no partition was moved twice"


def test_a_plan_that_went_stale_by_one_partition_is_refused(
    kafka: LocalKafka, shell: CommandLine
) -> None:
    old = shell.folder / "old.json"
    assert shell.type("snapshot", "--cluster", "demo", "--out", shell.folder / "s.json").code == 0
    words = ["--state", shell.folder / "s.json", "--out"]
    first = next(iter(sorted(placement(kafka).items())))
    name, (replicas, _) = first
    topic, partition = name.rsplit("-", 1)
    turned = {"topic": topic, "partition": int(partition), "replicas": list(replicas[::-1])}
    (shell.folder / "r.json").write_text(json.dumps({"version": 1, "partitions": [turned]}))
    assert shell.type("import", shell.folder / "r.json", *words, old).code == 0
    once = shell.folder / "once.json"
    turned["replicas"] = [replicas[1], replicas[0], *replicas[2:]]
    (shell.folder / "r.json").write_text(json.dumps({"version": 1, "partitions": [turned]}))
    assert shell.type("import", shell.folder / "r.json", *words, once).code == 0
    shell.type("approve", once, "--rate", "1MB/s", "--reason", "x")
    assert shell.type("execute", once).code == 0
    assert placement(kafka)[name][0] == tuple(turned["replicas"])  # type: ignore[arg-type]
    assert shell.type("approve", old, "--rate", "1MB/s", "--reason", "x").code == 0
    refused = shell.type("execute", old)
    assert refused.code == 1
    assert f"1 partition changed since the plan was made ({name})" in refused.err
    assert placement(kafka)[name][0] == tuple(turned["replicas"])  # type: ignore[arg-type]


def test_status_lists_every_run_with_who_decided(kafka: LocalKafka, shell: CommandLine) -> None:
    plan = shell.folder / "plan.json"
    shell.type("plan", "--cluster", "demo", "--goal", "leaders", "--out", plan)
    shell.type("reject", plan, "--reason", "not today", user="alice")
    (run,) = json.loads(shell.type("status", "--json").out)
    assert (run["state"], run["decided_by"], run["reason"]) == (
        "rejected",
        "alice (system user)",
        "not today",
    )
    assert "rejected by alice" in shell.type("status", "--cluster", "demo").out


def test_what_was_cancelled_and_undone_is_proposed_again_and_starts(
    kafka: LocalKafka, shell: CommandLine
) -> None:
    """What the undo has emptied is not kept empty of the plan that it has undone."""
    create_topics(kafka.bootstrap_string, [TopicSpec("again", [(1, 2, 3)] * 2)])
    fill(kafka.bootstrap_string, "again", {0: 1000, 1: 5 * MB})
    before = placement(kafka)
    plan = imported(shell, "there", {"again-0": (4, 2, 3), "again-1": (4, 2, 3)}, "100kB/s")
    with start(shell, "execute", plan) as process:
        wait_until(lambda: placement(kafka)["again-0"][0] == (4, 2, 3), "again-0 to move", 120)
        assert shell.type("cancel", plan, "--why", "wrong week").code == 0
        assert process.wait(120) == 1
    assert placement(kafka)["again-1"][0] == (1, 2, 3)
    back = shell.folder / "back.json"
    assert shell.type("undo", plan, "--why", "wrong week", "--out", back).code == 0
    assert shell.type("approve", back, "--rate", "50MB/s", "--reason", "test").code == 0
    executed(shell, back)
    assert placement(kafka)["again-0"][0] == before["again-0"][0]
    refused = shell.type("execute", plan)
    assert refused.code == 1 and "counterpoise propose" in refused.err
    assert shell.type("propose", plan).code == 0
    assert shell.type("approve", plan, "--rate", "50MB/s", "--reason", "test").code == 0
    executed(shell, plan)
    assert shell.type("verify", plan).out == "demo is as planned: 2 partitions, leaders included\n"


def test_verify_counts_what_it_found_and_names_deleted_topics(
    kafka: LocalKafka, shell: CommandLine
) -> None:
    create_topics(
        kafka.bootstrap_string, [TopicSpec("kept", [(1, 2)]), TopicSpec("gone", [(1, 2)])]
    )
    plan = imported(shell, "turned", {"kept-0": (2, 1), "gone-0": (2, 1)})
    executed(shell, plan)
    delete_topics(kafka, {"gone"})
    typed = shell.type("verify", plan)
    assert (typed.code, typed.out.splitlines()) == (
        1,
        [
            "topic gone was deleted: 1 partition of the plan cannot be compared",
            "demo: 1 of 2 partitions as planned, leaders included",
        ],
    )
    create_topics(kafka.bootstrap_string, [TopicSpec("gone", [(2, 1)])])
    typed = shell.type("verify", plan)
    assert typed.code == 1
    assert "topic gone was deleted and created again: 1 partition of the plan" in typed.out


def test_every_end_that_is_none_says_what_is_left(kafka: LocalKafka, shell: CommandLine) -> None:
    """Ctrl-C, a closed terminal, a full disk of the ledger."""
    create_topics(kafka.bootstrap_string, [TopicSpec("left", [(1, 2, 3)] * 2)])
    fill(kafka.bootstrap_string, "left", dict.fromkeys(range(2), 5 * MB))
    before = configs(kafka)
    plan = imported(shell, "left", {f"left-{p}": (4, 2, 3) for p in (0, 1)}, "20kB/s")

    def are_moving() -> bool:
        return len(ongoing_reassignments(kafka).splitlines()) == 3  # with a heading

    with start(shell, "execute", plan) as process:
        wait_until(are_moving, "partitions to move", 240)
        process.send_signal(signal.SIGINT)
        told = process.communicate(timeout=60)[0]
    keys = len(throttles(configs(kafka)))
    left = f"2 partitions keep moving, throttled (left-0, left-1); {keys} throttle keys stay set"
    assert process.returncode == -signal.SIGINT
    assert f"{left}. The same command goes on with it, `counterpoise settle " in told

    ours, theirs = os.openpty()
    with start(shell, "execute", plan, terminal=theirs) as process:
        os.close(theirs)
        wait_until(lambda: b"2 in flight" in os.read(ours, 100_000), "the run to be shown", 120)
        os.close(ours)
        assert process.wait(60) == -signal.SIGHUP
    (run,) = json.loads(shell.type("status", "--json").out)
    with shell._environment(), open_installation() as installation:
        events = LedgerView.of(installation.ledger).events(run["run_id"])
    assert [event.text for event in events if event.kind == "process ended"] == [left, left]

    with start(shell, "execute", plan, code=IMPATIENT) as process:
        assert process.stdout is not None
        wait_until(lambda: "2 in flight" in process.stdout.readline(), "the run to be shown", 120)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, 0))
        told = process.communicate(timeout=120)[0]
    assert process.returncode == 3, told
    assert f"{left}. The same command goes on with it" in told

    assert shell.type("rate", plan, "50MB/s", "--why", "to see the end of it").code == 0
    executed(shell, plan)
    assert configs(kafka) == before


def moving(
    kafka: LocalKafka, shell: CommandLine, topic: str, configs: Mapping[str, str] | None = None
) -> tuple[Path, subprocess.Popen[str]]:
    """A plan whose only move, of `topic` from (1, 2, 3) to (4, 2, 3), is slowly under way."""
    create_topics(kafka.bootstrap_string, [TopicSpec(topic, [(1, 2, 3)], configs=configs or {})])
    fill(kafka.bootstrap_string, topic, {0: 5 * MB})
    plan = imported(shell, topic, {f"{topic}-0": (4, 2, 3)}, "20kB/s")
    process = start(shell, "execute", plan)
    wait_until(lambda: bool(ongoing_reassignments(kafka)), "the partition to move", 240)
    return plan, process


def redirect(kafka: LocalKafka, shell: CommandLine, name: str, replicas: Sequence[int]) -> None:
    """Somebody else sends a partition that moves elsewhere, with Kafka's own tool."""
    topic, _, partition = name.rpartition("-")
    row = {"topic": topic, "partition": int(partition), "replicas": list(replicas)}
    path = shell.folder / "redirect.json"
    path.write_text(json.dumps({"version": 1, "partitions": [row]}))
    where = ("--bootstrap-server", kafka.bootstrap_string)
    kafka.tool(REASSIGN, *where, "--execute", "--additional", "--reassignment-json-file", str(path))


def settles(shell: CommandLine) -> bool:
    (run,) = json.loads(shell.type("status", "--json").out)
    return bool(run["state"] == "settling")


def watched(kafka: LocalKafka, shell: CommandLine, what: str) -> str:
    """What the watch says needs attention, and nothing after its own line was pasted."""
    found = shell.type("watch", "--all", "--quiet")
    assert found.code == 1, found.err
    (told,) = [line for line in found.err.splitlines() if what in line]
    Operator(kafka, shell.folder / f"pasted-{time.time_ns()}").paste([told.split("`")[1]])
    return told


def test_lists_that_kafka_brings_back_are_named_with_the_lines_that_clear_them(
    kafka: LocalKafka, shell: CommandLine
) -> None:
    before = configs(kafka)
    _, process = moving(kafka, shell, "back")
    delete_topics(kafka, {"back"})
    assert process.wait(120) == 0, process.communicate()
    create_topics(kafka.bootstrap_string, [TopicSpec("back", [(1, 2, 3)])])
    kafka.restart_broker(4)
    for key in LIST_KEYS:
        told = watched(kafka, shell, f"topic back: {key}")
        assert "shown by 4 alone: it was the list of a deleted topic of that name" in told
    assert shell.type("watch", "--all").code == 0
    assert configs(kafka) == before


def test_a_reassignment_that_never_ends_is_named_with_the_lines_that_cancel_it(
    kafka: LocalKafka, shell: CommandLine
) -> None:
    before = configs(kafka)
    _, process = moving(kafka, shell, "endless")
    redirect(kafka, shell, "endless-0", (1, 3, 2))
    wait_until(lambda: settles(shell), "the run to halt, which leaves its throttle", 120)
    audited = shell.type("audit", "--cluster", "demo", "--rule", ENDLESS)
    assert "topic endless: 1 reassignment never ends" in audited.out
    told = watched(kafka, shell, "endless reassignment")
    assert "endless-0: adding 4, removing 4: the same replica is added and removed" in told
    assert not ongoing_reassignments(kafka)
    assert placement(kafka)["endless-0"][0] == (1, 3, 2)
    assert process.wait(240) == 1
    assert shell.type("watch", "--all").code == 0
    assert configs(kafka) == before


def test_a_move_that_somebody_redirected_is_named_and_cancelled_on_demand(
    kafka: LocalKafka, shell: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody's own rate keeps the copy slow."""
    rate = ("--entity-type", "brokers", "--entity-name", "4", "--alter")
    alter = (CONFIGS, "--bootstrap-server", kafka.bootstrap_string, *rate)
    kafka.tool(*alter, "--add-config", f"{FOLLOWER_RATE}=15000")
    plan, process = moving(kafka, shell, "turned", {FOLLOWER_REPLICAS: "0:4"})
    cancel = ("cancel", plan, "--redirected", "--why", "nobody wants that")
    refused = shell.type(*cancel)
    assert refused.code == 1 and "nobody redirects a move" in refused.err
    redirect(kafka, shell, "turned-0", (1, 2, 4))
    wait_until(lambda: settles(shell), "the run to halt, which leaves its throttle", 120)
    monkeypatch.setattr(sys, "stdin", io.StringIO("no\nyes\n"))
    refused = shell.type(*cancel)
    assert refused.code == 1 and "nothing was cancelled" in refused.err
    assert (
        "turned-0: the run moves it to [4, 2, 3], somebody else sent it to [1, 2, 4]; before the "
        "run it had [1, 2, 3]"
    ) in refused.err
    done = shell.type(*cancel)
    assert done.code == 0, done.err
    assert placement(kafka)["turned-0"][0] == (1, 2, 3)
    assert not ongoing_reassignments(kafka)
    told = " ".join(process.communicate(timeout=240)[0].split())
    assert process.returncode == 1
    assert "somebody else redirected 1 move of this run: turned-0; `counterpoise cancel" in told
    kafka.tool(*alter, "--delete-config", FOLLOWER_RATE)
    assert throttles(configs(kafka)) == [f"topic turned: {FOLLOWER_REPLICAS}=0:4"]
    delete_topics(kafka, {"turned"})


def test_a_move_that_somebody_redirected_stays_throttled_until_it_is_gone(
    kafka: LocalKafka, shell: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = configs(kafka)
    plan, process = moving(kafka, shell, "slow")
    redirect(kafka, shell, "slow-0", (1, 2, 4))
    seen_until = time.monotonic() + 30
    try:
        while time.monotonic() < seen_until:
            set_now = throttles(configs(kafka))
            assert ongoing_reassignments(kafka), "what is throttled takes minutes"
            assert f"topic slow: {FOLLOWER_REPLICAS}=0:4" in set_now
            assert f"broker 4: {FOLLOWER_RATE}=20000" in set_now
        monkeypatch.setattr(sys, "stdin", io.StringIO("yes\n"))
        assert shell.type("cancel", plan, "--redirected", "--why", "a mistake").code == 0
        shell.type("cancel", plan, "--why", "a mistake")  # where the run has not halted yet
        process.wait(240)
        shell.type("watch", "--all")
        assert placement(kafka)["slow-0"][0] == (1, 2, 3)
        assert configs(kafka) == before
    finally:
        process.kill()
        process.wait()


def test_a_cancel_that_kafka_refuses_is_one_event_and_what_is_in_flight_is_named(
    kafka: LocalKafka, shell: CommandLine
) -> None:
    """The only replica is on a dead broker: to go back would take an unclean election."""
    movement = "movement: {dead_broker_patience: 40s}"
    shell.configure(
        kafka.bootstrap_string, extra=f"    policy: {{{ON_A_SHARED_DISK}, {movement}}}\n"
    )
    before = configs(kafka)
    create_topics(kafka.bootstrap_string, [TopicSpec("single", [(2,)])])
    fill(kafka.bootstrap_string, "single", {0: 3 * MB // 2})
    plan = imported(shell, "single", {"single-0": (4,)}, "20kB/s")
    with start(shell, "execute", plan) as process:
        wait_until(lambda: bool(ongoing_reassignments(kafka)), "the partition to move", 240)
        kafka.kill_broker(2)
        try:
            kafka.wait_until_fenced(2)
            assert shell.type("cancel", plan, "--why", "broker 2 is dead").code == 0
            told = process.communicate(timeout=240)[0]
            assert process.returncode == 1
            assert (
                told.count("reassignment refused: single-0: INVALID_REPLICATION_ASSIGNMENT") == 1
            ), told
            assert told.count("cancelling: 1 partition") == 1, told
            assert "still in flight: single-0" in " ".join(told.split())
            again = shell.type("cancel", plan, "--why", "broker 2 is dead")
            assert again.code == 1
            assert "1 partition keeps moving, throttled (single-0); " in again.err
        finally:
            kafka.restart_broker(2)
    # A sweep lets what Kafka has accepted finish, under its throttle.
    wait_until(lambda: not ongoing_reassignments(kafka), "the copy to finish", 400)
    wait_until(lambda: shell.type("watch", "--all").code == 0, "the watch to restore the keys", 60)
    assert placement(kafka)["single-0"][0] == (4,)
    assert configs(kafka) == before
