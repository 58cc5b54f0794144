"""How many rows a simulated month leaves in the ledger, by its runs and prunings alone.

    ledger_model(fleet, month.events)["elections"]

Every run elects leaders and moves nothing. Its plan, the run itself and its last progress stay for
good. Pruning deletes the old approvals and events of a cluster, and with them the elections of a
run. It shares no code with `counterpoise.ledger`.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from benchmarks.month_events import Event, Kind
from benchmarks.simulated_month import EVENTS_OF_A_RUN, KEEP_LEDGER, Fleet


@dataclass
class _Cluster:
    runs: int = 0
    kept_runs: list[Event] = field(default_factory=list)

    def run(self, event: Event) -> None:
        self.runs += 1
        self.kept_runs.append(event)

    def prune(self, now: datetime) -> None:
        self.kept_runs = [run for run in self.kept_runs if run.at >= now - KEEP_LEDGER]


def ledger_model(fleet: Fleet, happened: Iterable[Event]) -> dict[str, int]:
    """Return the number of rows of each table that has any."""
    clusters = {name: _Cluster() for name in fleet.names}
    for event in happened:
        if event.kind is Kind.RUN:
            clusters[event.cluster].run(event)
        elif event.kind is Kind.PRUNE:
            for cluster in clusters.values():
                cluster.prune(event.at)
    rows = sum((_rows(cluster) for cluster in clusters.values()), Counter[str]())
    return {table: count for table, count in rows.items() if count}


def _rows(cluster: _Cluster) -> Counter[str]:
    return Counter(
        clusters=1,
        plans=cluster.runs,
        runs=cluster.runs,
        pulses=cluster.runs,
        step_locks=min(1, cluster.runs),
        approvals=len(cluster.kept_runs),
        events=EVENTS_OF_A_RUN * len(cluster.kept_runs),
        elections=sum(run.count for run in cluster.kept_runs),
    )
