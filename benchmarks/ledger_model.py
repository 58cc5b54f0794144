"""How many rows a simulated month leaves in the ledger, by its runs and checkpoints alone.

    ledger_model(fleet, month.events)["elections"]

Every run elects leaders and moves nothing. Its plan, the run itself and its last progress stay for
good. A checkpoint deletes the oldest entries of a cluster's chain with their rows, and with them
the elections of a run; an entry of its own says so, and goes in its turn. It shares no code with
`counterpoise.ledger`.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from benchmarks.month_events import Event, Kind
from benchmarks.simulated_month import EVENTS_OF_A_RUN, KEEP_LEDGER, Fleet


@dataclass
class _Cluster:
    """The entries of a cluster's chain, oldest first: of runs, and of checkpoints (None)."""

    runs: int = 0
    entries: list[tuple[datetime, Event | None]] = field(default_factory=list)

    def run(self, event: Event) -> None:
        self.runs += 1
        self.entries.append((event.at, event))

    def checkpoint(self, now: datetime) -> None:
        kept = [entry for entry in self.entries if entry[0] >= now - KEEP_LEDGER]
        if len(kept) < len(self.entries):
            self.entries = [*kept, (now, None)]


def ledger_model(fleet: Fleet, happened: Iterable[Event]) -> dict[str, int]:
    """Return the number of rows of each table that has any."""
    clusters = {name: _Cluster() for name in fleet.names}
    for event in happened:
        if event.kind is Kind.RUN:
            clusters[event.cluster].run(event)
        elif event.kind is Kind.CHECKPOINT:
            for cluster in clusters.values():
                cluster.checkpoint(event.at)
    rows = sum((_rows(cluster) for cluster in clusters.values()), Counter[str]())
    return {table: count for table, count in rows.items() if count}


def _rows(cluster: _Cluster) -> Counter[str]:
    kept_runs = [run for _, run in cluster.entries if run is not None]
    checkpoints = len(cluster.entries) - len(kept_runs)
    approvals, events = len(kept_runs), EVENTS_OF_A_RUN * len(kept_runs)
    return Counter(
        clusters=1,
        plans=cluster.runs,
        runs=cluster.runs,
        pulses=cluster.runs,
        step_locks=min(1, cluster.runs),
        approvals=approvals,
        events=events,
        elections=sum(run.count for run in kept_runs),
        chain=approvals + events + checkpoints,
    )
