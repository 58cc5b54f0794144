"""The checklist beside Airflow's own database: the button that unpauses the Dags, what the
scheduler lacks, and what became of the first snapshot.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow.api_fastapi.app import init_auth_manager
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from fastapi.testclient import TestClient
from sqlalchemy import select

from counterpoise.installation import Installation
from counterpoise.services.setup import our_dags
from counterpoise.services.viewers import Viewer
from counterpoise.web.forms import form_token
from counterpoise.web.setup import airflow_now
from tests.dags.test_answers_on_pages import environment_of
from tests.support.web import browser, token_on, words_on

ROOT = Path(__file__).parents[2]


def paused_dags() -> list[str]:
    query = select(DagModel.dag_id).where(DagModel.is_paused, DagModel.dag_id.in_(our_dags()))
    with create_session(scoped=False) as session:
        return sorted(session.scalars(query))


@pytest.fixture
def known_dags() -> Iterator[None]:
    """Airflow knows all of ours, and all are paused, as when it has just found them."""
    init_auth_manager()
    DagBundlesManager().sync_bundles_to_db()
    bag = DagBag(dag_folder=ROOT / "dags", bundle_name="dags-folder")
    sync_bag_to_db(bag, "dags-folder", None)
    assert paused_dags() == list(our_dags())
    yield
    with create_session(scoped=False) as session:
        for dag in session.scalars(select(DagModel).where(DagModel.dag_id.in_(our_dags()))):
            dag.is_paused = True


def own_airflow(client: TestClient) -> TestClient:
    """Let pages see this Airflow, not a made-up one."""
    del client.app.dependency_overrides[airflow_now]  # type: ignore[attr-defined]
    return client


def test_the_button_unpauses_every_dag(installation: Installation, known_dags: None) -> None:
    with browser(environment_of(installation), "alice", role="op") as client:
        page = own_airflow(client).get("/setup").text
        assert "6 of 6 are paused" in words_on(page)
        sent = client.post("/setup/unpause", data={"form_token": token_on(page)})
        assert sent.status_code == 303, words_on(sent.text)
        assert paused_dags() == []
        words = words_on(client.get("/setup").text)
        assert "are paused" not in words
        assert "No sign of life: scheduler, dag-processor, triggerer." in words


def test_a_pool_that_airflow_lacks_is_named(
    installation: Installation, known_dags: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERPOISE_AUDIT_POOL", "default_pool")
    monkeypatch.setenv("COUNTERPOISE_RUN_POOL", "counterpoise_runs")
    with create_session(scoped=False) as session:
        for dag in session.scalars(select(DagModel).where(DagModel.dag_id.in_(our_dags()))):
            dag.is_paused = False
    with browser(environment_of(installation), "alice", role="op") as client:
        words = words_on(own_airflow(client).get("/setup").text)
    assert "Airflow has no pool counterpoise_runs, so" in words
    assert "airflow pools set counterpoise_runs" in words


def test_whom_airflow_does_not_let_gets_lines_to_type(
    installation: Installation, known_dags: None
) -> None:
    with browser(environment_of(installation), "victor", role="viewer") as client:
        page = own_airflow(client).get("/setup").text
        assert "airflow dags unpause kafka_audit" in words_on(page) and "Unpause them" not in page
        token = form_token(Viewer("victor"))
        sent = client.post("/setup/unpause", data={"form_token": token})
        assert sent.status_code == 409 and "let victor unpause Dags" in words_on(sent.text)
    assert paused_dags() == list(our_dags())
