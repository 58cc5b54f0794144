"""What lies where in the store: snapshots, results of the Spark job, plans and reports, by their names.

    archive = Archive(store)
    archive.write_snapshot(snapshot)             # tables first, the manifest last
    archive.balance_tables("orders-eu")          # what the Spark job made of all analysed snapshots

Part of the wiring, beside `installation.py`: `pipeline` writes through it, `queries` reads.
"""

import json
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

import pyarrow as pa

from counterpoise import history
from counterpoise.errors import InputError, StalePlanError, StoreError
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.tables import BROKER_BALANCE, SNAPSHOTS, TOPIC_BALANCE
from counterpoise.storage import Store

_RESULTS = {"broker_balance": BROKER_BALANCE, "topic_balance": TOPIC_BALANCE}


class Archive:
    def __init__(self, store: Store) -> None:
        self.store = store

    def write_snapshot(self, snapshot: ClusterSnapshot) -> None:
        for path, table in history.history_files(snapshot).items():
            self.store.write_table(path, table)
        self.store.write_table(*history.manifest_of(snapshot))

    def read_snapshot(self, cluster: str, snapshot_id: str) -> ClusterSnapshot:
        """Raises StoreError when the history does not have it."""
        row = self.store.read_table(history.manifest_path(cluster, snapshot_id)).to_pylist()[0]
        tables = {name: self.store.read_table(path) for name, path in history.files_of(row).items()}
        return history.from_tables(row, tables)

    def manifests(self, clusters: Sequence[str]) -> pa.Table:
        """The manifest rows of all snapshots of these clusters, oldest first."""
        paths = [
            path for name in clusters for path in self.store.list(history.manifests_folder(name), suffix=".parquet")
        ]
        tables = [self.store.read_table(path) for path in sorted(paths)]
        return pa.concat_tables(tables, promote_options="default") if tables else SNAPSHOTS.empty_table()

    def rounds(self) -> Iterator[dict[str, Any]]:
        """Finished rounds of the Spark job, by name: {"round", "snapshots": [{"snapshot_id", "cluster"}]}."""
        for path in self.store.list("results/rounds", suffix=".json"):
            yield json.loads(self.store.read_text(path))

    def finish_round(self, round_id: str, manifests: pa.Table) -> None:
        """Written after the job's own files: a round without this never happened."""
        snapshots = manifests.select(["snapshot_id", "cluster"]).to_pylist()
        document = json.dumps({"round": round_id, "snapshots": snapshots}, indent=1, sort_keys=True)
        self.store.write_text(f"results/rounds/{round_id}.json", document + "\n")

    def analysed_ids(self) -> set[str]:
        return {snapshot["snapshot_id"] for finished in self.rounds() for snapshot in finished["snapshots"]}

    def balance_tables(self, cluster: str) -> tuple[pa.Table, pa.Table]:
        """BROKER_BALANCE and TOPIC_BALANCE of every analysed snapshot of a cluster, each snapshot once."""
        parts: dict[str, list[pa.Table]] = {name: [] for name in _RESULTS}
        seen: set[str] = set()
        for finished in self.rounds():
            wanted = {s["snapshot_id"] for s in finished["snapshots"] if s["cluster"] == cluster} - seen
            if wanted:
                seen |= wanted
                for name, schema in _RESULTS.items():
                    parts[name].append(self._result(name, finished["round"], wanted, schema))
        brokers, topics = (
            pa.concat_tables(tables) if tables else _RESULTS[name].empty_table() for name, tables in parts.items()
        )
        return brokers, topics

    def write_plan(self, plan: RebalancePlan) -> str:
        """Where it lies, relative to the store. The name is the fingerprint: writing again changes nothing."""
        path = f"plans/{plan.fingerprint.removeprefix('sha256:')}.json"
        self.store.write_text(path, plan.to_json())
        return path

    def read_plan(self, path: str, fingerprint: str) -> RebalancePlan:
        """Raises StalePlanError when what lies there is not the plan of that fingerprint."""
        plan = RebalancePlan.from_json(self.store.read_text(path), where=path)
        if plan.fingerprint != fingerprint:
            raise StalePlanError(f"{path} holds plan {plan.fingerprint}, not {fingerprint}; nothing was changed")
        return plan

    def write_report(self, name: str, text: str) -> str:
        """Its URI."""
        self.store.write_text(f"reports/{name}", text)
        return self.store.uri(f"reports/{name}")

    def read_report(self, name: str) -> str:
        """Raises InputError for a report that is not there."""
        try:
            return self.store.read_text(f"reports/{name}")
        except StoreError:
            raise InputError(f"there is no report {name!r}") from None

    def report_names(self, *, suffix: str = ".html") -> tuple[str, ...]:
        return tuple(path.removeprefix("reports/") for path in self.store.list("reports", suffix=suffix))

    def _result(self, name: str, round_id: str, snapshot_ids: set[str], schema: pa.Schema) -> pa.Table:
        files = self.store.list(f"results/{name}/round={round_id}", suffix=".parquet")
        tables = [self.store.read_table(path).select(schema.names).cast(schema) for path in files]
        table = pa.concat_tables(tables) if tables else schema.empty_table()
        return table.filter(pa.array([i in snapshot_ids for i in table["snapshot_id"].to_pylist()], type=pa.bool_()))


def balance_report_name(cluster: str, day: date | None = None, *, suffix: str = "html") -> str:
    """The newest report of a cluster, or the one of a day."""
    return f"{cluster}/leader-balance{f'-{day.isoformat()}' if day else ''}.{suffix}"


def plan_report_name(cluster: str, run_id: str) -> str:
    return f"{cluster}/runs/{run_id}-plan.html"


def run_report_name(cluster: str, run_id: str) -> str:
    return f"{cluster}/runs/{run_id}-run.html"
