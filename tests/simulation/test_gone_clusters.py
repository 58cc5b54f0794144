"""A run whose cluster is gone for good is ended without Kafka, and makes room in the fleet."""

import json
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from counterpoise.cli import repeating
from counterpoise.errors import HaltedError
from counterpoise.execution import Driver, ExecutionOptions
from counterpoise.ledger import Ledger
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.run import RunElsewhere, RunState
from counterpoise.pipeline import gone_clusters
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.command_line import CommandLine, interrupted_while_moving
from tests.support.pictures import ON_TWO_BROKERS
from tests.support.plans import move
from tests.support.runs import SimulatedRun, own_configs


def abandoned(shell: CommandLine, kafka: SimulatedCluster, *, hours: float) -> str:
    """Return a run under way whose cluster was last observed so long ago, and does not answer."""
    path = shell.folder / "plan.json"
    goal = ("--goal", "add-brokers", "--brokers", "3")
    assert shell.type("plan", "--cluster", "demo", *goal, "--out", path).code == 0
    assert shell.type("approve", path, "--rate", "1MB/s", "--reason", "broker 3 is new").code == 0
    with interrupted_while_moving(kafka):
        shell.type("execute", path)
    kafka.unreachable.update(kafka.brokers)
    with closing(sqlite3.connect(shell.folder / "ledger.db")) as connection, connection:
        (text,) = connection.execute("SELECT at FROM pulses").fetchone()
        then = datetime.fromisoformat(text) - timedelta(hours=hours)
        form = "%Y-%m-%dT%H:%M:%S.%f" if "T" in text else "%Y-%m-%d %H:%M:%S.%f"
        connection.execute("UPDATE pulses SET at = ?, moves_in_flight = 6", (then.strftime(form),))
    (run,) = json.loads(shell.type("status", "--json").out)
    return str(run["run_id"])


@pytest.mark.parametrize("is_configured", [False, True])
def test_a_run_whose_cluster_is_gone_is_ended_without_kafka_and_says_what_may_be_left(
    shell: CommandLine, kafka: SimulatedCluster, ledger: Ledger, *, is_configured: bool
) -> None:
    run_id = abandoned(shell, kafka, hours=1)
    assert ledger.run(run_id).state is RunState.RUNNING
    assert [run.run_id for run in ledger.runs_elsewhere("another")] == [run_id]
    if not is_configured:
        shell.configure("simulated:9092", cluster="another")
    typed = shell.type("settle", run_id, "--cluster-is-gone", "decommissioned")
    shown = " ".join(typed.out.split())
    assert typed.code == 1, typed.err
    assert "is halted; if the cluster comes back" in shown and "may be in flight (orders-" in shown
    assert "not restored (of broker" in shown and "watch --cluster demo` looks after that" in shown
    assert ledger.runs_elsewhere("another") == ()
    reason = ledger.run(run_id).reason
    assert "ended by tester without its cluster, which is gone: decommissioned" in reason


def test_what_a_run_left_at_a_cluster_that_comes_back_after_all_is_looked_after_by_the_watch(
    shell: CommandLine, kafka: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterpoise.pipeline.watching.time.sleep", kafka.advance)
    run_id = abandoned(shell, kafka, hours=1)
    assert shell.type("settle", run_id, "--cluster-is-gone", "decommissioned").code == 1
    kafka.unreachable.clear()
    assert kafka.list_reassignments() and own_configs(kafka)
    watched = shell.type("watch", "--cluster", "demo")
    assert run_id in watched.out, watched.out + watched.err
    shell.type("watch", "--cluster", "demo")
    assert not kafka.list_reassignments()
    assert own_configs(kafka) == {}


def test_a_run_that_was_observed_a_moment_ago_is_not_ended_without_its_cluster(
    shell: CommandLine, kafka: SimulatedCluster, ledger: Ledger
) -> None:
    run_id = abandoned(shell, kafka, hours=0)
    typed = shell.type("settle", run_id, "--cluster-is-gone", "decommissioned")
    assert typed.code == 1
    assert "it is not gone. End the run there" in " ".join(typed.err.split())
    assert ledger.run(run_id).state is RunState.RUNNING


def test_a_full_fleet_names_the_runs_that_fill_it_and_how_one_of_a_gone_cluster_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = move("orders-0", "1 2", "3 2", size=30_000_000)
    limits = MovementPolicy(hold_patience=timedelta(minutes=1))
    run = SimulatedRun.of_moves(tmp_path, ON_TWO_BROKERS, copy, limits=limits)
    elsewhere = (RunElsewhere("pay-eu-1", "pay-eu", 7), RunElsewhere("old-eu-2", "old-eu", 3))
    monkeypatch.setattr(run.ledger, "runs_elsewhere", lambda _: elsewhere)
    options = ExecutionOptions(
        run.run_id, run.plan, run.rate, run.limits, fleet_max_moves_in_flight=10
    )
    driver = Driver(run.cluster, run.ledger, options, run.clock, run.log.append)
    driver.open()
    with pytest.raises(HaltedError) as halted:
        run.repeat(driver.step)
    assert str(halted.value) == (
        f"run {run.run_id} halted: 1 partition waits: the moves of other clusters use up the "
        "fleet's max_moves_in_flight (10): 7 of run pay-eu-1 on pay-eu, 3 of run old-eu-2 on "
        "old-eu; that has been so for 1 min (hold_patience). When those runs have ended, execute "
        "the plan again (`counterpoise execute PLAN`); or raise max_moves_in_flight of the fleet "
        "in clusters.yaml. A run whose cluster is gone for good is ended with `counterpoise settle "
        "RUN --cluster-is-gone WHY`"
    )


def test_a_run_is_not_ended_without_its_cluster_where_that_has_another_name_now(
    shell: CommandLine, kafka: SimulatedCluster, ledger: Ledger
) -> None:
    run_id = abandoned(shell, kafka, hours=1)
    kafka.unreachable.clear()
    shell.configure("simulated:9092", cluster="fresh")
    assert shell.type("snapshot", "--cluster", "fresh").code == 0
    typed = shell.type("settle", run_id, "--cluster-is-gone", "demo is in no file any more")
    assert typed.code == 1
    assert "is not gone, it is named fresh now" in " ".join(typed.err.split())
    assert ledger.run(run_id).state is RunState.RUNNING


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_run_that_ends_while_somebody_says_its_cluster_is_gone_is_said_to_have_ended(
    shell: CommandLine,
    kafka: SimulatedCluster,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
) -> None:
    """The cluster was back, and somebody settled the run there at the same time."""
    run_id = abandoned(shell, kafka, hours=1)

    def settled_meanwhile(*_: object) -> str:
        kafka.unreachable.clear()
        assert shell.type("settle", run_id).code == 0
        return ""

    monkeypatch.setattr(gone_clusters, "present_name", settled_meanwhile)
    typed = shell.type("settle", run_id, "--cluster-is-gone", "decommissioned", *options)
    assert (typed.code, typed.out) == (1, "")
    assert typed.err == (
        f"counterpoise settle: run {run_id} is halted: it is not under way, so it needs no end\n"
    )


def test_undo_says_what_is_in_flight_still_when_the_cluster_is_back(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    run_id = abandoned(shell, kafka, hours=1)
    assert shell.type("settle", run_id, "--cluster-is-gone", "decommissioned").code == 1
    kafka.unreachable.clear()
    back = shell.folder / "back.json"
    typed = shell.type("undo", shell.folder / "plan.json", "--why", "back", "--out", back)
    assert typed.code == 1
    assert "orders-1 (being reassigned now: wait for its end)" in " ".join(typed.err.split())
    assert not back.exists()


@pytest.mark.parametrize(
    ("words", "is_configured"),
    [
        (("settle", "RUN"), True),
        (("settle", "RUN", "--json"), False),
        (("execute", "PLAN"), True),
        (("cancel", "RUN", "--why", "it is over"), False),
    ],
)
def test_whoever_asks_for_a_cluster_that_is_not_there_reads_how_the_run_ends_without_it(
    shell: CommandLine,
    kafka: SimulatedCluster,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    *,
    is_configured: bool,
) -> None:
    monkeypatch.setattr(repeating, "PATIENCE_SECONDS", 0)
    run_id = abandoned(shell, kafka, hours=1)
    if not is_configured:
        shell.configure("simulated:9092", cluster="another")
    known = {"RUN": run_id, "PLAN": shell.folder / "plan.json"}
    typed = shell.type(*(known.get(word, word) for word in words))
    way_out = f"gone for good, `counterpoise settle {run_id} --cluster-is-gone WHY` ends the run"
    assert typed.code == (3 if is_configured else 2)
    assert way_out in typed.err and not typed.out
    assert shell.type("settle", run_id, "--cluster-is-gone", "decommissioned").code == 1
    over = shell.type("execute", shell.folder / "plan.json")
    assert over.code, over.out
    assert "--cluster-is-gone" not in over.err, "it has ended"
