"""How good and how fast plans are: one table over clusters of up to 200,000 partitions.

    .venv/bin/python benchmarks/planning.py [NAME ...]

"over bound" is what the plan copies divided by what any plan that reaches the goal has to copy. Leaders and replicas
are counted after a preferred leader election over every partition. CPU seconds are the best of three runs of
`make_plan` alone, peak memory is that of the process that makes the plan. The clusters and the figures come from the
judge in ../shared/judge next to the project where it is present; otherwise from the small generator in here, with the
figures of the plan document.
"""

import argparse
import gzip
import importlib.util
import json
import multiprocessing
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from counterpoise.model.document import from_document_text
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.planning import make_plan

JUDGE = Path(__file__).resolve().parents[2] / "shared" / "judge"
GOALS = {
    "a-tiny": Goal.ADD_BROKERS,
    "b-small": Goal.ADD_BROKERS,
    "c-medium": Goal.ADD_BROKERS,
    "d-large": Goal.ADD_BROKERS,
    "e-leaders": Goal.LEADERS,
    "f-drain": Goal.REMOVE_BROKERS,
}
COLUMNS = (
    "cluster",
    "partitions",
    "brokers",
    "goal",
    "CPU s",
    "peak MiB",
    "replicas",
    "over bound",
    "bytes over bound",
)
COLUMNS += ("leaders", "replicas per broker", "out of band", "several new", "rack violations", "errors")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", choices=[[], *GOALS], help="clusters to plan for (all by default)")
    names = parser.parse_args().names or list(GOALS)
    has_judge = (JUDGE / "judge.py").exists()
    if not has_judge:
        print(f"no judge at {JUDGE}: own clusters, and the figures that the plans themselves state\n")
    rows = [COLUMNS]
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            document = judged_cluster(name, Path(folder)) if has_judge else own_cluster(name)
            rows.append(measure(name, document, has_judge))
    widths = [max(len(row[at]) for row in rows) for at in range(len(COLUMNS))]
    for row in rows:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def measure(name: str, document: dict[str, Any], has_judge: bool) -> tuple[str, ...]:
    """One row. The plan is made in a process of its own, so that its peak memory is its own."""
    goal = GOALS[name]
    state = {Goal.ADD_BROKERS: "new", Goal.REMOVE_BROKERS: "drain"}.get(goal)
    brokers = tuple(broker["id"] for broker in document["brokers"] if broker["state"] == state) if state else ()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        text, seconds, peak = pool.apply(plan_and_measure, (json.dumps(document), str(goal), brokers))
    plan = RebalancePlan.from_json(text)
    figures = judged(document, plan) if has_judge else stated(plan)
    head = (name, str(len(document["partitions"])), str(len(document["brokers"])), str(goal))
    return (*head, f"{seconds:.2f}", f"{peak:.0f}", *figures)


def plan_and_measure(text: str, goal: str, brokers: tuple[int, ...]) -> tuple[str, float, float]:
    """The plan's JSON, CPU seconds (best of 3) and MiB at the peak, reading the document included in the latter."""
    snapshot = from_document_text(text)
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        plan = make_plan(snapshot, PlanRequest(Goal(goal), brokers))
        best = min(best, time.process_time() - start)
    return plan.to_json(), best, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def judged(document: dict[str, Any], plan: RebalancePlan) -> tuple[str, ...]:
    spec = importlib.util.spec_from_file_location("judge", JUDGE / "judge.py")
    if spec is None or spec.loader is None:
        raise SystemExit(f"{JUDGE / 'judge.py'} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    moves = [{"topic": m.topic, "partition": m.partition, "replicas": list(m.replicas_after)} for m in plan.moves]
    verdict = module.judge(document, {"partitions": moves}, str(plan.goal), plan.broker_ids)
    after, over = verdict["after"], verdict["over_lower_bound"]
    return (
        str(verdict["moved"]["replicas"]),
        ratio(over["replicas"]),
        ratio(over["bytes"]),
        f"{after['leaders']['min']}-{after['leaders']['max']}",
        f"{after['replicas']['min']}-{after['replicas']['max']}",
        str(verdict["brokers_out_of_bytes_band"]),
        str(verdict["partitions_with_several_new_replicas"]),
        str(after["rack_violations"]),
        str(sum(verdict["errors"].values())),
    )


def stated(plan: RebalancePlan) -> tuple[str, ...]:
    """The same columns from the plan document; what only a judge can tell is a dash."""
    left = set(plan.broker_ids) if plan.goal is Goal.REMOVE_BROKERS else set()
    figures = [figure for figure in plan.figures if figure.broker_id not in left]
    leaders, replicas = [f.leaders_after for f in figures], [f.replicas_after for f in figures]
    bound = plan.lower_bound
    return (
        str(plan.copied_replicas),
        ratio(plan.copied_replicas / bound.replicas if bound.replicas else None),
        ratio(plan.copied_bytes / bound.bytes if bound.bytes else None),
        f"{min(leaders)}-{max(leaders)}",
        f"{min(replicas)}-{max(replicas)}",
        "-",
        str(sum(len(move.adding) > 1 for move in plan.moves)),
        "-",
        "-",
    )


def ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def judged_cluster(name: str, folder: Path) -> dict[str, Any]:
    script = [sys.executable, str(JUDGE / "make_cluster.py"), str(folder), str(folder), name]
    subprocess.run(script, check=True, stdout=subprocess.DEVNULL)
    packed = folder / f"{name}.json.gz"
    text = gzip.decompress(packed.read_bytes()).decode() if packed.exists() else (folder / f"{name}.json").read_text()
    document: dict[str, Any] = json.loads(text)
    return document


def own_cluster(name: str) -> dict[str, Any]:
    """A cluster of the same size and kind: replicas striped over racks, sizes with a long tail."""
    old, new, racks, count = {
        "a-tiny": (3, 1, 3, 3),
        "b-small": (6, 2, 3, 1_500),
        "c-medium": (30, 6, 3, 20_000),
        "d-large": (200, 20, 5, 200_000),
        "e-leaders": (15, 0, 3, 3_000),
        "f-drain": (12, 0, 3, 6_000),
    }[name]
    chance = random.Random(name)
    by_rack = [[b for b in range(1, old + 1) if b % racks == rack] for rack in range(racks)]
    partitions = []
    for number in range(count):
        chosen = chance.sample(by_rack, 3)
        replicas = [chance.choice(members) for members in chosen]
        leader = min(replicas) if name == "e-leaders" else replicas[0]
        size = int(chance.lognormvariate(20, 1))
        partitions.append([f"t{number % (1 + count // 40):05d}", number, replicas, leader, size, 0])
    brokers = [
        {"id": b, "rack": f"r{b % racks}", "state": "drain" if name == "f-drain" and b == 7 else "keep"}
        for b in range(1, old + 1)
    ]
    brokers += [{"id": b, "rack": f"r{b % racks}", "state": "new"} for b in range(old + 1, old + new + 1)]
    return {"brokers": brokers, "partitions": partitions}


if __name__ == "__main__":
    main()
