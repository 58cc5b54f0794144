"""A browser of our pages, without Airflow's api-server: who asks, and what Airflow lets them do.

with browser(environment, "victor", may_change=False) as client:
    client.get("/runs/demo-1")
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from html import unescape

from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.api_fastapi.core_api.security import get_user
from fastapi.testclient import TestClient

from counterpoise.installation import Installation, open_installation
from counterpoise.web import app as web
from counterpoise.web.viewers import may_change_runs, may_read

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

    app = web.build_app(open_for_pages or open_environment)
    account = SimpleAuthManagerUser(username=user, role=role)
    app.dependency_overrides[get_user] = lambda: account
    app.dependency_overrides[may_read] = lambda: None
    app.dependency_overrides[may_change_runs] = lambda: may_change
    with TestClient(
        app,
        raise_server_exceptions=False,
        follow_redirects=follow_redirects,
        root_path=root_path,
    ) as client:
        yield client


def token_on(page: str) -> str:
    """Return the token of the form on a page."""
    found = _TOKEN.search(page)
    assert found is not None, page[-1500:]
    return unescape(found[1])
