"""Requests that no page of ours makes: one sentence for each, and nothing is written."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from airflow.api_fastapi.core_api.security import get_user
from fastapi import FastAPI, HTTPException
from fastapi.testclient import TestClient
from httpx import Response

from counterpoise.model.control import Control, ControlRequest
from counterpoise.model.run import Run
from tests.support import hostile, web
from tests.support.pages import Pages

MULTIPART = "multipart/form-data; boundary=X"


@pytest.fixture
def pages(tmp_path: Path) -> Pages:
    return Pages.in_folder(tmp_path, "clusters: {demo: {connection: x}}")


@pytest.fixture
def run(pages: Pages) -> Run:
    return pages.propose("demo")


@pytest.fixture
def client(pages: Pages) -> Iterator[TestClient]:
    """Return a browser of somebody who may do everything."""
    with web.browser(
        pages.environment, "bob", open_for_pages=lambda: pages.installation(for_pages=True)
    ) as client:
        yield client


def part(name: str, value: str, more: str = "") -> str:
    return f'--X\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n{value}\r\n'


def check_sentence(text: str) -> None:
    hostile.check_html(text)
    assert "<h1>Not available</h1>" in text, text[-600:]


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/clusters/",
        "/runs/",
        "/clusters/demo/no",
        "/clusters/demo/",
        "/runs/%00",
        "/ledger?run=%00",
        "/ledger?person=%00",
        "/fleet?search=a%00",
        "/reports/demo/%00",
    ],
)
def test_an_address_that_there_is_not_is_a_page(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    check_sentence(answer.text)


@pytest.mark.parametrize("prefix", ["", "/airflow"])
def test_a_page_without_a_login_asks_for_one_and_comes_back(pages: Pages, prefix: str) -> None:
    html, root = {"accept": "text/html,*/*"}, f"{prefix}/counterpoise"
    with web.browser(pages.environment, "nobody", root_path=root) as client:
        refuse_the_login(client)
        answer = client.get("/runs/a%20b?text=x%26y", headers=html)
        assert answer.status_code == 303
        back = httpx.URL(answer.headers["location"])
        assert back.path == f"{prefix}/api/v2/auth/login"
        assert back.params["next"] == f"{root}/runs/a%20b?text=x%26y"
        for program in (
            client.get("/fleet"),
            client.get("/api/fleet", headers=html),
            client.post("/runs/a/answer"),
        ):
            assert program.status_code == 401 and program.json() == {"detail": "Not authenticated"}
        form = client.post("/runs/a/answer", headers=html)
        assert form.status_code == 401 and "log in to Airflow" in form.text
        check_sentence(form.text)


def refuse_the_login(client: TestClient) -> None:
    """Answer as Airflow does where no login came with a request."""

    def refuse() -> None:
        raise HTTPException(401, "Not authenticated")

    assert isinstance(client.app, FastAPI)
    client.app.dependency_overrides[get_user] = refuse


def test_an_unknown_address_of_the_api_is_json(client: TestClient) -> None:
    answer = client.get("/api/nothing")
    assert answer.status_code == 404 and answer.json()["detail"].startswith("There is nothing")


def test_the_address_of_a_form_says_where_the_form_is(client: TestClient) -> None:
    """As after a failed answer, when its address is opened again."""
    for path in ("/setup/unpause", "/clusters/demo/start/snapshot"):
        answer = client.get(path)
        assert answer.status_code == 405 and "open the page that has the form" in answer.text
        check_sentence(answer.text)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_a_method_that_no_page_has_is_a_page(client: TestClient, method: str) -> None:
    answer = client.request(method, "/fleet")
    assert answer.status_code == 405 and answer.headers["allow"] == "GET"
    check_sentence(answer.text)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("multipart/form-data", "x"),
        (MULTIPART, "garbage"),
        (
            MULTIPART,
            part("form_token", "{token}") + part("reason", "x", '; filename="a"') + "--X--",
        ),
        ("application/x-www-form-urlencoded", "form_token={token}" + "&reason=x" * 1001),
    ],
)
def test_a_form_that_cannot_be_read_is_a_page(
    client: TestClient, pages: Pages, run: Run, content_type: str, body: str
) -> None:
    answer = freeze(client, run, content_type, body)
    assert answer.status_code in (400, 422)
    check_sentence(answer.text)
    assert not freezes(pages)


def freeze(client: TestClient, run: Run, content_type: str, body: str) -> Response:
    path = f"/clusters/{run.cluster}/requests/freeze"
    token = web.token_on(client.get(path).text)
    content = body.replace("{token}", token).encode()
    answer: Response = client.post(path, content=content, headers={"Content-Type": content_type})
    return answer


def freezes(pages: Pages) -> tuple[ControlRequest, ...]:
    with pages.installation() as installation:
        requests = installation.ledger.requests("demo")
    return tuple(one for one in requests if one.control is Control.FREEZE)


def test_a_page_that_loads_itself_again_goes_nowhere_else(client: TestClient) -> None:
    web.set_dag_run_state(client, "queued")
    dag_run_id = '"; url=https://evil.example \r\nSet-Cookie: a=b'
    page = client.get(
        "/clusters/demo/started/kafka_rebalance", params={"dag_run_id": dag_run_id, "e": "é"}
    )
    assert page.status_code == 200 and "set-cookie" not in page.headers
    seconds, _, address = page.headers["refresh"].partition("; url=")
    assert seconds == "5" and address.startswith("/clusters/demo/started/kafka_rebalance?")
    assert not set(address) & set('" \r\n') and address.isascii()
    assert client.get(address).headers["refresh"] == page.headers["refresh"]
