"""POST /api/runs/RUN/decision: what programs send, and what they are told."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from counterpoise.installation import open_installation
from counterpoise.model.run import RunState
from tests.support.ledger_view import change_state
from tests.support.web import browser, token_on
from tests.unit.test_web_plans import approvals_of, environment, new_plan, run_id

__all__ = ["environment", "run_id"]  # fixtures

YES = {"decision": "approve", "rate": "20MB/s", "reason": "broker 4 joined"}
NO = {"decision": "reject", "reason": "not now"}
BEARER = {"Authorization": "Bearer of-alice"}


@pytest.fixture
def alice(environment: dict[str, str]) -> Iterator[TestClient]:
    with browser(environment, "alice") as client:
        yield client


def decide(
    client: TestClient, run_id: str, headers: dict[str, str] | None = None, **body: Any
) -> Any:
    sent = {"fingerprint": new_plan().fingerprint} | body
    headers = BEARER if headers is None else headers
    return client.post(f"/api/runs/{run_id}/decision", json=sent, headers=headers)


def test_a_yes_is_recorded_and_the_same_again_changes_nothing(
    environment: dict[str, str], run_id: str, alice: TestClient
) -> None:
    first, again = decide(alice, run_id, **YES), decide(alice, run_id, **YES)
    assert first.status_code == again.status_code == 200, first.text
    assert first.json() == again.json()
    (yes,) = approvals_of(environment, run_id)
    told = first.json()
    assert told.pop("expires_at").startswith(f"{yes.expires_at:%Y-%m-%dT%H:%M}")
    assert told == {
        "format": "counterpoise-api/1",
        "run_id": run_id,
        "fingerprint": new_plan().fingerprint,
        "decision": "granted",
        "decided_by": yes.person.shown,
        "rate_bytes_per_second": 20_000_000,
        "approvals_missing": 0,
        "state": "approved",
    }
    with browser(environment, "bob") as bob:
        other = decide(bob, run_id, **YES | {"rate": "30MB/s"})
    assert other.status_code == 409 and "waits for no answer any more" in other.json()["detail"]
    with open_installation(environment=environment) as installation:
        change_state(installation.ledger, run_id, RunState.RUNNING)
    assert decide(alice, run_id, **YES).json()["state"] == "running"


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (YES | {"fingerprint": ""}, 422, "fingerprint: has to be"),
        (YES | {"fingerprint": None}, 422, "fingerprint: has to be"),
        (YES | {"fingerprint": 7}, 422, "fingerprint: has to be a text"),
        (YES | {"fingerprint": "sha256:0"}, 409, "read that plan, and answer again"),
        (YES | {"decision": "maybe"}, 422, "one of approve, reject"),
        (YES | {"decision": ["approve"]}, 422, "decision: has to be a text"),
        (YES | {"rate": "20"}, 422, "no unit"),
        (YES | {"rate": 20}, 422, "rate: has to be a text"),
        (YES | {"rate": "1GB/s"}, 409, "max_rate is 50.0 MB/s"),
        (YES | {"reason": " "}, 422, "must not be empty"),
        (YES | {"reason": "a\0b"}, 422, "reason"),
        (YES | {"reason": "x" * 2_001}, 422, "more than 2,000"),
        (NO | {"reason": ""}, 422, "must not be empty"),
        (YES | {"why": "x"}, 422, "why: there is no such key"),
    ],
)
def test_what_cannot_be_used_is_told_and_nothing_is_recorded(
    environment: dict[str, str],
    run_id: str,
    alice: TestClient,
    body: dict[str, Any],
    status: int,
    words: str,
) -> None:
    answer = decide(alice, run_id, **body)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["detail"] and set(answer.json()) == {"detail"}
    assert approvals_of(environment, run_id) == ()


@pytest.mark.parametrize("body", ["", "{", "[]", '"approve"', "null", "\xff", "[" * 100_000])
def test_a_body_that_is_no_json_object_is_told(
    environment: dict[str, str], run_id: str, alice: TestClient, body: str
) -> None:
    answer = alice.post(
        f"/api/runs/{run_id}/decision", content=body.encode("latin-1"), headers=BEARER
    )
    assert answer.status_code == 422 and "has to be a JSON object" in answer.json()["detail"]


def test_an_unknown_run_and_a_wrong_method_are_told(run_id: str, alice: TestClient) -> None:
    unknown = decide(alice, "nothing", **YES)
    assert unknown.status_code == 404 and unknown.json()["detail"]
    for method in ("GET", "PUT", "DELETE"):
        wrong = alice.request(method, f"/api/runs/{run_id}/decision", headers=BEARER)
        assert wrong.status_code == 405
        assert wrong.json()["detail"] == "This address takes POST alone, and nothing was changed."


def test_who_may_not_answer_is_told_why(environment: dict[str, str], run_id: str) -> None:
    for user, may_change, words in (
        ("rita", True, "rita"),  # she requested it
        ("oscar", True, "oscar may not approve here; the policy names alice, bob, rita"),
        ("alice", False, "Airflow does not let alice answer"),
    ):
        with browser(environment, user, may_change=may_change) as client:
            refused = decide(client, run_id, **YES)
        assert refused.status_code == 403 and words in refused.json()["detail"], user
    assert approvals_of(environment, run_id) == ()
    with browser(environment, "rita") as rita:
        assert "another Airflow user" in decide(rita, run_id, **YES).json()["detail"]
        assert decide(rita, run_id, **NO).status_code == 200, "she may withdraw it"


def test_without_a_bearer_the_token_of_a_page_is_asked_for(
    environment: dict[str, str], run_id: str, alice: TestClient
) -> None:
    page_token = token_on(alice.get(f"/runs/{run_id}").text)
    with browser(environment, "bob") as bob:
        token_of_bob = token_on(bob.get(f"/runs/{run_id}").text)
    for headers in ({}, {"X-Counterpoise-Token": token_of_bob}, {"Authorization": "Basic x"}):
        refused = decide(alice, run_id, headers, **YES)
        assert refused.status_code == 403
        assert "X-Counterpoise-Token" in refused.json()["detail"]
    assert approvals_of(environment, run_id) == ()
    assert decide(alice, run_id, {"X-Counterpoise-Token": page_token}, **YES).status_code == 200
