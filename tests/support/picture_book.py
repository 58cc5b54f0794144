"""The pictures of README and documents: pages of a fleet that is made up, in Chromium.

    python -m tests.support.picture_book docs/images     # or `make pictures`

One cluster has weeks of history, a run of another one moves and ends while the pictures are taken,
and a plan of a third one waits for alice. Nothing of it is random: pictures change where pages do.
"""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser

from counterpoise.archive import run_outcome_name
from counterpoise.execution import Driver
from counterpoise.installation import Installation
from counterpoise.model.report import RunOutcome
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.model.run import VALIDATED, WHY_REQUESTED
from counterpoise.planning import make_plan
from tests.support import runs
from tests.support.analysed_fleet import ANALYSED, SETTINGS, write_fleet
from tests.support.browser import Visitor, chromium
from tests.support.ledger_view import add_event
from tests.support.pages import Pages
from tests.support.pictures import cluster
from tests.support.runs import SimulatedRun
from tests.support.series import story
from tests.support.web import app_of, served, set_dag_run_state
from tests.support.written_history import write_history

RACKS: Final = "1=a 2=b 3=c 4=d"
_HALF_FULL, _EMPTY = "500000000000/1000000000000", "0/1000000000000"
DISKS: Final = f"1={_HALF_FULL} 2={_HALF_FULL} 3={_HALF_FULL} 4={_EMPTY}"
WIDTH, HEIGHT = 1280, 800
ANALYSED_CLUSTER: Final = ANALYSED[0]
WAITING_CLUSTER, MOVING_CLUSTER = "payments", "shipping"
ACCESS: Final = "{approve: [alice, bob], operate: [alice], propose: [alice, bob]}"
POLICY: Final = f"{{access: {ACCESS}, movement: {{rate: 50MB/s}}}}"
CLUSTERS: Final = f"""\
clusters:
  {WAITING_CLUSTER}: {{connection: kafka_demo, policy: {POLICY}}}
  {MOVING_CLUSTER}: {{connection: kafka_demo, policy: {POLICY}}}
{SETTINGS}"""
RATE: Final = 50_000_000
ANSWERED_AFTER_SECONDS: Final = 12 * 60
TOPICS: Final = {"orders": 12, "clicks": 24, "invoices": 6}
BEFORE_ANYTHING: Final = {
    "fleet": "/fleet",
    "cluster": f"/clusters/{ANALYSED_CLUSTER}",
    "balance": f"/clusters/{ANALYSED_CLUSTER}/balance",
    "run-waiting": "/runs/WAITING",
    "run-moving": "/runs/MOVING",
}
AFTERWARDS: Final = {"run-done": "/runs/MOVING"}


def partitions(unit_bytes: int) -> str:
    """Return three brokers of which the first leads most, and a fourth one without anything."""
    orders = ("1 2 3", "1 3 2", "2 1 3", "1 2 3", "3 1 2", "1 3 2")
    return "\n".join(
        f"{topic}-{number}: {orders[number % 6]} size={unit_bytes * (1 + 7 * number % 5)}"
        for topic, count in TOPICS.items()
        for number in range(count)
    )


@contextmanager
def made_up_fleet(folder: Path) -> Iterator[tuple[Pages, SimulatedRun, Driver, str]]:
    """Yield the fleet, the run that moves with its driver, and the id of the run that waits."""
    told = story(brokers=9, snapshots=24 * 21, cluster=ANALYSED_CLUSTER)
    runs.START = told.times[-1] + timedelta(minutes=20)
    picture = partitions(600_000_000)
    asked = PlanRequest(Goal.ADD_BROKERS, (4,))
    plan = make_plan(cluster(picture, racks=RACKS, disks=DISKS, name=MOVING_CLUSTER), asked)
    moving = SimulatedRun.make(folder, picture, racks=RACKS, plan=plan, approve=False)
    moving.rate = RATE
    moving.cluster.advance(ANSWERED_AFTER_SECONDS)
    yes = replace(moving.approval(), by="airflow:bob", reason="broker 4 joined")
    moving.ledger.record_decision(yes)
    driver = moving.driver()
    moving.until_moving(driver)
    while moving.run_progress().progress.share < 0.4:
        moving.cluster.advance(driver.step() or 0)
    (folder / "connections.yaml").write_text('kafka_demo: {"bootstrap.servers": "kafka-1:9092"}\n')
    pages = replace(Pages.in_folder(folder, CLUSTERS), now=moving.clock())
    large = partitions(2_000_000_000)
    waits = make_plan(cluster(large, racks=RACKS, disks=DISKS, name=WAITING_CLUSTER), asked)
    with pages.installation() as installation:
        installation.archive.store.write_text("plans/x.json", plan.to_json())
        write_fleet(installation)
        write_history(installation, told)
        for name in (WAITING_CLUSTER, MOVING_CLUSTER):
            at = pages.now - timedelta(minutes=20)
            installation.ledger.pin_cluster(name, f"id-of-{name}")
            installation.ledger.record_snapshot(name, f"{name}-{at:%Y%m%dT%H%M%SZ}", at)
    asked_at = pages.now - timedelta(seconds=ANSWERED_AFTER_SECONDS)
    with replace(pages, now=asked_at).installation() as installation:
        run = installation.ledger.propose(
            waits, installation.archive.write_plan(waits), requested_by="airflow:bob"
        )
        add_event(installation.ledger, run.run_id, VALIDATED, waits.fingerprint)
        add_event(installation.ledger, run.run_id, WHY_REQUESTED, "New hosts for the year-end peak")
    yield pages, moving, driver, run.run_id


def write_outcome(pages: Pages, moving: SimulatedRun) -> None:
    """Write what a snapshot showed afterwards: producers have written 2 % more meanwhile."""
    brokers = tuple(
        replace(load, bytes=load.bytes * 102 // 100) for load in moving.run_progress().brokers
    )
    copied_bytes = moving.plan.copied_bytes * 102 // 100
    outcome = RunOutcome(moving.clock(), brokers, copied_bytes)
    name = run_outcome_name(MOVING_CLUSTER, moving.run_id)
    with pages.installation() as installation:
        installation.archive.write_report(name, outcome.to_json())


def take(browser: Browser, out: Path) -> None:
    """Write every picture into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as name,
        made_up_fleet(Path(name)) as (pages, moving, driver, waiting),
    ):

        def open_for_pages() -> Installation:
            found = pages.installation(for_pages=True)
            found.clock = moving.clock
            return found

        app = app_of("alice", open_for_pages)
        set_dag_run_state(app, "running")
        with served(app) as address:
            alice = Visitor.at(browser, address, out)
            alice.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
            for group in (BEFORE_ANYTHING, AFTERWARDS):
                if group is AFTERWARDS:
                    moving.repeat(driver.step)
                    moving.end(driver)
                    write_outcome(pages, moving)
                for picture, path in group.items():
                    alice.open(path.replace("WAITING", waiting).replace("MOVING", moving.run_id))
                    alice.take_picture(picture)
            alice.check_no_problem()


if __name__ == "__main__":
    with chromium() as found:
        take(found, Path(sys.argv[1]))
