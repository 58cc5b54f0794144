"""A form of our pages starts a Dag run of Airflow with all that was typed; sent twice, as by a
double click, it starts one.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from airflow.api_fastapi.app import init_auth_manager
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from sqlalchemy import select

from counterpoise.installation import Installation
from tests.dags.test_answers_on_pages import environment_of
from tests.support.web import browser, token_on

ROOT = Path(__file__).parents[2]
DAG_ID = "kafka_snapshot"
PATH = "/clusters/demo/start/snapshot"


@pytest.fixture
def started() -> Iterator[Callable[[], set[str]]]:
    """Airflow knows the Dag, and starts its runs; yield what tells the new ones."""
    with starting(DAG_ID) as new_runs:
        yield new_runs


@contextmanager
def starting(dag_id: str) -> Iterator[Callable[[], set[str]]]:
    """Let Airflow start runs of a Dag; those that are new are deleted at the end."""
    init_auth_manager()
    DagBundlesManager().sync_bundles_to_db()
    bag = DagBag(dag_folder=ROOT / "dags" / f"{dag_id}.py", bundle_name="dags-folder")
    assert dag_id in bag.dags
    sync_bag_to_db(bag, "dags-folder", None)
    with create_session(scoped=False) as session:
        session.get_one(DagModel, dag_id).is_paused = False
    earlier = _dag_run_ids(dag_id)  # of other tests
    yield lambda: _dag_run_ids(dag_id) - earlier
    with create_session(scoped=False) as session:
        for dag_run in session.scalars(select(DagRun).where(DagRun.dag_id == dag_id)):
            if dag_run.run_id not in earlier:
                session.delete(dag_run)
        session.get_one(DagModel, dag_id).is_paused = True


def _dag_run_ids(dag_id: str) -> set[str]:
    with create_session(scoped=False) as session:
        return set(session.scalars(select(DagRun.run_id).where(DagRun.dag_id == dag_id)))


def test_the_task_that_makes_the_plan_gets_the_reason(installation: Installation) -> None:
    """It sees no note of its Dag run."""
    path = "/clusters/demo/plan"
    with (
        starting("kafka_rebalance") as new_runs,
        browser(environment_of(installation), "alice", role="user") as client,
    ):
        typed = {"do": "start", "goal": "leaders", "reason": "broker 3 leads most"}
        form = {"form_token": token_on(client.get(path).text), **typed}
        sent = client.post(path, data=form)
        assert sent.status_code == 303, sent.text
        (run_id,) = new_runs()
        with create_session(scoped=False) as session:
            query = select(DagRun).where(DagRun.run_id == run_id)
            assert session.scalars(query).one().conf == {
                "cluster": "demo",
                "goal": "leaders",
                "reason": "broker 3 leads most",
            }


def test_a_double_click_starts_one_dag_run(
    installation: Installation, started: Callable[[], set[str]]
) -> None:
    with browser(environment_of(installation), "alice", role="user") as client:
        form = {"form_token": token_on(client.get("/clusters/demo").text), "reason": "disks"}
        first, second = (client.post(PATH, data=form) for _ in range(2))
        assert (first.status_code, second.status_code) == (303, 303), first.text
        assert first.headers["location"] == second.headers["location"]
        assert len(started()) == 1
        other = client.post(PATH, data=form | {"reason": "disks again"})
        assert other.headers["location"] != first.headers["location"]
        assert len(started()) == 2


def test_two_clicks_at_one_instant_start_one_dag_run(
    installation: Installation, started: Callable[[], set[str]]
) -> None:
    together = threading.Barrier(2, timeout=240)
    statuses: list[int] = []
    with browser(environment_of(installation), "alice", role="user") as client:
        form = {"form_token": token_on(client.get("/clusters/demo").text), "reason": "disks"}

        def click() -> None:
            together.wait()
            statuses.append(client.post(PATH, data=form).status_code)

        threads = [threading.Thread(target=click) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert statuses == [303, 303]
    assert len(started()) == 1
