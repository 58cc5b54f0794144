"""The planner's plans for the crooked clusters, beside the best plans known: one table.

    .venv/bin/python -m benchmarks.crooked_plans [NAME ...] [--beside COMMIT]

A row per cluster, and after it one of the planner of that commit. Racks: partitions on fewer racks
than could be. Squares: of the replicas per broker, planned / best known. Outside: bytes outside the
band of 10 %. Copied: bytes, planned / best known without several new replicas for a partition, and
with them; the second counts where the plan gives some partition several new replicas that no rack
needs. `bound` says how far the best known is from a proven bound; without a record, how far the
plan is from the bound that it shows.
`crooked/` has the clusters, the records, and the search that found them.

The exit code is 1 when a cluster is not the one of its record, when a record is not what its plan
reaches, or when a plan has errors.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, Final

from benchmarks.beside import planner_of, row_of
from benchmarks.crooked.clusters import CASES, Case, digest, make
from benchmarks.crooked.measure import Figures, measure
from benchmarks.crooked.records import SEVERAL, Record, read_plan, read_records
from counterpoise.model.document import from_document_text
from counterpoise.model.reassignment import to_reassignment_json
from counterpoise.model.request import PlanRequest
from counterpoise.planning import make_plan

HEADINGS: Final = (
    "cluster",
    "replicas",
    "CPU s",
    "racks",
    "best",
    "squares / best",
    "outside, GB",
    "best",
    "copied, GB",
    "/ best",
    "/ best with several new",
    "partitions with several new",
    "best / bound",
    "CPU min of the search",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="all of them, unless named")
    parser.add_argument("--beside", metavar="COMMIT", help="also the planner of that commit")
    arguments = parser.parse_args()
    print("| " + " | ".join(HEADINGS) + " |")
    print("|" + " --- |" * len(HEADINGS))
    has_failed = False
    beside = planner_of(arguments.beside) if arguments.beside else nullcontext({})
    with beside as environment:
        for name in arguments.names or CASES:
            has_failed |= not print_row(name)
            if environment:
                print(row_of(["-m", "benchmarks.crooked_plans", name], environment), flush=True)
    return 1 if has_failed else 0


def print_row(name: str) -> bool:
    """Return whether the plan has no errors, and its cluster and records are right."""
    records = read_records()
    case, document = CASES[name], make(CASES[name])
    complaints = complaints_about(case, document, records)
    for complaint in complaints:
        print(f"{name}: {complaint}", file=sys.stderr)
    started = time.process_time()
    plan, bound_bytes = planned(case, document)
    seconds = time.process_time() - started
    figures = measure(document, case.goal, plan)
    if name in records:
        cells = row(records, name, figures, seconds)
    else:
        cells = row_without_record(document, name, figures, seconds, bound_bytes)
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    return not complaints and not figures.errors


def planned(case: Case, document: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """Return the present planner's plan as Kafka's reassignment JSON, and its bound in bytes."""
    snapshot = from_document_text(json.dumps(document))
    plan = make_plan(snapshot, PlanRequest(case.goal, tuple(document["named"])))
    reassignment: dict[str, Any] = json.loads(to_reassignment_json(plan))
    return reassignment, plan.lower_bound.bytes


def complaints_about(
    case: Case, document: dict[str, Any], records: Mapping[str, Record]
) -> list[str]:
    """Return where the cluster or a best plan is not what the record says."""
    complaints = []
    for key in (case.name, case.name + SEVERAL):
        record = records.get(key)
        if record is None:
            continue
        if record.digest != digest(document):
            complaints.append(f"{key}: the cluster is another one than that of the record")
        elif measure(document, case.goal, read_plan(key)) != record.figures:
            complaints.append(f"{key}: the best plan does not reach the figures of the record")
    return complaints


def row(
    records: Mapping[str, Record], name: str, figures: Figures, seconds: float
) -> tuple[object, ...]:
    record = records[name]
    several = records.get(name + SEVERAL, record)
    best, best_of_several = record.figures, several.figures
    return (
        name,
        record.replicas,
        f"{seconds:.1f}",
        figures.rack_violations,
        best.rack_violations,
        _ratio(figures.squared_counts, best.squared_counts),
        f"{figures.bytes_outside / 1e9:.1f}",
        f"{best.bytes_outside / 1e9:.1f}",
        f"{figures.copied_bytes / 1e9:.1f}",
        _ratio(figures.copied_bytes, best.copied_bytes),
        _ratio(figures.copied_bytes, best_of_several.copied_bytes),
        figures.several_new,
        _ratio(best.copied_bytes, record.bound_bytes),
        f"{record.cpu_minutes:.1f}",
    )


def row_without_record(
    document: Mapping[str, Any], name: str, figures: Figures, seconds: float, bound_bytes: int
) -> tuple[object, ...]:
    return (
        name,
        sum(len(replicas) for _, _, replicas, *_ in document["partitions"]),
        f"{seconds:.1f}",
        figures.rack_violations,
        *("-",) * 2,
        f"{figures.bytes_outside / 1e9:.1f}",
        "-",
        f"{figures.copied_bytes / 1e9:.1f}",
        *("-",) * 2,
        figures.several_new,
        _ratio(figures.copied_bytes, bound_bytes),
        "-",
    )


def _ratio(value: int, other: int) -> str:
    return f"{value / other:.4f}" if other else "-"


if __name__ == "__main__":
    sys.exit(main())
