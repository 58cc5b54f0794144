"""The present code reads what an earlier day's code has written.

`data/<day>` holds an installation as the code of that day left it: a ledger with runs in every
state, one of them under way; three weeks of history; plans of every goal; the simulated clusters.
Each test works on a copy. What the frozen code itself read from its data is in `expected.json`.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from counterpoise import pipeline
from counterpoise.errors import InputError
from counterpoise.model.document import from_document_text
from counterpoise.model.plan import RebalancePlan
from tests.upgrades.current import BalancePolicy, Present, dump, find_violations, load
from tests.upgrades.frozen import (
    DAYS,
    HALTED_CLUSTER,
    UNDER_WAY_CLUSTER,
    Document,
    FrozenDay,
    on_oldest_day,
    read_cluster,
)

PLANS: Final = [(day, name) for day in DAYS for name in day.plans]
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


# -- the data itself


def test_the_frozen_run_was_left_midway(day: FrozenDay) -> None:
    """Some moves are done, some in flight, some not begun, and throttles are set."""
    cluster = read_cluster(day.data, UNDER_WAY_CLUSTER)
    moving = [p for p in cluster["partitions"] if p["adding"]]
    progress = day.run_in_state("running", UNDER_WAY_CLUSTER)["pulse"]
    assert any(size > 0 for partition in moving for size in partition["copied"].values())
    assert (
        0 < progress["moves_done"] < progress["moves_done"] + len(moving) < progress["moves_total"]
    )
    assert cluster["dynamic_configs"] != day.expected["configs_before"][UNDER_WAY_CLUSTER]


def test_the_ledger_has_runs_in_every_state_that_a_process_may_leave_behind(day: FrozenDay) -> None:
    states = {run["state"] for run in day.expected["runs"]}
    assert states == {"proposed", "approved", "running", "done", "halted", "rejected", "superseded"}


@pytest.mark.parametrize("name", [UNDER_WAY_CLUSTER, HALTED_CLUSTER])
def test_a_simulated_cluster_is_loaded_and_described_without_loss(
    day: FrozenDay, name: str
) -> None:
    document = read_cluster(day.data, name)
    assert dump(load(document), document) == document


def test_the_old_worker_runs_the_frozen_package(day: FrozenDay, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import counterpoise; print(counterpoise.__file__)"]
    where = subprocess.check_output(command, env=day.environment(tmp_path), cwd=tmp_path, text=True)
    assert Path(where.strip()).is_relative_to(day.package_in(tmp_path))


# -- the ledger is read


def test_every_run_is_listed_as_it_was(present: Present) -> None:
    listed = present.type("status", "--json")
    assert listed.code == 0, listed.err
    newest = present.day.expected["runs"][: len(listed.json)]
    assert [about(run) for run in listed.json] == [about(run) for run in newest]
    assert len(present.type("status").out.splitlines()) > len(newest)


def about(run: Document) -> Document:
    return {name: run[name] for name in ABOUT_RUNS}


def test_every_run_is_told_alone_and_by_cluster(present: Present) -> None:
    for run in present.day.expected["runs"]:
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
    for run_id, history in present.day.expected["histories"].items():
        with present.installation() as site:
            events = site.ledger.journal(run_id).events()
            decisions = site.ledger.approvals_of(run_id)
        assert [[e.at.isoformat(), e.kind, e.text] for e in events] == history["events"]
        assert [
            [str(d.decision), d.by, d.reason, d.rate_bytes_per_second] for d in decisions
        ] == history["decisions"]


def test_progress_and_requests_are_read(present: Present) -> None:
    for run in present.day.expected["runs"]:
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


@pytest.mark.parametrize(("day", "name"), PLANS, indirect=["day"], ids=str)
def test_a_plan_is_read_and_written_again_byte_for_byte(present: Present, name: str) -> None:
    path = present.day.data / "plans" / name
    text = path.read_text()
    plan = RebalancePlan.from_json(text, where=name)
    written = {"fingerprint": plan.fingerprint, "moves": len(plan.moves)}
    assert written == present.day.expected["plans"][name]
    assert plan.to_json() == text
    shown = present.type("show", path)
    assert shown.code == 0, shown.err
    assert present.type("show", path, "--json").code == 0


@pytest.mark.parametrize(
    ("day", "name"),
    [(day, name) for day, name in PLANS if name != EMPTY_PLAN],
    indirect=["day"],
    ids=str,
)
def test_a_plan_passes_the_rules_and_comes_out_as_kafkas_json(present: Present, name: str) -> None:
    path = present.day.data / "plans" / name
    plan = RebalancePlan.from_json(path.read_text(), where=name)
    document = present.day.cluster_documents()[plan.snapshot_id]
    snapshot = from_document_text(document, where="document")
    assert find_violations(plan, snapshot, BalancePolicy()) == ()
    exported = present.type("export", path)
    assert exported.code == 0, exported.err
    assert len(exported.json["partitions"]) == len(plan.moves)
    assert present.type("export", path, "--undo").code == 0


def test_plans_in_the_store_are_those_of_the_runs(present: Present) -> None:
    for run in present.day.expected["runs"]:
        with present.installation() as site:
            uri = site.ledger.run(run["run_id"]).plan_uri
            plan = site.archive.read_plan(uri, run["fingerprint"])
        assert plan.fingerprint == run["fingerprint"]


def test_a_plan_that_somebody_changed_is_refused(present: Present) -> None:
    text = (present.day.data / "plans" / "add-brokers.json").read_text()
    document = json.loads(text)
    document["moves"][0]["replicas_after"].reverse()
    changed = present.folder / "changed.json"
    changed.write_text(json.dumps(document))
    with pytest.raises(InputError):
        RebalancePlan.from_json(changed.read_text(), where="changed")
    assert present.type("show", changed).code == 2


@pytest.mark.parametrize("name", ["now", "new-broker", "dead-broker", "uneven-leaders"])
def test_a_cluster_document_can_be_planned_on(present: Present, name: str) -> None:
    state = present.day.data / "documents" / f"{name}.json.gz"
    out, kafkas = present.folder / "p.json", present.folder / "r.json"
    goal = "repair" if name == "dead-broker" else "demote-brokers"
    words = ["plan", "--state", state, "--goal", goal, "--out", out, "--reassignment-json", kafkas]
    planned = present.type(*words, *([] if goal == "repair" else ["--brokers", "1"]))
    assert planned.code == 0, planned.err
    assert RebalancePlan.from_json(out.read_text(), where="here").moves
    words = ("--state", state, "--out", present.folder / "imported.json")
    imported = present.type("import", kafkas, *words)
    assert imported.code == 0, imported.err


# -- the store is read


def test_the_whole_history_is_listed_and_every_snapshot_can_be_read(present: Present) -> None:
    with present.installation() as site:
        rows = site.archive.manifests([UNDER_WAY_CLUSTER]).to_pylist()
        assert [row["snapshot_id"] for row in rows] == present.day.expected["snapshots"]
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
    reports = present.day.data / "store" / "reports" / UNDER_WAY_CLUSTER
    check_common_facts(made.json, json.loads((reports / "leader-balance.json").read_text()))
    rows = present.type("report", "--cluster", UNDER_WAY_CLUSTER, "--csv").out.splitlines()
    assert len(rows) > len(present.day.expected["snapshots"]), (
        "a row for each snapshot, also of those dropped since"
    )
    uneven_topics = {point["changes"]["uneven_topics"] for point in made.json["series"]}
    assert (uneven_topics == {None}) != present.day.tells_uneven_topics
    with present.installation() as site:
        page = site.archive.read_report(f"{UNDER_WAY_CLUSTER}/leader-balance.html")
    not_known = "Not known: an earlier release analysed the snapshots."
    assert (not_known in page) != present.day.tells_uneven_topics
    fleet = present.type("report", "--fleet", "--json")
    assert fleet.code == 0, fleet.err
    assert UNDER_WAY_CLUSTER in fleet.out


@on_oldest_day
def test_a_report_of_the_past_leaves_the_newest_as_it_is(present: Present) -> None:
    assert present.type("report", "--cluster", UNDER_WAY_CLUSTER).code == 0
    until = present.day.days_before(13)
    with present.installation() as site:
        newest = site.archive.read_report(f"{UNDER_WAY_CLUSTER}/leader-balance.html")
        words = ("--until", until, "--json")
        past = present.type("report", "--cluster", UNDER_WAY_CLUSTER, *words)
        assert past.code == 0, past.err
        assert past.json["latest"]["observed_at"] < until
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
    assert set(present.day.expected["snapshots"]) <= set(kept["snapshot_id"].to_pylist())


def test_an_audit_is_compared_with_the_one_before(present: Present) -> None:
    audited = present.type("audit", "--cluster", UNDER_WAY_CLUSTER)
    assert audited.code in (0, 1), audited.err
    with present.installation() as site:
        newest, before = sorted(site.archive.audits(UNDER_WAY_CLUSTER), reverse=True)[:2]
        report = site.archive.audit_before(UNDER_WAY_CLUSTER, present.clock())
    assert before == present.day.expected["audits"][-1]
    assert newest not in present.day.expected["audits"]
    assert report is not None
    assert f"since {present.day.name} 00:42" in audited.out


def test_a_new_snapshot_joins_the_old_history(present: Present) -> None:
    assert present.type("snapshot", "--cluster", UNDER_WAY_CLUSTER).code == 0
    with present.installation() as site:
        ids = site.archive.manifests([UNDER_WAY_CLUSTER])["snapshot_id"].to_pylist()
        assert ids[:-1] == present.day.expected["snapshots"]


@on_oldest_day
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
