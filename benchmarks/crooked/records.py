"""The best plan known for each crooked cluster: `best_known.json`, and `plans/NAME.json.gz`.

    record = read_records()["add-420"]
    record.figures.copied_bytes, record.bound_bytes, record.cpu_minutes
    read_plan("add-420")            # Kafka's reassignment JSON

`bound_bytes` is the least that any plan copies with these counts and no more bytes outside the
band, by the relaxation of `search`; 0 where it is not known. A second record NAME+several is there
where a plan is better that gives some partitions several new replicas, which no rack needs.

Limits: `found_by` names a planner where no search has run yet.
"""

import gzip
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.crooked.measure import Figures

SEVERAL: Final = "+several"  # ends the key of a record whose plan may give several new replicas
FOLDER: Final = Path(__file__).parent
_TABLE: Final = FOLDER / "best_known.json"


@dataclass(frozen=True, slots=True)
class Record:
    digest: str  # of the cluster document
    replicas: int
    figures: Figures
    bound_bytes: int
    cpu_minutes: float  # spent on the search, all runs together
    found_by: str

    @property
    def gap(self) -> float | None:
        """Return bytes copied as a multiple of the bound."""
        return self.figures.copied_bytes / self.bound_bytes if self.bound_bytes else None

    def after_search(
        self,
        plan: Mapping[str, Any],
        figures: Figures,
        bound: int,
        seconds: float,
        *,
        is_better: bool,
    ) -> tuple["Record", Mapping[str, Any] | None]:
        """Return the record after a run of `search`, and its plan where that is better."""
        minutes = round(self.cpu_minutes + seconds / 60, 2)
        if is_better:
            by = "linear program and its core (HiGHS)"
            return replace(
                self, figures=figures, bound_bytes=bound, cpu_minutes=minutes, found_by=by
            ), plan
        is_same = figures.rank[:3] == self.figures.rank[:3]
        known = max(self.bound_bytes, bound) if is_same else self.bound_bytes
        return replace(self, bound_bytes=known, cpu_minutes=minutes), None


def read_records() -> dict[str, Record]:
    table = json.loads(_TABLE.read_text()) if _TABLE.exists() else {}
    return {
        name: Record(**{**row, "figures": Figures(**row["figures"])}) for name, row in table.items()
    }


def read_plan(name: str) -> dict[str, Any]:
    data = (FOLDER / "plans" / f"{name}.json.gz").read_bytes()
    plan: dict[str, Any] = json.loads(gzip.decompress(data))
    return plan


def write_record(name: str, record: Record, plan: Mapping[str, Any] | None = None) -> None:
    """Keep a record, and its plan where it is a new one."""
    records = read_records() | {name: record}
    if plan is not None:
        path = FOLDER / "plans" / f"{name}.json.gz"
        path.parent.mkdir(exist_ok=True)
        text = json.dumps(plan, separators=(",", ":"), sort_keys=True)
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
    rows = {key: asdict(value) for key, value in sorted(records.items())}
    _TABLE.write_text(json.dumps(rows, indent=1) + "\n")
