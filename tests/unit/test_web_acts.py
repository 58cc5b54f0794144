"""What people do by the forms of pages, done by programs: the same rows, rights and words."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from counterpoise.model.control import Control
from counterpoise.services.viewers import Viewer
from counterpoise.web.forms import form_token
from tests.support.ledger_view import LedgerView
from tests.support.runs import SimulatedRun
from tests.support.web import Started, browser, environment_in, record_starts
from tests.unit.test_web_runs import moving, requests_of, simulated  # noqa: F401 - fixtures

NAMED = "{view: [oscar, victor], propose: [oscar], operate: [oscar], approve: [alice]}"
BEARER = {"Authorization": "Bearer of-oscar"}
REBALANCE = "kafka_rebalance"


def end(made: SimulatedRun) -> None:
    made.repeat(made.driver().step)
    made.end(made.driver())


@dataclass(frozen=True)
class Act:
    path: str  # of the page's form; the route for programs has it below /api
    body: dict[str, Any] = field(default_factory=dict)  # beside the reason
    starts: tuple[str, dict[str, Any]] | None = None  # a Dag run: the Dag, and its configuration
    before: Callable[[SimulatedRun], None] = lambda made: None

    def path_of(self, made: SimulatedRun) -> str:
        return self.path.replace("RUN", made.run_id)


ACTS = (
    Act("/runs/RUN/requests/pause"),
    Act("/runs/RUN/requests/resume", before=lambda made: made.ask(Control.PAUSE)),
    Act("/runs/RUN/requests/rate", {"rate": "1MB/s"}),
    Act("/runs/RUN/requests/cancel"),
    Act("/runs/RUN/requests/undo"),
    Act("/clusters/picture/requests/freeze", {"until": "2036-01-31T22:00"}),
    Act(
        "/clusters/picture/requests/unfreeze",
        before=lambda made: made.ask(Control.FREEZE, until=datetime(2036, 1, 31, tzinfo=UTC)),
    ),
    Act(
        "/clusters/picture/requests/release",
        {"brokers": "4"},
        before=lambda made: made.ask(Control.KEEP_EMPTY, broker_id=4),
    ),
    Act("/runs/RUN/undo", starts=(REBALANCE, {"undo_of": "RUN"}), before=end),
    Act(
        "/clusters/picture/plan",
        {"goal": "add-brokers", "broker_ids": [4], "only_broker_ids": "1,4", "topics": None},
        starts=(REBALANCE, {"goal": "add-brokers", "broker_ids": [4], "only_broker_ids": "1,4"}),
    ),
    Act("/clusters/picture/start/snapshot", starts=("kafka_snapshot", {})),
    Act("/clusters/picture/start/audit", starts=("kafka_audit", {})),
)
every_act = pytest.mark.parametrize("act", ACTS, ids=lambda act: act.path)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return environment_in(
        tmp_path, f"clusters: {{picture: {{connection: x, policy: {{access: {NAMED}}}}}}}"
    )


@pytest.fixture
def made(request: pytest.FixtureRequest, moving: SimulatedRun) -> SimulatedRun:  # noqa: F811
    """Return a run of which the act can be done."""
    request.getfixturevalue("act").before(moving)
    return moving


@pytest.fixture
def oscar(environment: dict[str, str]) -> Iterator[tuple[TestClient, Started]]:
    with doing(environment, "oscar") as found:
        yield found


@contextmanager
def doing(
    environment: dict[str, str], user: str, *, may_change: bool = True
) -> Iterator[tuple[TestClient, Started]]:
    with browser(environment, user, may_change=may_change) as client:
        yield client, record_starts(client)


def do(
    client: TestClient,
    act: Act,
    made: SimulatedRun,
    headers: dict[str, str] | None = None,
    **more: Any,
) -> Any:
    body = {"reason": "month end"} | act.body | more
    headers = BEARER if headers is None else headers
    return client.post(f"/api{act.path_of(made)}", json=body, headers=headers)


def send(client: TestClient, act: Act, made: SimulatedRun, user: str, **more: str) -> Any:
    """Send the same by the form of the page."""
    typed = {name: str(value) for name, value in act.body.items() if isinstance(value, str)}
    data = (
        {"form_token": token_of(user), "do": "start", "sure": "yes", "reason": "month end"}
        | typed
        | more
    )
    return client.post(act.path_of(made), data=data)


def token_of(user: str) -> str:
    return form_token(Viewer(user))


def written(made: SimulatedRun) -> list[Any]:
    """Return what acts write: requests, and events of the run."""
    events = LedgerView.of(made.ledger).events(made.run_id)
    return [*made.ledger.requests("picture", made.run_id), *(event.kind for event in events)]


@every_act
def test_what_a_program_asks_for_is_done(
    act: Act, made: SimulatedRun, oscar: tuple[TestClient, Started]
) -> None:
    client, started = oscar
    before = written(made)
    answer = do(client, act, made)
    told = answer.json()
    assert told.pop("format") == "counterpoise-api/1", answer.text
    if act.starts:
        dag_id, wanted = act.starts
        assert answer.status_code == 202, answer.text
        assert told == {"cluster": "picture", "dag_id": dag_id, "dag_run_id": "manual__1"}
        wanted = {name: made.run_id if name == "undo_of" else it for name, it in wanted.items()}
        of_cluster = {"cluster": "picture"} if dag_id == REBALANCE else {"clusters": ["picture"]}
        assert started == [(dag_id, of_cluster | wanted, "month end")]
    else:
        assert answer.status_code == 200, answer.text
        run_id = made.run_id if act.path.startswith("/runs") else None
        assert (told["cluster"], told["run_id"]) == ("picture", run_id)
        row = made.ledger.requests("picture", made.run_id)[-1]
        assert (row.control, row.why) == (act.path.split("/")[-1], "month end")
        assert row.by == "airflow:oscar"
        (request,) = told["requests"]
        assert (request["control"], request["by"]) == (row.control, row.person.shown)
        assert request["broker_id"] == row.broker_id
        assert len(written(made)) > len(before) and not started


@every_act
def test_who_may_not_is_told_why_as_on_the_page(
    environment: dict[str, str], act: Act, made: SimulatedRun
) -> None:
    before = written(made)
    for user, may_change, words in (
        ("victor", True, "here; the policy names oscar"),
        ("oscar", False, "and not change them, so nothing was changed"),
    ):
        with doing(environment, user, may_change=may_change) as (client, started):
            answer, page = do(client, act, made), send(client, act, made, user)
        assert answer.status_code == page.status_code == 403 and not started
        assert set(answer.json()) == {"detail"} and words in answer.json()["detail"]
        assert answer.json()["detail"][1:] in unescape(page.text)
    assert written(made) == before


def test_a_rate_above_what_was_approved_is_for_those_who_approve(
    moving: SimulatedRun,  # noqa: F811
    oscar: tuple[TestClient, Started],
) -> None:
    client, _ = oscar
    before = written(moving)
    act = Act("/runs/RUN/requests/rate", {"rate": "900MB/s"})
    answer, page = do(client, act, moving), send(client, act, moving, "oscar")
    assert answer.status_code == page.status_code == 403
    assert answer.json()["detail"] == "oscar may not approve here; the policy names alice"
    assert "the policy names alice" in page.text
    assert written(moving) == before


@every_act
def test_what_cannot_be_used_is_told_and_nothing_is_done(
    act: Act, made: SimulatedRun, oscar: tuple[TestClient, Started]
) -> None:
    client, started = oscar
    before = written(made)
    path = f"/api{act.path_of(made)}"
    for method in ("GET", "PUT", "DELETE"):
        wrong = client.request(method, path, headers=BEARER)
        assert wrong.status_code == 405
        assert wrong.json()["detail"] == "This address takes POST alone, and nothing was changed."
    wrong = client.post(f"{path}/", json={"reason": "month end"} | act.body, headers=BEARER)
    assert wrong.status_code == 404 and wrong.json()["detail"].startswith("There is nothing")
    content = '{"reason": "month end", "reason": "no"}'
    wrong = client.post(path, content=content, headers=BEARER)
    assert wrong.status_code == 422 and "reason: this key is there twice" in wrong.json()["detail"]
    for content in ("", "{", "[]", '"x"', "null"):
        wrong = client.post(path, content=content, headers=BEARER)
        assert wrong.status_code == 422 and "has to be a JSON object" in wrong.json()["detail"]
    for more, words in (
        *(({"reason": it}, "reason: has to be a text") for it in (7, 0, False, [], {}, ["a\0b"])),
        ({"reason": "a\0b"}, "reason: there is a character"),
        ({"force": "yes"}, "force"),
    ):
        wrong = do(client, act, made, **more)
        assert wrong.status_code == 422 and words in wrong.json()["detail"], wrong.text
    wrong = do(client, act, made, reason="x" * 2_001)
    page = send(client, act, made, "oscar", reason="x" * 2_001)
    assert wrong.status_code == page.status_code == 422
    assert wrong.json()["detail"][1:] in unescape(page.text)
    assert written(made) == before and not started


@pytest.mark.parametrize(
    "more",
    [{"topics": True}, {"topics": [None]}, {"topics": ["a\0b"]}, {"excluded_topics": ["a", 7]}],
    ids=str,
)
def test_a_plan_of_topics_that_are_no_texts_is_not_started(
    moving: SimulatedRun,  # noqa: F811
    oscar: tuple[TestClient, Started],
    more: dict[str, Any],
) -> None:
    client, started = oscar
    (plan,) = (act for act in ACTS if act.path.endswith("/plan"))
    wrong = do(client, plan, moving, **more)
    assert wrong.status_code == 422 and "write names or patterns" in wrong.json()["detail"]
    assert not started


@every_act
def test_without_a_bearer_the_token_of_a_page_is_asked_for(
    act: Act, made: SimulatedRun, oscar: tuple[TestClient, Started]
) -> None:
    client, started = oscar
    before = written(made)
    for headers in ({}, {"X-Counterpoise-Token": token_of("victor")}, {"Authorization": "Basic x"}):
        refused = do(client, act, made, headers)
        assert refused.status_code == 403
        assert "X-Counterpoise-Token" in refused.json()["detail"]
    assert written(made) == before and not started
    done = do(client, act, made, {"X-Counterpoise-Token": token_of("oscar")})
    assert done.status_code in (200, 202), done.text
