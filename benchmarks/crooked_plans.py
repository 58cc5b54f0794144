"""The planner's plans for the crooked clusters, beside the best plans known: one table.

    .venv/bin/python -m benchmarks.crooked_plans [NAME ...]

A row per cluster. Racks: partitions on fewer racks than could be. Squares: of the replicas per
broker, planned / best known. Outside: bytes outside the band of 10 %. Copied: bytes, planned / best
known without several new replicas for a partition, and with them; the second counts where the plan
gives some partition several new replicas that no rack needs. `bound` says how far the best known is
from a proven bound; without a record, how far the plan is from the bound that it shows.
`crooked/` has the clusters, the records, and the search that found them.

The exit code is 1 when a cluster is not the one of its record, when a record is not what its plan
reaches, or when a plan has errors.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

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
    arguments = parser.parse_args()
    records = read_records()
    print("| " + " | ".join(HEADINGS) + " |")
    print("|" + " --- |" * len(HEADINGS))
    has_failed = False
    for name in arguments.names or CASES:
        case, document = CASES[name], make(CASES[name])
        for complaint in complaints_about(case, document, records):
            print(f"{name}: {complaint}", file=sys.stderr)
            has_failed = True
        started = time.process_time()
        plan, bound_bytes = planned(case, document)
        seconds = time.process_time() - started
        figures = measure(document, case.goal, plan)
        has_failed = has_failed or bool(figures.errors)
        if name in records:
            cells = row(records, name, figures, seconds)
        else:
            cells = row_without_record(document, name, figures, seconds, bound_bytes)
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    return 1 if has_failed else 0


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
