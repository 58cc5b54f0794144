"""The present code goes on with what an earlier day's code has written, and the other way round.

`data/2026-11-23` holds an installation as the code of that day left it: a ledger with runs in every
state, one of them under way; three weeks of history; plans of every goal; the simulated clusters.
Each test works on a copy. What the frozen code itself read from its data is in `expected.json`.
"""

import gzip
import json
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from counterpoise import pipeline
from counterpoise.errors import InputError, StepLockHeldError
from counterpoise.model.document import from_document_text
from counterpoise.model.plan import RebalancePlan
from tests.upgrades.current import BalancePolicy, Present, dump, find_violations, load
from tests.upgrades.frozen import (
    DATA,
    HALTED_CLUSTER,
    UNDER_WAY_CLUSTER,
    Document,
    OldWorker,
    copied_to,
    expected,
    old_command,
    old_environment,
    old_package,
    placement_of,
    read_cluster,
)

# The older version lists what waits, and the present one takes it back: many turns are short.
MAX_LOOKS: Final = 1_200
PLANS: Final = sorted(path.name for path in (DATA / "plans").iterdir())
EMPTY_PLAN: Final = "nothing-to-do.json"
# What `status --json` says of a run, whatever else it says.
ABOUT_RUNS: Final = (
    "run_id",
    "cluster",
    "state",
    "reason",
    "fingerprint",
    "opened_at",
    "closed_at",
    "moves_submitted",
    "moves_done",
    "decision",
    "decided_by",
    "rate_bytes_per_second",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return copied_to(tmp_path)


@pytest.fixture
def present(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Present:
    return Present.opened(folder, monkeypatch)


@cache
def cluster_documents() -> dict[str, str]:
    """Return the exported cluster documents by their snapshot's id."""
    texts = [gzip.decompress(path.read_bytes()).decode() for path in (DATA / "documents").iterdir()]
    return {json.loads(text)["snapshot_id"]: text for text in texts}


def run_under_way() -> str:
    run_id: str = expected()["under_way"]
    return run_id


def run_in_state(state: str, cluster: str) -> Document:
    (found,) = [
        run for run in expected()["runs"] if (run["state"], run["cluster"]) == (state, cluster)
    ]
    return dict(found)


# -- the data itself


def test_the_frozen_run_was_left_midway() -> None:
    """Some moves are done, some in flight, some not begun, and throttles are set."""
    cluster = read_cluster(DATA, UNDER_WAY_CLUSTER)
    moving = [p for p in cluster["partitions"] if p["adding"]]
    pulse = run_in_state("running", UNDER_WAY_CLUSTER)["pulse"]
    assert any(size > 0 for partition in moving for size in partition["copied"].values())
    assert 0 < pulse["moves_done"] < pulse["moves_done"] + len(moving) < pulse["moves_total"]
    assert cluster["dynamic_configs"] != expected()["configs_before"][UNDER_WAY_CLUSTER]


def test_the_ledger_has_runs_in_every_state_that_a_process_may_leave_behind() -> None:
    states = {run["state"] for run in expected()["runs"]}
    assert states == {"proposed", "approved", "running", "done", "halted", "rejected", "superseded"}


@pytest.mark.parametrize("name", [UNDER_WAY_CLUSTER, HALTED_CLUSTER])
def test_a_simulated_cluster_is_loaded_and_described_without_loss(name: str) -> None:
    document = read_cluster(DATA, name)
    assert dump(load(document), document) == document


def test_the_old_worker_runs_the_frozen_package(folder: Path) -> None:
    command = [sys.executable, "-c", "import counterpoise; print(counterpoise.__file__)"]
    where = subprocess.check_output(command, env=old_environment(folder), cwd=folder, text=True)
    assert Path(where.strip()).is_relative_to(old_package(folder))


# -- the ledger is read


def test_every_run_is_listed_as_it_was(present: Present) -> None:
    listed = present.type("status", "--json")
    assert listed.code == 0, listed.err
    newest = expected()["runs"][: len(listed.json)]
    assert [about(run) for run in listed.json] == [about(run) for run in newest]
    assert len(present.type("status").out.splitlines()) > len(newest)


def about(run: Document) -> Document:
    return {name: run[name] for name in ABOUT_RUNS}


def test_every_run_is_told_alone_and_by_cluster(present: Present) -> None:
    for run in expected()["runs"]:
        told = present.type("status", run["run_id"], "--json")
        assert told.code == 0, told.err
        assert about(told.json) == about(run)
        shown = present.type("status", run["run_id"])
        assert shown.code == 0, shown.err
        assert all(asked["by"] in shown.out for asked in run["requests"])
    halted = present.type("status", "--cluster", HALTED_CLUSTER).out
    assert "halted" in halted
    assert UNDER_WAY_CLUSTER not in halted


def test_events_and_decisions_are_read_word_for_word(present: Present) -> None:
    for run_id, history in expected()["histories"].items():
        with present.installation() as site:
            events = site.ledger.journal(run_id).events()
            decisions = site.ledger.approvals_of(run_id)
        assert [[e.at.isoformat(), e.kind, e.text] for e in events] == history["events"]
        assert [
            [str(d.decision), d.by, d.reason, d.rate_bytes_per_second] for d in decisions
        ] == history["decisions"]


def test_progress_and_requests_are_read(present: Present) -> None:
    for run in expected()["runs"]:
        with present.installation() as site:
            requests = site.ledger.requests(run["cluster"], run["run_id"])
            submissions = site.ledger.journal(run["run_id"]).submissions()
        assert [str(asked.control) for asked in requests] == [a["control"] for a in run["requests"]]
        assert len(submissions) == run["moves_submitted"]
        progress = present.progress_of(run["run_id"])
        assert (progress is None) == (run["pulse"] is None)
        if progress is not None:
            assert {name: run["pulse"][name] for name in progress} == progress


# -- plans and cluster documents are read


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_is_read_and_written_again_byte_for_byte(present: Present, name: str) -> None:
    text = (DATA / "plans" / name).read_text()
    plan = RebalancePlan.from_json(text, where=name)
    assert plan.fingerprint == expected()["plans"][name]["fingerprint"]
    assert len(plan.moves) == expected()["plans"][name]["moves"]
    assert plan.to_json() == text
    shown = present.type("show", DATA / "plans" / name)
    assert shown.code == 0, shown.err
    assert present.type("show", DATA / "plans" / name, "--json").code == 0


@pytest.mark.parametrize("name", [name for name in PLANS if name != EMPTY_PLAN])
def test_a_plan_passes_the_rules_and_comes_out_as_kafkas_json(present: Present, name: str) -> None:
    plan = RebalancePlan.from_json((DATA / "plans" / name).read_text(), where=name)
    snapshot = from_document_text(cluster_documents()[plan.snapshot_id], where="document")
    assert find_violations(plan, snapshot, BalancePolicy()) == ()
    exported = present.type("export", DATA / "plans" / name)
    assert exported.code == 0, exported.err
    assert len(exported.json["partitions"]) == len(plan.moves)
    assert present.type("export", DATA / "plans" / name, "--undo").code == 0


def test_plans_in_the_store_are_those_of_the_runs(present: Present) -> None:
    for run in expected()["runs"]:
        with present.installation() as site:
            uri = site.ledger.run(run["run_id"]).plan_uri
            plan = site.archive.read_plan(uri, run["fingerprint"])
        assert plan.fingerprint == run["fingerprint"]


def test_a_plan_that_somebody_changed_is_refused(folder: Path, present: Present) -> None:
    text = (DATA / "plans" / "add-brokers.json").read_text()
    document = json.loads(text)
    document["moves"][0]["replicas_after"].reverse()
    changed = folder / "changed.json"
    changed.write_text(json.dumps(document))
    with pytest.raises(InputError):
        RebalancePlan.from_json(changed.read_text(), where="changed")
    assert present.type("show", changed).code == 2


@pytest.mark.parametrize("name", ["now", "new-broker", "dead-broker", "uneven-leaders"])
def test_a_cluster_document_can_be_planned_on(folder: Path, present: Present, name: str) -> None:
    state, out, kafkas = (
        DATA / "documents" / f"{name}.json.gz",
        folder / "p.json",
        folder / "r.json",
    )
    goal = "repair" if name == "dead-broker" else "demote-brokers"
    words = ["plan", "--state", state, "--goal", goal, "--out", out, "--reassignment-json", kafkas]
    planned = present.type(*words, *([] if goal == "repair" else ["--brokers", "1"]))
    assert planned.code == 0, planned.err
    assert RebalancePlan.from_json(out.read_text(), where="here").moves
    imported = present.type("import", kafkas, "--state", state, "--out", folder / "imported.json")
    assert imported.code == 0, imported.err


# -- the store is read


def test_the_whole_history_is_listed_and_every_snapshot_can_be_read(present: Present) -> None:
    with present.installation() as site:
        rows = site.archive.manifests([UNDER_WAY_CLUSTER]).to_pylist()
        assert [row["snapshot_id"] for row in rows] == expected()["snapshots"]
        for row in rows:
            site.archive.check_snapshot(row, whole=True)
        oldest, newest = rows[0]["snapshot_id"], rows[-1]["snapshot_id"]
        counts = [
            site.archive.read_snapshot(UNDER_WAY_CLUSTER, snapshot_id).partitions.num_rows
            for snapshot_id in (oldest, newest)
        ]
        assert set(site.archive.clusters()) >= {UNDER_WAY_CLUSTER, HALTED_CLUSTER}
        assert len(site.archive.quarantine_reports(UNDER_WAY_CLUSTER)) == 1
    assert counts == [38, 38]


def test_the_report_is_made_from_the_old_results_alone(present: Present) -> None:
    """There are no Spark jobs here: every snapshot counts as analysed."""
    made = present.type("report", "--cluster", UNDER_WAY_CLUSTER, "--json")
    assert made.code == 0, made.err
    written = (DATA / "store" / "reports" / UNDER_WAY_CLUSTER / "leader-balance.json").read_text()
    check_common_facts(made.json, json.loads(written))
    rows = present.type("report", "--cluster", UNDER_WAY_CLUSTER, "--csv").out.splitlines()
    assert len(rows) > len(expected()["snapshots"]), (
        "a row for each snapshot, also of those dropped since"
    )
    assert {point["changes"]["uneven_topics"] for point in made.json["series"]} == {None}
    with present.installation() as site:
        page = site.archive.read_report(f"{UNDER_WAY_CLUSTER}/leader-balance.html")
    assert "Not known: an earlier release analysed the snapshots." in page
    fleet = present.type("report", "--fleet", "--json")
    assert fleet.code == 0, fleet.err
    assert UNDER_WAY_CLUSTER in fleet.out


def test_a_report_of_the_past_leaves_the_newest_as_it_is(present: Present) -> None:
    assert present.type("report", "--cluster", UNDER_WAY_CLUSTER).code == 0
    with present.installation() as site:
        newest = site.archive.read_report(f"{UNDER_WAY_CLUSTER}/leader-balance.html")
        words = ("--until", "2026-11-10", "--json")
        past = present.type("report", "--cluster", UNDER_WAY_CLUSTER, *words)
        assert past.code == 0, past.err
        assert past.json["latest"]["observed_at"] < "2026-11-10"
        assert site.archive.read_report(f"{UNDER_WAY_CLUSTER}/leader-balance.html") == newest


def check_common_facts(now: Document, then: Document) -> None:
    """Check that what both name at the top is equal, numbers and texts alike."""
    plain = {name for name, value in then.items() if isinstance(value, str | int | float)}
    common = plain & now.keys()
    assert common
    assert {name: now[name] for name in common} == {name: then[name] for name in common}


def test_the_view_over_time_can_be_made_anew_from_the_old_results(present: Present) -> None:
    with present.installation() as site:
        kept = pipeline.rebuild_views(site, UNDER_WAY_CLUSTER)["series"]
        assert kept.equals(site.results.series(UNDER_WAY_CLUSTER))
    assert set(expected()["snapshots"]) <= set(kept["snapshot_id"].to_pylist())


def test_an_audit_is_compared_with_the_one_before(present: Present) -> None:
    audited = present.type("audit", "--cluster", UNDER_WAY_CLUSTER)
    assert audited.code in (0, 1), audited.err
    with present.installation() as site:
        newest, before = sorted(site.archive.audits(UNDER_WAY_CLUSTER), reverse=True)[:2]
        report = site.archive.audit_before(UNDER_WAY_CLUSTER, present.clock())
    assert before == expected()["audits"][-1]
    assert newest not in expected()["audits"]
    assert report is not None
    assert "since 2026-11-23 00:42" in audited.out


def test_a_new_snapshot_joins_the_old_history(present: Present) -> None:
    assert present.type("snapshot", "--cluster", UNDER_WAY_CLUSTER).code == 0
    with present.installation() as site:
        ids = site.archive.manifests([UNDER_WAY_CLUSTER])["snapshot_id"].to_pylist()
        assert ids[:-1] == expected()["snapshots"]


def test_a_compaction_makes_the_days_of_topics_that_the_old_version_did_not(
    present: Present, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "COUNTERPOISE_SPARK_JOBS", str(Path(__file__).resolve().parents[2] / "spark_jobs")
    )
    compacted = present.type("compact", "--json")
    assert compacted.code == 0, compacted.err
    assert compacted.json["problems"] == []
    assert compacted.json["results"]["days_of_loads"] > 0


# -- the present code goes on with runs


def check_ended(present: Present, run_id: str, cluster: str, *, submitted_before: int = 0) -> None:
    """Check that a run is done, as planned, nothing of it twice, and that configs are as before."""
    told = present.type("status", run_id, "--json").json
    assert (told["state"], told["config_keys_owed"]) == ("done", [])
    assert told["moves_done"] == told["moves_submitted"] > 0
    document = read_cluster(present.folder, cluster)
    assert planned_placement(present, run_id).items() <= placement_of(document).items()
    assert document["dynamic_configs"] == expected()["configs_before"][cluster]
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
    run_id = run_under_way()
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
    run_id = run_under_way()
    asked = run_in_state("running", UNDER_WAY_CLUSTER)["requests"][-1]
    for _ in range(2):
        wait = present.look(run_id)["wait"]
        present.pass_time(UNDER_WAY_CLUSTER, wait)
    assert rate_in_force(present, run_id) == asked["rate_bytes_per_second"]


def rate_in_force(present: Present, run_id: str) -> int:
    progress = present.progress_of(run_id)
    assert progress is not None
    return int(progress["rate_in_force_bytes_per_second"])


def test_the_run_under_way_can_be_cancelled_and_settled(present: Present) -> None:
    run_id = run_under_way()
    assert present.type("cancel", run_id, "--why", "upgrade", "--by", "alice").code == 0
    ended = present.type("execute", present.plan_path(run_id))
    assert ended.code == 1, ended.err
    told = present.type("status", run_id, "--json").json
    assert (told["state"], told["config_keys_owed"]) == ("halted", [])
    document = read_cluster(present.folder, UNDER_WAY_CLUSTER)
    assert document["dynamic_configs"] == expected()["configs_before"][UNDER_WAY_CLUSTER]
    assert not [p for p in document["partitions"] if p["adding"] or p["removing"]]
    words = ("--why", "upgrade", "--by", "alice", "--out", present.folder / "back.json")
    back = present.type("undo", run_id, *words)
    assert back.code == 0, back.err


def test_what_the_halted_run_left_on_a_dead_broker_is_restored_when_it_returns(
    present: Present,
) -> None:
    run_id = run_in_state("halted", HALTED_CLUSTER)["run_id"]
    assert present.type("status", run_id, "--json").json["config_keys_owed"]
    assert present.type("watch", "--cluster", HALTED_CLUSTER).code == 1
    with present.on_cluster(HALTED_CLUSTER) as cluster:
        cluster.restart_broker(4)
    watched = present.type("watch", "--cluster", HALTED_CLUSTER)
    assert watched.code == 0, watched.err
    assert present.type("status", run_id, "--json").json["config_keys_owed"] == []
    document = read_cluster(present.folder, HALTED_CLUSTER)
    assert document["dynamic_configs"] == expected()["configs_before"][HALTED_CLUSTER]
    assert present.type("watch", "--cluster", HALTED_CLUSTER).code == 0


def test_the_halted_run_can_be_executed_again(present: Present) -> None:
    run_id = run_in_state("halted", HALTED_CLUSTER)["run_id"]
    with present.on_cluster(HALTED_CLUSTER) as cluster:
        cluster.restart_broker(4)
    plan = present.plan_path(run_id)
    words = ("--rate", "5MB/s", "--reason", "broker 4 is back", "--by", "bob")
    assert present.type("approve", plan, *words).code == 0
    executed = present.type("execute", plan)
    assert executed.code == 0, executed.err
    document = read_cluster(present.folder, HALTED_CLUSTER)
    assert document["dynamic_configs"] == expected()["configs_before"][HALTED_CLUSTER]
    assert present.type("verify", plan).code == 0


# -- open questions are answered


def test_the_open_question_is_answered_with_no(present: Present) -> None:
    run_id = run_in_state("proposed", "billing")["run_id"]
    plan = present.plan_path(run_id)
    assert present.type("reject", plan, "--reason", "not needed", "--by", "bob").code == 0
    assert present.type("status", run_id, "--json").json["state"] == "rejected"
    assert present.type("execute", plan).code == 1


def test_a_freeze_of_the_old_version_is_kept_to_and_can_be_ended(present: Present) -> None:
    run_id = run_in_state("proposed", "billing")["run_id"]
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
    plan = present.plan_path(run_in_state("approved", "clicks")["run_id"])
    alone = present.type("execute", plan)
    assert alone.code == 1, "one approval is not enough"
    words = ("--rate", "5MB/s", "--reason", "yes", "--by", "bob")
    assert present.type("approve", plan, *words).code == 0
    executed = present.type("execute", plan)
    assert executed.code == 0, executed.err


# -- both versions side by side


def test_both_versions_take_turns_until_the_run_is_done(folder: Path, present: Present) -> None:
    run_id = run_under_way()
    with OldWorker.started(folder) as old:
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


def test_the_old_version_finishes_what_the_present_one_has_gone_on_with(
    folder: Path, present: Present
) -> None:
    """As after an upgrade that was taken back."""
    run_id = run_under_way()
    with OldWorker.started(folder) as old:
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
    assert before.states[0].rows_waiting > 0
    assert after.states[0].rows_waiting == 0


def test_the_old_version_carries_out_what_the_present_one_planned_approved_and_began(
    folder: Path, present: Present
) -> None:
    with OldWorker.started(folder) as old:
        with present.on_cluster(HALTED_CLUSTER) as cluster:
            cluster.restart_broker(4)
        submitted_before = len(read_cluster(folder, HALTED_CLUSTER)["submitted"])
        plan = folder / "plan.json"
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


def test_each_version_obeys_what_is_asked_with_the_other(folder: Path, present: Present) -> None:
    run_id = run_under_way()
    with OldWorker.started(folder) as old:
        present.change_rate(run_id, "2MB/s")
        for _ in range(2):
            present.pass_time(UNDER_WAY_CLUSTER, old.ask("look", run_id)["wait"])
        assert old.ask("status_of", run_id)["pulse"]["rate_in_force_bytes_per_second"] == 2_000_000
        assert old.ask("rate", run_id, "3MB/s")["rate_bytes_per_second"] == 3_000_000
        for _ in range(2):
            present.pass_time(UNDER_WAY_CLUSTER, present.look(run_id)["wait"])
        assert rate_in_force(present, run_id) == 3_000_000


def test_the_step_lock_of_one_version_keeps_the_other_out(folder: Path, present: Present) -> None:
    run_id = run_under_way()
    before = read_cluster(folder, UNDER_WAY_CLUSTER)
    with OldWorker.started(folder) as old, present.installation() as site:
        assert old.ask("hold", run_id) == {}
        with pytest.raises(StepLockHeldError):
            present.look(run_id)
        assert old.ask("release") == {}
        with site.ledger.journal(run_id).step():
            assert old.ask("look", run_id)["error"] == "StepTakenError"
        assert read_cluster(folder, UNDER_WAY_CLUSTER) == before
        assert "error" not in old.ask("look", run_id)
        assert present.look(run_id)["wait"] is not None


def test_an_old_command_started_after_the_upgrade_works_or_says_that_it_is_too_old(
    folder: Path, present: Present
) -> None:
    assert present.look(run_under_way())["state"] == "running"
    status = subprocess.run(
        old_command("status", "--json"),
        env=old_environment(folder),
        cwd=folder,
        capture_output=True,
        text=True,
    )
    if status.returncode:
        assert "newer Counterpoise" in status.stderr
    else:
        assert {run["run_id"] for run in json.loads(status.stdout)} >= {run_under_way()}
