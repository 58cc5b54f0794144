"""An installation in a folder, and browsers of the people who look at its pages.

pages = Pages.in_folder(tmp_path, "clusters: {demo: {connection: x}}")
with pages.browser("victor") as browser: browser.get("/fleet")
with pages.installation() as installation: installation.archive.write_report(...)
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fastapi.testclient import TestClient

from counterpoise.installation import Installation, open_installation
from counterpoise.model.control import Control, ControlRequest
from counterpoise.model.plan import LowerBound, RebalancePlan
from counterpoise.model.request import Goal
from counterpoise.model.run import Run
from tests.support import web

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Pages:
    environment: dict[str, str]
    now: datetime = NOW

    @classmethod
    def in_folder(cls, folder: Path, clusters: str) -> "Pages":
        """Return an installation with these settings, an empty store and an empty ledger."""
        (folder / "clusters.yaml").write_text(clusters)
        pages = cls(
            {
                "COUNTERPOISE_CONFIG": str(folder / "clusters.yaml"),
                "COUNTERPOISE_CONNECTIONS": str(folder / "connections.yaml"),
                "COUNTERPOISE_STORE": str(folder / "store"),
                "COUNTERPOISE_LEDGER": f"sqlite:///{folder}/ledger.db",
            }
        )
        with pages.installation() as installation:
            assert installation.ledger
        return pages

    def installation(self, *, for_pages: bool = False) -> Installation:
        found = open_installation(environment=self.environment, may_migrate_ledger=not for_pages)
        found.clock = lambda: self.now
        return found

    @contextmanager
    def browser(
        self,
        name: str = "victor",
        role: str = "viewer",
        *,
        may_change: bool = True,
        root_path: str = "",
    ) -> Iterator[TestClient]:
        """Yield the browser of somebody whom Airflow lets read; our pages stand at `root_path`."""
        with web.browser(
            self.environment,
            name,
            role=role,
            may_change=may_change,
            open_for_pages=lambda: self.installation(for_pages=True),
            root_path=root_path,
            follow_redirects=True,
        ) as client:
            yield client

    def propose(
        self,
        cluster: str,
        by: str = "alice",
        broker_ids: Sequence[int] = (),
        dag_run: tuple[str | None, str | None] = (None, None),
    ) -> Run:
        """Propose a plan that moves nothing; `dag_run` is the id of the Dag, and of its run."""
        dag_id, dag_run_id = dag_run
        plan = nothing_to_move(cluster, broker_ids=tuple(broker_ids))
        with self.installation() as installation:
            path = installation.archive.write_plan(plan)
            return installation.ledger.propose(
                plan, path, requested_by=f"airflow:{by}", dag_id=dag_id, dag_run_id=dag_run_id
            )

    def keep_empty(self, broker_id: int, by: str) -> None:
        """Record that a run of somebody has emptied a broker of `demo`."""
        why = "run demo-7 emptied it"
        keep = ControlRequest(
            "demo", None, Control.KEEP_EMPTY, by, why, self.now, broker_id=broker_id
        )
        with self.installation() as installation:
            installation.ledger.record_request(keep)


def nothing_to_move(
    cluster: str, *, broker_ids: tuple[int, ...] = (), warnings: tuple[str, ...] = ()
) -> RebalancePlan:
    """Return a plan that moves nothing."""
    nothing = LowerBound(0, 0, 0)
    return RebalancePlan(
        cluster,
        "id",
        "s",
        Goal.LEADERS,
        broker_ids,
        "digest",
        (),
        (),
        nothing,
        warnings=warnings,
    )
