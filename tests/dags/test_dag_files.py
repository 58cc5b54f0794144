"""What every Dag has to be like, whoever writes the next one."""

import json
import os
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.providers.standard.operators.hitl import HITLOperator

from counterpoise.orchestration import assets

ROOT = Path(__file__).parents[2]
DAG_IDS = {
    "kafka_audit",
    "kafka_history_compaction",
    "kafka_leader_balance",
    "kafka_rebalance",
    "kafka_snapshot",
    "kafka_throttle_watch",
}
HEAVY = (
    "great_expectations",
    "pyspark",
    "ortools",
    "confluent_kafka",
    "kafka",
    "counterpoise.services",
)


@pytest.fixture(scope="module")
def bag() -> DagBag:
    return DagBag(dag_folder=ROOT / "dags")


@pytest.fixture(scope="module")
def rebalance(bag: DagBag) -> Any:
    return bag.dags["kafka_rebalance"]


def test_every_file_is_imported_without_errors(bag: DagBag) -> None:
    assert bag.import_errors == {}
    assert set(bag.dags) == DAG_IDS


def test_a_file_has_the_name_of_its_dag(bag: DagBag) -> None:
    assert {dag_id: Path(dag.fileloc).stem for dag_id, dag in bag.dags.items()} == {
        name: name for name in DAG_IDS
    }


def test_nothing_heavy_is_imported_to_read_the_dags() -> None:
    script = (
        "import json, sys\n"
        "from airflow.dag_processing.dagbag import DagBag\n"
        f"assert DagBag(dag_folder={str(ROOT / 'dags')!r}).import_errors == {{}}\n"
        f"print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_an_analysis_that_hangs_ends(bag: DagBag) -> None:
    analyse = bag.dags["kafka_leader_balance"].get_task("analyse")
    assert analyse.execution_timeout == timedelta(hours=2)


def test_approvals_stand_outside_of_mapped_groups_and_outlive_many_early_clicks(
    bag: DagBag,
) -> None:
    # In a mapped group a skip does not stop what follows.
    approvals = [
        task for dag in bag.dags.values() for task in dag.tasks if isinstance(task, HITLOperator)
    ]
    assert [task.task_id for task in approvals] == ["approve"]
    for task in approvals:
        assert list(task.iter_mapped_task_groups()) == []
        assert task.retries == 20
        assert task.retry_delay == timedelta(seconds=10)
        assert task.options == ["Answered on the plan's page"] and not task.defaults


def test_all_that_moves_can_be_repeated(rebalance: Any) -> None:
    assert all(
        rebalance.get_task(task_id).retries >= 1 for task_id in ("open_run", "execute", "settle")
    )


def test_the_ends_of_a_run_are_teardowns_and_only_the_verdict_decides(
    bag: DagBag, rebalance: Any
) -> None:
    teardowns = {task.task_id for task in rebalance.tasks if task.is_teardown}
    assert teardowns == {"settle", "report", "verdict"}
    # Elsewhere it would make a failed move look like a successful run.
    deciding = [
        task.task_id
        for dag in bag.dags.values()
        for task in dag.tasks
        if task.on_failure_fail_dagrun
    ]
    assert deciding == ["verdict"]
    assert rebalance.get_task("verdict").downstream_task_ids == set()
    # In a run that is marked failed all ordinary tasks are skipped: teardowns must wait for one
    # another by themselves.
    assert "report" in rebalance.get_task("verdict").upstream_task_ids
    assert "settle" in rebalance.get_task("report").upstream_task_ids
    assert {
        task.task_id for task in rebalance.get_task("settle").upstream_list if task.is_setup
    } == {"open_run"}


def test_the_tasks_are_the_stages_in_their_order(rebalance: Any) -> None:
    order = [task.task_id for task in rebalance.topological_sort()]
    asking, moving, ending = (
        ["approve"],
        ["open_run", "execute", "verify"],
        ["report", "fresh_snapshot", "repeat", "verdict"],
    )
    assert order == ["plan", "validate", *asking, *moving, "settle", *ending]


def test_a_watch_never_overlaps_another_and_one_dead_cluster_hides_no_other(bag: DagBag) -> None:
    """And none that hangs keeps the next one from starting when it is due."""
    dag = bag.dags["kafka_throttle_watch"]
    assert (dag.max_active_runs, dag.catchup) == (1, False)
    watch = dag.get_task("watch")
    assert watch.is_mapped and watch.retries == 0
    assert dag.schedule == "*/5 * * * *"
    assert watch.execution_timeout < timedelta(minutes=5)
    assert dag.get_task("report").trigger_rule == "all_done"


def test_a_compaction_never_overlaps_another_and_is_gone_on_with(bag: DagBag) -> None:
    dag = bag.dags["kafka_history_compaction"]
    assert (dag.max_active_runs, dag.catchup) == (1, False)
    assert dag.get_task("compact").retries >= 1


def test_every_dag_says_what_it_is_for_and_never_catches_up(bag: DagBag) -> None:
    assert [dag_id for dag_id, dag in bag.dags.items() if not dag.doc_md or dag.catchup] == []


def test_every_dag_stands_in_airflows_list_with_a_name_of_ours_and_one_sentence(
    bag: DagBag,
) -> None:
    """The list is searched by the shown name: what is typed as the Dag's id has to find it."""
    for dag_id, dag in bag.dags.items():
        assert dag_id.startswith("kafka_")
        assert dag.dag_display_name == dag_id.replace("_", " ").capitalize()
        assert 20 < len(dag.description or "") < 100
        assert dag.owner == "counterpoise"


def test_what_all_dags_of_an_airflow_share_has_our_name() -> None:
    found = (assets.CLUSTER_SNAPSHOT, assets.FLEET_SNAPSHOT, assets.REBALANCE_WANTED)
    assert {asset.name.partition("_")[0] for asset in found} == {"counterpoise"}


def test_an_open_question_does_not_hold_up_other_clusters(rebalance: Any) -> None:
    assert rebalance.max_active_runs >= 100


LIST_PLUGINS = """
import json, sys
from airflow import plugins_manager
plugins, errors = plugins_manager._get_plugins()
ours = [plugin for plugin in plugins if plugin.source and "counterpoise" in str(plugin.source)]
names = sorted(plugin.name for plugin in ours)
print(json.dumps({"names": names, "errors": errors, "top": sorted(
    name for name, module in list(sys.modules.items())
    if "." not in name and "/counterpoise/" in str(getattr(module, "__file__", ""))
)}))
"""


def _plugins_in(folder: Path, home: Path) -> dict[str, Any]:
    """What Airflow makes of a plugins folder, in a process of its own."""

    environment = {
        **os.environ,
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(folder),
        "AIRFLOW_HOME": str(home),
    }
    command = [sys.executable, "-c", LIST_PLUGINS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_airflow_reads_our_plugin_and_leaves_the_package_alone(tmp_path: Path) -> None:
    assert _plugins_in(ROOT / "plugins", tmp_path) == {
        "names": ["counterpoise"],
        "errors": {},
        "top": ["counterpoise"],
    }


def test_without_the_ignore_file_it_would_not(tmp_path: Path) -> None:
    copy = tmp_path / "plugins"
    shutil.copytree(
        ROOT / "plugins", copy, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    (copy / ".airflowignore").unlink()
    assert {"errors", "units"} <= set(_plugins_in(copy, tmp_path)["top"])
