"""What each Dag costs with 200 clusters: its file, its tasks, and what the scheduler holds of it.

    .venv/bin/python benchmarks/fleet_dags.py [--clusters 200] [--case b-small] [DAG ...]

The clusters are simulated, 1,500 partitions on 8 brokers each, and Airflow's database is SQLite.
Each figure comes from a process of its own, as Airflow has one for each task:

- *parse*: a new process reads the Dag's file, imports included; what Airflow keeps of the Dag,
  serialized.
- *all*: the whole Dag, its mapped tasks one after the other, and the CPU seconds of each.
- *one*: the same Dag, mapped over one cluster of all that there are: the peak before its mapped
  tasks begin, Airflow itself, and at the end.
- *scheduler*: one decision about a Dag run whose mapped tasks all wait.

Limits: seconds are those of the processor, so that waiting for a real cluster is not in them, and
neither is Spark, which runs in a process of its own; a simulated cluster lies in the memory of the
task. `kafka_rebalance` has one run for each cluster: one is measured, which is rejected.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

if __name__ == "__main__":
    # A script's own folder is there, the project's is not.
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.fleet_dags_child import CASE_VARIABLE
from benchmarks.machine import load_line, machine_line

ROOT: Final = Path(__file__).resolve().parents[1]
# In this order: audits and analyses need snapshots.
DAGS: Final = (
    "kafka_snapshot",
    "kafka_audit",
    "kafka_throttle_watch",
    "kafka_leader_balance",
    "kafka_rebalance",
    "kafka_history_compaction",
)
_HEAD: Final = (
    *("Dag", "parse, CPU s", "serialized kB", "whole Dag", "task", "tasks", "median s"),
    *("longest s", "peak MiB before", "one cluster", "all in one process"),
    *("decision ms", "decision MiB"),
)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("dags", nargs="*", metavar="DAG")
    parser.add_argument("--clusters", type=int, default=200)
    parser.add_argument("--case", default="b-small", help="a cluster of benchmarks/clusters.py")
    arguments = parser.parse_args(argv)
    if unknown := sorted(set(arguments.dags) - set(DAGS)):
        parser.error(f"unknown Dag: {', '.join(unknown)}; there are: {', '.join(DAGS)}")
    with tempfile.TemporaryDirectory(prefix="fleet-dags-") as name:
        environment = write_fleet(Path(name), arguments.clusters, arguments.case)
        print(f"{machine_line()}\n{load_line()}\n\n| {' | '.join(_HEAD)} |", flush=True)
        print(f"|{' --- |' * len(_HEAD)}", flush=True)
        for dag_id in arguments.dags or DAGS:
            for row in rows_of(dag_id, environment):
                print(f"| {' | '.join(row)} |", flush=True)
    return 0


def write_fleet(folder: Path, clusters: int, case: str) -> dict[str, str]:
    """Write the settings of a fleet and an Airflow home; return the environment of its tasks."""
    names = [f"cluster-{number:03d}" for number in range(clusters)]
    policy = "{movement: {rate: 50MB/s}, access: {approve: [alice]}}"
    ids = {name: name.replace("-", "_") for name in names}  # a variable has no hyphen in its name
    lines = [f"  {name}: {{connection: {ids[name]}, policy: {policy}}}" for name in names]
    (folder / "clusters.yaml").write_text("\n".join(["clusters:", *lines, ""]))
    connections = {
        f"AIRFLOW_CONN_{ids[name].upper()}": json.dumps(
            {"conn_type": "kafka", "extra": {"bootstrap.servers": f"{name}:9092"}}
        )
        for name in names
    }
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "plugins"), str(ROOT)]),
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "COUNTERPOISE_CONFIG": str(folder / "clusters.yaml"),
        "COUNTERPOISE_STORE": str(folder / "store"),
        "COUNTERPOISE_LEDGER": f"sqlite:///{folder / 'ledger.db'}",
        CASE_VARIABLE: case,
        **connections,
    }
    measured("prepare", "", environment)
    return environment


def rows_of(dag_id: str, environment: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each task of the Dag; the first one has what is true of the whole Dag."""
    parsed = measured("parse", dag_id, environment)
    # Before the others: they are to find snapshots, analyses and the tables of the ledger.
    whole = measured("all", dag_id, environment)
    one = measured("one", dag_id, environment) if whole["mapped"] else {}
    decision = measured("scheduler", dag_id, environment)
    first = (dag_id, f"{parsed['cpu_seconds']:.1f}", f"{parsed['serialized_bytes'] / 1000:.1f}")
    head = (*first, f"{whole['seconds']:.0f}")
    tail = (
        mebibytes(one.get("before_bytes")),
        mebibytes(one.get("peak_bytes")),
        mebibytes(whole["peak_bytes"]),
        f"{decision['seconds'] * 1000:.0f}",
        f"{decision['held_bytes'] / 2**20:.1f}",
    )
    for task_id, seconds in whole["tasks"].items():
        times = (f"{seconds['median']:.2f}", f"{seconds['longest']:.2f}")
        yield (*head, task_id, str(seconds["count"]), *times, *tail)
        head, tail = ("",) * len(head), ("",) * len(tail)


def mebibytes(size_bytes: int | None) -> str:
    return "–" if size_bytes is None else f"{size_bytes / 2**20:,.0f}"


def measured(what: str, dag_id: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return what a process of its own found. Raises RuntimeError with the end of its log."""
    command = [sys.executable, "-m", "benchmarks.fleet_dags_child", what, dag_id]
    with tempfile.NamedTemporaryFile("r", suffix=".json") as found:
        ran = subprocess.run(
            [*command, found.name],
            cwd=ROOT,
            env=dict(environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if ran.returncode:
            raise RuntimeError(
                f"{what} {dag_id} ended with {ran.returncode}:\n{ran.stdout[-3000:]}"
            )
        result: dict[str, Any] = json.load(found)
        return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
