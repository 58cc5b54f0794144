"""One step of the benchmark in a process of its own, so that its memory is its own. Prints its
result as JSON.

    python -m benchmarks.child prepare g-huge FOLDER
    python -m benchmarks.child plan FOLDER GOAL 901,902 OUT.json [--runs 3] [--shuffled]
    python -m benchmarks.child generate FOLDER GOAL 901,902 OUT-{}.json
    python -m benchmarks.child judge FOLDER GOAL 901,902 OUT.json ...

OUT has the plan as Kafka's own reassignment JSON: partitions that change, nothing else.
"""

import argparse
import gc
import hashlib
import json
import random
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from benchmarks import clusters
from benchmarks import judge as judges
from benchmarks.machine import peak_bytes
from benchmarks.make_cluster import make_cluster
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.reassignment import to_reassignment_json
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.planning import make_plan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("task", choices=list(TASKS))
    parser.add_argument("words", nargs="*")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--shuffled", action="store_true")
    arguments = parser.parse_args()
    if arguments.task != "plan":
        gc.disable()  # looking for cycles among millions of tuples takes longer than all the rest
    json.dump(TASKS[arguments.task](*arguments.words, **_options(arguments)), sys.stdout)


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    if arguments.task == "plan":
        return {"runs": arguments.runs, "is_shuffled": arguments.shuffled}
    return {}


def prepare(name: str, folder: str) -> dict[str, Any]:
    """Make the cluster of that name and leave it in the folder."""
    document = make_cluster(name)
    clusters.write_cluster(Path(folder), document)
    return {
        "partitions": len(document["partitions"]),
        "brokers": len(document["brokers"]),
        "named": clusters.named_brokers(document, clusters.CASES[name].goal),
    }


def plan(
    folder: str, goal: str, named: str, out: str, *, runs: int, is_shuffled: bool
) -> dict[str, Any]:
    """Plans `runs` times. The peak is that of the first time, reading the snapshot included."""
    snapshot = clusters.read_snapshot(Path(folder))
    if is_shuffled:
        snapshot = shuffled(snapshot)
    request = PlanRequest(Goal(goal), _ids(named))
    seconds, peak = [], 0
    for _ in range(runs):
        made = None  # the plan before must not count as memory of this one
        start = time.process_time()
        made = make_plan(snapshot, request)
        seconds.append(time.process_time() - start)
        peak = peak or peak_bytes()
    assert made is not None
    Path(out).write_text(to_reassignment_json(made))
    digest = hashlib.sha256(made.to_json().encode()).hexdigest()
    return {"cpu_seconds": min(seconds), "peak_bytes": peak, "digest": digest}


def generate(folder: str, goal: str, named: str, out: str) -> list[float]:
    """Kafka's algorithm three times over; CPU seconds of each."""
    from benchmarks.kafka_generate import generate_reassignments

    brokers, runs = _ids(named), []
    document = clusters.read_document(Path(folder))
    leaving = brokers if goal == Goal.REMOVE_BROKERS else ()
    for number, run in enumerate(generate_reassignments(document, leaving, runs=3)):
        Path(out.format(number)).write_text(json.dumps(_changes(document, run.reassignment)))
        runs.append(run.cpu_seconds)
    return runs


def judge(folder: str, goal: str, named: str, *plans: str) -> list[dict[str, Any]]:
    """Return the verdict on each plan, and figures that the verdict lacks."""
    document, brokers = clusters.read_document(Path(folder)), _ids(named)
    case = judges.Case.of(document, goal, brokers, 0.1)
    uneven_before = judges.topics_with_uneven_replicas(case, case.before)
    results = []
    for path in plans:
        reassignment = json.loads(Path(path).read_text())
        after = judges.after_plan(case.before, reassignment)
        results.append(
            {
                "verdict": judges.judge(document, reassignment, goal, brokers),
                "topics_with_uneven_replicas_before": uneven_before,
                "topics_with_uneven_replicas": judges.topics_with_uneven_replicas(case, after),
                "could_lead_more_evenly": judges.could_lead_more_evenly(case, after),
            }
        )
    return results


def shuffled(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """The same cluster with the rows of every table in another order, the same one every time."""
    chance = random.Random(0)
    tables = {}
    for name, table in snapshot.tables.items():
        rows = list(range(table.num_rows))
        chance.shuffle(rows)
        tables[name] = table.take(pa.array(rows, pa.int64()))
    return replace(snapshot, tables=tables)


def _ids(named: str) -> tuple[int, ...]:
    return tuple(int(word) for word in named.split(",") if word)


def _changes(document: dict[str, Any], reassignment: dict[str, Any]) -> dict[str, Any]:
    """What the reassignment changes; asking for what is there already is no move."""
    before = {(row[0], row[1]): row[2] for row in document["partitions"]}
    entries = [
        e for e in reassignment["partitions"] if e["replicas"] != before[e["topic"], e["partition"]]
    ]
    return {"version": 1, "partitions": entries}


TASKS: Final[dict[str, Callable[..., Any]]] = {
    "prepare": prepare,
    "plan": plan,
    "generate": generate,
    "judge": judge,
}


if __name__ == "__main__":
    main()
