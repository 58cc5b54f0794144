"""A browser of our pages, without Airflow's api-server: who asks, and what Airflow lets them do.

with browser(environment, "victor", may_change=False) as client:
    client.get("/runs/demo-1")
"""

import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import uvicorn
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.api_fastapi.core_api.security import get_user
from fastapi import FastAPI
from fastapi.testclient import TestClient

from counterpoise.errors import CounterpoiseError
from counterpoise.installation import Installation, open_installation
from counterpoise.services.setup import AirflowNow, our_dags
from counterpoise.web import app as web
from counterpoise.web.airflow_runs import dag_run_states, start_dag_run
from counterpoise.web.setup import airflow_now
from counterpoise.web.viewers import may_answer_in_airflow, may_change_runs, may_read
from dev.local_processes import free_ports, wait_until
from tests.support.runs import SimulatedRun

Started = list[tuple[str, dict[str, object], str]]
START_SECONDS: Final = 240.0
_TOKEN = re.compile(r'name="form_token" value="([^"]+)"')


@contextmanager
def browser(
    environment: Mapping[str, str],
    user: str,
    *,
    role: str = "op",
    may_change: bool = True,
    open_for_pages: Callable[[], Installation] | None = None,
    root_path: str = "",
    follow_redirects: bool = False,
) -> Iterator[TestClient]:
    """Yield what somebody sees whose account Airflow lets read runs; pages stand at `root_path`."""

    def open_environment() -> Installation:
        return open_installation(environment=environment, may_migrate_ledger=False)

    with _free_pages(open_for_pages or open_environment) as app:
        _let_in(app, user, role, may_change)
        with TestClient(
            app,
            raise_server_exceptions=False,
            follow_redirects=follow_redirects,
            root_path=root_path,
        ) as client:
            yield client


def app_of(
    user: str,
    open_for_pages: Callable[[], Installation],
    *,
    role: str = "op",
    may_change: bool = True,
) -> FastAPI:
    """Return our pages as one account sees them."""
    app = web.build_app(open_for_pages)
    _let_in(app, user, role, may_change)
    return app


def _let_in(app: FastAPI, user: str, role: str, may_change: bool) -> None:
    account = SimpleAuthManagerUser(username=user, role=role)
    app.dependency_overrides[get_user] = lambda: account
    app.dependency_overrides[may_read] = lambda: None
    app.dependency_overrides[may_change_runs] = lambda: may_change
    app.dependency_overrides[may_answer_in_airflow] = lambda: may_change
    set_airflow(app, may_unpause=may_change)


@dataclass(frozen=True)
class _Pages:
    """Our pages, over whichever installation stands in `open` now."""

    app: FastAPI
    open: list[Callable[[], Installation]]

    @classmethod
    def built(cls) -> "_Pages":
        opened: list[Callable[[], Installation]] = []
        return cls(web.build_app(lambda: opened[0]()), opened)


_FREE: Final[list[_Pages]] = []


@contextmanager
def _free_pages(open_for_pages: Callable[[], Installation]) -> Iterator[FastAPI]:
    """Yield pages that nobody else has now: to build them takes longer than most tests of them."""
    pages = _FREE.pop() if _FREE else _Pages.built()
    pages.open[:] = [open_for_pages]
    try:
        yield pages.app
    finally:
        pages.app.dependency_overrides.clear()
        _FREE.append(pages)


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """Yield the address under which pages are served on loopback, for a real browser."""
    (port,) = free_ports(1)
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started, "the pages to be served", START_SECONDS)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


def words_on(page: str) -> str:
    """Return the text of a page as people read it, with single spaces."""
    text = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.S)
    text = re.sub(r"</?(?:bdi|strong|b|span|code|time|a|output)\b[^>]*>", "", text)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", text)).split())


def token_on(page: str) -> str:
    """Return the token of the form on a page."""
    found = _TOKEN.search(page)
    assert found is not None, page[-1500:]
    return unescape(found[1])


def record_starts(
    client: TestClient, refusal: CounterpoiseError | None = None, *, state: str | None = "running"
) -> Started:
    """Return the list of the Dag runs that pages start, as they come: of each the Dag, its
    configuration and the note. With a refusal Airflow starts none; `state` is that of every one.
    """
    started: Started = []
    set_dag_run_state(client, state)

    def start(dag_id: str, configuration: Mapping[str, object], note: str) -> str:
        if refusal:
            raise refusal
        started.append((dag_id, dict(configuration), note))
        return "manual__1"

    client.app.dependency_overrides[start_dag_run] = lambda: start  # type: ignore[attr-defined]
    return started


def set_airflow(
    pages: TestClient | FastAPI,
    *,
    is_paused: bool = True,
    may_unpause: bool = True,
    silent: Collection[str] = (),
    newest: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Let the checklist see an Airflow that knows our Dags, paused or not."""
    app: Any = pages.app if isinstance(pages, TestClient) else pages
    paused = dict.fromkeys(our_dags(), is_paused)
    found = AirflowNow("3.3.2", paused, may_unpause, silent, newest)
    app.dependency_overrides[airflow_now] = lambda: found


def set_dag_run_state(pages: TestClient | FastAPI, state: str | None) -> None:
    """Let pages read this state of every Dag run; None: Airflow has no such Dag run."""
    app: Any = pages.app if isinstance(pages, TestClient) else pages
    app.dependency_overrides[dag_run_states] = lambda: lambda _dag_id, _dag_run_id: state


def environment_in(folder: Path, settings: str) -> dict[str, str]:
    """Return the variables of an installation in a folder, with these settings."""
    (folder / "clusters.yaml").write_text(settings)
    return {
        "COUNTERPOISE_CONFIG": str(folder / "clusters.yaml"),
        "COUNTERPOISE_STORE": str(folder / "store"),
        "COUNTERPOISE_LEDGER": f"sqlite:///{folder}/ledger.db",
    }


def run_with_its_plan(folder: Path, environment: Mapping[str, str]) -> SimulatedRun:
    """Make a run on the simulated cluster whose plan is in the store that pages read."""
    made = SimulatedRun.make(folder)
    with open_installation(environment=environment) as installation:
        installation.archive.store.write_text("plans/x.json", made.plan.to_json())
    return made
