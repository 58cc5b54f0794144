"""The main job through Airflow on real brokers, as the demo shows it; the result is read from the
cluster itself.
"""

import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from counterpoise.model.approval import Decision
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.run import RunState
from demo import steps
from demo.place import CLUSTER, ROOT, Place
from demo.steps import NEW_BROKER, Demo
from demo.terminal import Terminal
from dev.local_airflow.api import PendingApproval
from dev.local_processes import wait_until
from tests.support.kafka_facts import (
    leaders_per_broker,
    ongoing_reassignments,
    placement,
    replicas_per_broker,
    throttle_lines,
    times_added,
)
from tests.support.ledger_view import LedgerView
from tests.support.marked_secrets import (
    MARK,
    MarkedKafka,
    MarkedPlace,
    ProcessWatch,
    files_with_secrets,
    marked_ledger,
    rows_with_secrets,
)
from tests.support.postgres import running_postgres

pytestmark = pytest.mark.timeout(2400)
SECONDS = 300.0


def processes_of(directory: Path) -> list[str]:
    """Processes that name a directory in their command or environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            text = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            command = (process / "cmdline").read_text().replace("\0", " ")
        except OSError:  # ended meanwhile, or not ours
            continue
        if str(directory).encode() in text and process.name != str(os.getpid()):
            found.append(command)
    return found


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Where everything that can have a secret has a marked one."""
    monkeypatch.setattr(steps, "LocalKafka", MarkedKafka)
    with running_postgres() as postgres, marked_ledger(postgres) as url:
        monkeypatch.setattr(MarkedPlace, "ledger_url", url)
        place = MarkedPlace.new(tmp_path)
        yield place
        assert rows_with_secrets(url) == []
    directory = place.directory
    wait_until(lambda: not processes_of(directory), "every process of the demo to end", SECONDS)


def test_from_a_skewed_cluster_to_an_even_one_with_a_yes_in_between(place: Place) -> None:
    terminal = io.StringIO()
    with ProcessWatch() as processes, Demo(place, Terminal(terminal)) as demo:
        demo.start_kafka()
        demo.start_airflow()
        demo.take_snapshot()
        check_balance_report(place)
        approval = demo.add_broker()
        plan = check_that_nothing_happens_before_the_approval(demo, approval)
        demo.approve(approval)
        result = demo.move(approval)
        assert result.run.state is RunState.DONE
        assert result.lost_records == 0
        check_cluster(demo, plan)
        check_ledger(demo, plan)
        check_dag_runs(demo)
        check_pages(demo)
    # None of the secrets that this run used is in anything that it leaves.
    assert len(processes.spark_processes) >= 2
    assert not processes.found
    assert MARK not in terminal.getvalue()
    assert files_with_secrets(place.directory) == []


def check_balance_report(place: Place) -> None:
    html = (place.store / "reports" / CLUSTER / "leader-balance.html").read_text()
    assert html.count("<svg") >= 2
    assert "<script" not in html


def check_that_nothing_happens_before_the_approval(
    demo: Demo, approval: PendingApproval
) -> RebalancePlan:
    (run,) = demo.installation.ledger.runs(cluster=CLUSTER)
    assert run.state is RunState.PROPOSED
    assert approval.ledger_run_id == run.run_id
    assert replicas_per_broker(demo.kafka)[NEW_BROKER] == 0
    assert throttle_lines(demo.kafka) == []
    assert not ongoing_reassignments(demo.kafka)
    return demo.installation.run_and_plan(run.run_id)[1]


def check_cluster(demo: Demo, plan: RebalancePlan) -> None:
    """Check with Kafka's own tools: even as planned, each moved once, and no config remained."""
    now = placement(demo.kafka)
    for move in plan.moves:
        assert now[str(move.topic_partition)] == (move.replicas_after, move.replicas_after[0])
    leaders, replicas = leaders_per_broker(demo.kafka), replicas_per_broker(demo.kafka)
    assert set(leaders) == {1, 2, 3, NEW_BROKER}
    assert max(leaders.values()) - min(leaders.values()) <= 1
    assert max(replicas.values()) - min(replicas.values()) <= 1
    assert throttle_lines(demo.kafka) == []
    assert not ongoing_reassignments(demo.kafka)
    added = times_added(demo.kafka, NEW_BROKER)
    assert len(added) == plan.copied_replicas
    # 138 replicas on 4 brokers are 34 or 35 each: the planner chooses what copies least bytes.
    assert plan.copied_replicas <= plan.lower_bound.replicas + 1
    assert plan.copied_bytes <= 1.01 * plan.lower_bound.bytes
    assert set(added.values()) == {1}, "no partition was moved twice"


def check_ledger(demo: Demo, plan: RebalancePlan) -> None:
    (run,) = demo.installation.ledger.runs(cluster=CLUSTER)
    (approval,) = demo.installation.ledger.approvals_of(run.run_id)
    assert (approval.decision, approval.person.shown, approval.fingerprint) == (
        Decision.GRANTED,
        "alice",
        plan.fingerprint,
    )
    view = LedgerView.of(demo.installation.ledger)
    keys = view.owned_keys(run.run_id)
    assert keys and all(owned.written for owned in keys)
    assert {(owned.before, owned.is_restored) for owned in keys} == {(None, True)}
    assert not view.left_as_others_set_them(run.run_id)


def check_dag_runs(demo: Demo) -> None:
    """Every task succeeded, the teardowns included; one round for each snapshot, and none is
    analysed twice.
    """
    (run,) = demo.api.dag_runs("kafka_rebalance")
    assert (run.state, run.partition_key) == ("success", CLUSTER)
    wait_for_the_round_after_the_run(demo)
    states = demo.api.task_states("kafka_rebalance", run.run_id)
    stages = {
        "plan",
        "validate",
        "approve",
        "open_run",
        "execute",
        "verify",
        "settle",
        "report",
        "fresh_snapshot",
    }
    assert states == {**dict.fromkeys({*stages, "verdict"}, "success"), "repeat": "skipped"}
    rounds = list((demo.place.store / "results" / "rounds").glob("*.json"))
    snapshots = [
        s["snapshot_id"]
        for finished in rounds
        for s in json.loads(finished.read_text())["snapshots"]
    ]
    assert len(rounds) == len(demo.api.dag_runs("kafka_leader_balance")) == 3
    assert len(snapshots) == len(set(snapshots))


def wait_for_the_round_after_the_run(demo: Demo) -> None:
    """Wait for the snapshot that the run asked for, and check that nobody calls broker 4 idle."""
    for dag_id in ("kafka_leader_balance", "kafka_audit"):

        def third(dag_id: str = dag_id) -> str | None:
            runs = demo.api.dag_runs(dag_id)
            return runs[0].run_id if len(runs) == 3 else None

        run_id = demo.api.wait_for(third, f"the third run of {dag_id}", SECONDS)
        assert demo.api.wait_for_run(dag_id, run_id, SECONDS).state == "success"
    audit = json.loads(demo.installation.archive.read_report(f"{CLUSTER}/audit.json"))
    rules = {finding["rule"] for finding in audit["findings"]}
    assert not {rule for rule in rules if "idle" in rule}
    snapshot = demo.api.dag_runs("kafka_snapshot")[0].run_id
    assert demo.api.wait_for_run("kafka_snapshot", snapshot, SECONDS).state == "success"


def check_pages(demo: Demo) -> None:
    """Reports are served to those who are logged in, without scripts, and to nobody else."""
    (run,) = demo.installation.ledger.runs(cluster=CLUSTER)
    base = f"{demo.airflow.base_url}/counterpoise"
    headers = {"Authorization": f"Bearer {demo.airflow.token('viewer')}"}
    balance, audit = f"reports/{CLUSTER}/leader-balance.html", f"clusters/{CLUSTER}/findings"
    for page in ("metrics", "reports", "fleet", balance, f"runs/{run.run_id}", audit):
        url = f"{base}/{page}"
        assert httpx.get(url, timeout=SECONDS).status_code == 401
        shown = httpx.get(url, headers=headers, follow_redirects=True, timeout=SECONDS)
        assert shown.status_code == 200, page
        assert shown.text.count("<script") <= 1, page  # ours
        assert "default-src 'none'" in shown.headers["content-security-policy"]
    (checks_page,) = re.findall(r'href="([^"]+data-docs/index.html)"', shown.text)
    docs = httpx.get(str(shown.url.join(checks_page)), headers=headers, timeout=SECONDS)
    assert docs.status_code == 200


@pytest.mark.nightly
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
def test_ended_while_airflow_starts_nothing_stays_behind(
    tmp_path: Path, how: signal.Signals
) -> None:
    command = [sys.executable, "-m", "demo", "--directory", str(tmp_path)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as demo:

        def airflow_is_starting() -> bool:
            assert demo.poll() is None, demo.communicate()[0]
            return any(
                re.search("airflow.*scheduler", command) for command in processes_of(tmp_path)
            )

        try:
            wait_until(airflow_is_starting, "Airflow to start", SECONDS)
            demo.send_signal(how)
            output, _ = demo.communicate(timeout=SECONDS)
        finally:
            demo.kill()
    assert demo.returncode == (130 if how is signal.SIGINT else -signal.SIGKILL), output
    wait_until(lambda: not processes_of(tmp_path), "every process of the demo to end", SECONDS)
