"""The present code finishes runs that an earlier day's code began, answers what it asked, and works
beside its workers; `data/<day>` is what that day's code has left (`frozen.py`).
"""

import json
import subprocess
from collections import Counter
from typing import Final

import pytest

from counterpoise.errors import StepLockHeldError
from tests.upgrades.current import Present
from tests.upgrades.frozen import (
    HALTED_CLUSTER,
    UNDER_WAY_CLUSTER,
    Document,
    OldWorker,
    old_command,
    on_oldest_day,
    placement_of,
    read_cluster,
)

# The older version lists what waits, and the present one takes it back: many turns are short.
MAX_LOOKS: Final = 1_200


# -- the present code goes on with runs


def check_ended(present: Present, run_id: str, cluster: str, *, submitted_before: int = 0) -> None:
    """Check that a run is done, as planned, nothing of it twice, and that configs are as before."""
    told = present.type("status", run_id, "--json").json
    assert (told["state"], told["config_keys_owed"]) == ("done", [])
    assert told["moves_done"] == told["moves_submitted"] > 0
    document = read_cluster(present.folder, cluster)
    assert planned_placement(present, run_id).items() <= placement_of(document).items()
    assert document["dynamic_configs"] == present.day.expected["configs_before"][cluster]
    assert not [p for p in document["partitions"] if p["adding"] or p["removing"]]
    submitted = Counter(map(json.dumps, document["submitted"][submitted_before:]))
    assert len(submitted) >= told["moves_submitted"]
    assert set(submitted.values()) == {1}, "no step of a move was submitted twice"
    assert present.type("verify", present.plan_path(run_id)).code == 0


def planned_placement(present: Present, run_id: str) -> dict[str, tuple[tuple[int, ...], int]]:
    """Return replicas and leader of each partition that the plan of a run moves."""
    moves = json.loads(present.plan_path(run_id).read_text())["moves"]
    replicas = {f"{m['topic']}-{m['partition']}": tuple(m["replicas_after"]) for m in moves}
    return {name: (after, after[0]) for name, after in replicas.items()}


def test_the_run_under_way_is_finished_by_the_same_command(present: Present) -> None:
    run_id = present.day.run_under_way
    plan = present.plan_path(run_id)
    executed = present.type("execute", plan, "--json")
    assert executed.code == 0, executed.err
    assert executed.json["run_id"] == run_id
    check_ended(present, run_id, UNDER_WAY_CLUSTER)
    again = present.type("execute", plan)
    assert again.code == 1
    assert "a plan runs once" in again.err


def test_a_request_that_nobody_had_seen_is_obeyed(present: Present) -> None:
    """The old code wrote it down; the next observation is the present code's."""
    run_id = present.day.run_under_way
    asked = present.day.run_in_state("running", UNDER_WAY_CLUSTER)["requests"][-1]
    for _ in range(2):
        wait = present.look(run_id)["wait"]
        present.pass_time(UNDER_WAY_CLUSTER, wait)
    assert rate_in_force(present, run_id) == asked["rate_bytes_per_second"]


def rate_in_force(present: Present, run_id: str) -> int:
    progress = present.progress_of(run_id)
    assert progress is not None
    return int(progress["rate_in_force_bytes_per_second"])


def test_the_run_under_way_can_be_cancelled_and_settled(present: Present) -> None:
    run_id = present.day.run_under_way
    assert present.type("cancel", run_id, "--why", "upgrade", "--by", "alice").code == 0
    ended = present.type("execute", present.plan_path(run_id))
    assert ended.code == 1, ended.err
    told = present.type("status", run_id, "--json").json
    assert (told["state"], told["config_keys_owed"]) == ("halted", [])
    document = read_cluster(present.folder, UNDER_WAY_CLUSTER)
    assert document["dynamic_configs"] == present.day.expected["configs_before"][UNDER_WAY_CLUSTER]
    assert not [p for p in document["partitions"] if p["adding"] or p["removing"]]
    words = ("--why", "upgrade", "--by", "alice", "--out", present.folder / "back.json")
    back = present.type("undo", run_id, *words)
    assert back.code == 0, back.err


@on_oldest_day
def test_what_the_halted_run_left_on_a_dead_broker_is_restored_when_it_returns(
    present: Present,
) -> None:
    run_id = present.day.run_in_state("halted", HALTED_CLUSTER)["run_id"]
    assert present.type("status", run_id, "--json").json["config_keys_owed"]
    assert present.type("watch", "--cluster", HALTED_CLUSTER).code == 1
    with present.on_cluster(HALTED_CLUSTER) as cluster:
        cluster.restart_broker(4)
    watched = present.type("watch", "--cluster", HALTED_CLUSTER)
    assert watched.code == 0, watched.err
    assert present.type("status", run_id, "--json").json["config_keys_owed"] == []
    document = read_cluster(present.folder, HALTED_CLUSTER)
    assert document["dynamic_configs"] == present.day.expected["configs_before"][HALTED_CLUSTER]
    assert present.type("watch", "--cluster", HALTED_CLUSTER).code == 0


@on_oldest_day
def test_the_halted_run_can_be_executed_again(present: Present) -> None:
    run_id = present.day.run_in_state("halted", HALTED_CLUSTER)["run_id"]
    with present.on_cluster(HALTED_CLUSTER) as cluster:
        cluster.restart_broker(4)
    plan = present.plan_path(run_id)
    words = ("--rate", "5MB/s", "--reason", "broker 4 is back", "--by", "bob")
    assert present.type("approve", plan, *words).code == 0
    executed = present.type("execute", plan)
    assert executed.code == 0, executed.err
    document = read_cluster(present.folder, HALTED_CLUSTER)
    assert document["dynamic_configs"] == present.day.expected["configs_before"][HALTED_CLUSTER]
    assert present.type("verify", plan).code == 0


# -- open questions are answered


def test_the_open_question_is_answered_with_no(present: Present) -> None:
    run_id = present.day.run_in_state("proposed", "billing")["run_id"]
    plan = present.plan_path(run_id)
    assert present.type("reject", plan, "--reason", "not needed", "--by", "bob").code == 0
    assert present.type("status", run_id, "--json").json["state"] == "rejected"
    assert present.type("execute", plan).code == 1


def test_a_freeze_of_the_old_version_is_kept_to_and_can_be_ended(present: Present) -> None:
    run_id = present.day.run_in_state("proposed", "billing")["run_id"]
    plan = present.plan_path(run_id)
    assert (
        present.type("approve", plan, "--rate", "5MB/s", "--reason", "yes", "--by", "bob").code == 0
    )
    frozen = present.type("execute", plan)
    assert frozen.code == 1
    assert "audit of the books" in frozen.err
    assert present.type("unfreeze", "billing", "--why", "it is over", "--by", "bob").code == 0
    executed = present.type("execute", plan)
    assert executed.code == 0, executed.err


def test_a_second_person_approves_what_the_old_version_had_one_approval_for(
    present: Present,
) -> None:
    plan = present.plan_path(present.day.run_in_state("approved", "clicks")["run_id"])
    alone = present.type("execute", plan)
    assert alone.code == 1, "one approval is not enough"
    words = ("--rate", "5MB/s", "--reason", "yes", "--by", "bob")
    assert present.type("approve", plan, *words).code == 0
    executed = present.type("execute", plan)
    assert executed.code == 0, executed.err


# -- both versions side by side


def test_both_versions_take_turns_until_the_run_is_done(present: Present) -> None:
    run_id = present.day.run_under_way
    with OldWorker.started(present.day, present.folder) as old:
        for turn in range(MAX_LOOKS):
            looked = present.look(run_id) if turn % 2 else old.ask("look", run_id)
            assert "error" not in looked, looked
            if looked["wait"] is None:
                break
            present.pass_time(UNDER_WAY_CLUSTER, looked["wait"])
        told = old.ask("status_of", run_id)
        assert (told["state"], told["config_keys_owed"]) == ("done", [])
        check_ended(present, run_id, UNDER_WAY_CLUSTER)
        with present.installation() as site:
            events = site.ledger.journal(run_id).events()
        assert [e.text for e in events] == [e[2] for e in old.ask("history", run_id)["events"]]


@on_oldest_day
def test_the_old_version_finishes_what_the_present_one_has_gone_on_with(present: Present) -> None:
    """As after an upgrade that was taken back."""
    run_id = present.day.run_under_way
    with OldWorker.started(present.day, present.folder) as old:
        for _ in range(6):
            present.pass_time(UNDER_WAY_CLUSTER, present.look(run_id)["wait"])
        present.change_rate(run_id, "9MB/s")
        for _ in range(MAX_LOOKS):
            looked = old.ask("look", run_id)
            assert "error" not in looked, looked
            if looked["wait"] is None:
                break
            present.pass_time(UNDER_WAY_CLUSTER, looked["wait"])
        told = old.ask("status_of", run_id)
        assert told["state"] == "done"
        assert told["requests"][-1]["by"] == "new"
    check_ended(present, run_id, UNDER_WAY_CLUSTER)
    check_the_next_writer_chains_what_the_old_version_wrote(present, run_id)


def check_the_next_writer_chains_what_the_old_version_wrote(present: Present, run_id: str) -> None:
    with present.installation() as site:
        before = site.ledger.chain().verify(site.clock(), cluster=UNDER_WAY_CLUSTER)
        site.ledger.journal(run_id).event("note", "of the next writer")
        after = site.ledger.chain().verify(site.clock(), cluster=UNDER_WAY_CLUSTER)
    assert before.is_intact, before.breaks
    assert after.is_intact, after.breaks
    assert (before.states[0].rows_waiting == 0) == present.day.chains_rows
    assert after.states[0].rows_waiting == 0


@on_oldest_day
def test_the_old_version_carries_out_what_the_present_one_planned_approved_and_began(
    present: Present,
) -> None:
    with OldWorker.started(present.day, present.folder) as old:
        with present.on_cluster(HALTED_CLUSTER) as cluster:
            cluster.restart_broker(4)
        submitted_before = len(read_cluster(present.folder, HALTED_CLUSTER)["submitted"])
        plan = present.folder / "plan.json"
        words = ("--cluster", HALTED_CLUSTER, "--goal", "add-brokers", "--brokers", "4")
        assert present.type("plan", *words, "--out", plan).code == 0
        words = ("--rate", "5MB/s", "--reason", "it is back", "--by", "new")
        assert present.type("approve", plan, *words).code == 0
        run_id = present.type("status", plan, "--json").json["run_id"]
        present.open_run(run_id)
        for _ in range(6):
            present.pass_time(HALTED_CLUSTER, present.look(run_id)["wait"])
        assert old.ask("status_of", run_id)["pulse"]["moves_in_flight"] > 0
        assert old.ask("history", run_id)["decisions"][-1][1] == "new"
        looked: Document = {"wait": 0.0}
        while looked["wait"] is not None:
            looked = old.ask("look", run_id)
            assert "error" not in looked, looked
            present.pass_time(HALTED_CLUSTER, looked["wait"] or 0.0)
    check_ended(present, run_id, HALTED_CLUSTER, submitted_before=submitted_before)


def test_each_version_obeys_what_is_asked_with_the_other(present: Present) -> None:
    run_id = present.day.run_under_way
    with OldWorker.started(present.day, present.folder) as old:
        present.change_rate(run_id, "2MB/s")
        for _ in range(2):
            present.pass_time(UNDER_WAY_CLUSTER, old.ask("look", run_id)["wait"])
        assert old.ask("status_of", run_id)["pulse"]["rate_in_force_bytes_per_second"] == 2_000_000
        assert old.ask("rate", run_id, "3MB/s")["rate_bytes_per_second"] == 3_000_000
        for _ in range(2):
            present.pass_time(UNDER_WAY_CLUSTER, present.look(run_id)["wait"])
        assert rate_in_force(present, run_id) == 3_000_000


def test_the_step_lock_of_one_version_keeps_the_other_out(present: Present) -> None:
    run_id = present.day.run_under_way
    before = read_cluster(present.folder, UNDER_WAY_CLUSTER)
    with OldWorker.started(present.day, present.folder) as old, present.installation() as site:
        assert old.ask("hold", run_id) == {}
        with pytest.raises(StepLockHeldError):
            present.look(run_id)
        assert old.ask("release") == {}
        with site.ledger.journal(run_id).step():
            assert old.ask("look", run_id)["error"] == present.day.step_held_error
        assert read_cluster(present.folder, UNDER_WAY_CLUSTER) == before
        assert "error" not in old.ask("look", run_id)
        assert present.look(run_id)["wait"] is not None


@on_oldest_day
def test_an_old_command_started_after_the_upgrade_works_or_says_that_it_is_too_old(
    present: Present,
) -> None:
    assert present.look(present.day.run_under_way)["state"] == "running"
    status = subprocess.run(
        old_command("status", "--json"),
        env=present.day.environment(present.folder),
        cwd=present.folder,
        capture_output=True,
        text=True,
    )
    if status.returncode:
        assert "newer Counterpoise" in status.stderr
    else:
        assert {run["run_id"] for run in json.loads(status.stdout)} >= {present.day.run_under_way}
