"""A small client of Airflow's public REST API (v2): starts and watches runs, answers approvals.

    api = AirflowApi("http://127.0.0.1:8080", "alice", password)
    run_id = api.trigger("kafka_rebalance", conf={"goal": "leaders"}, partition_key="demo")
    api.wait_for_run("kafka_rebalance", run_id, timeout_seconds=300)

Limits: reads at most 1000 rows of a list; works with the SimpleAuthManager's tokens.
"""

import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import unquote

import httpx

from counterpoise.errors import CounterpoiseError

FINAL_RUN_STATES = frozenset({"success", "failed"})
WAITING_STATES = ("deferred", "awaiting_input")  # of a task that has asked, and takes an answer
POLL_SECONDS = 0.5
# SQLite refuses at once, whatever its timeout is, a transaction that has read before somebody else
# wrote (https://sqlite.org/rescode.html#busy_snapshot). Airflow rolls it back, and answers 500.
DATABASE_ATTEMPTS = 5
REQUEST_TIMEOUT_SECONDS = 120.0  # on a busy machine an answer has taken more than 30 s

Found = TypeVar("Found")


class AirflowApiError(CounterpoiseError):
    """Airflow refused a request, or something did not happen in time.

    `status` is the HTTP status, 0 without one.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        self.status = status
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class DagRun:
    dag_id: str
    run_id: str
    state: str  # queued, running, success or failed
    partition_key: str | None
    run_after: datetime  # UTC


@dataclass(frozen=True, slots=True)
class PendingApproval:
    """A required action (human in the loop) that waits for a response."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    task_state: str  # one of WAITING_STATES once the task waits; shortly before that: running
    subject: str
    body: str
    options: tuple[str, ...]
    created_at: datetime  # UTC

    @property
    def ledger_run_id(self) -> str:
        """Return the run of Counterpoise that it is about, by the link in its text."""
        found = re.search(r"/counterpoise/runs/([^/#)]+)", self.body)
        if found is None:
            raise AirflowApiError(f"no link to a plan in {self.body!r}")
        return unquote(found[1])


class AirflowApi:
    """Airflow's REST API as one user sees it.

    `check` is called while waiting, and raises when waiting is useless.
    """

    def __init__(
        self, base_url: str, user: str, password: str, check: Callable[[], None] = lambda: None
    ) -> None:
        self.base_url = base_url
        self.user = user
        self._password = password
        self._check = check
        # trust_env=False: requests to the loopback address do not use this machine's proxy.
        self._client = httpx.Client(
            base_url=base_url, timeout=REQUEST_TIMEOUT_SECONDS, trust_env=False
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def trigger(
        self, dag_id: str, conf: Mapping[str, Any] | None = None, partition_key: str | None = None
    ) -> str:
        """Start a run and return its id. Raises AirflowApiError."""
        body: dict[str, Any] = {"logical_date": None, "conf": dict(conf or {})}
        if partition_key is not None:
            body["partition_key"] = partition_key
        return str(self._request("POST", f"/api/v2/dags/{dag_id}/dagRuns", json=body)["dag_run_id"])

    def pause(self, dag_id: str) -> None:
        """Pause a Dag: nothing starts it any more but a person. Raises AirflowApiError."""
        self._request("PATCH", f"/api/v2/dags/{dag_id}", json={"is_paused": True})

    def mark_run(self, dag_id: str, run_id: str, state: str) -> None:
        """Mark a run as `success` or `failed`, as a person does in the UI.

        Raises AirflowApiError.
        """
        self._request("PATCH", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}", json={"state": state})

    def mark_task(self, dag_id: str, run_id: str, task_id: str, state: str) -> None:
        """Mark a task as `success`, `failed` or `skipped`. Raises AirflowApiError."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}"
        self._request("PATCH", path, json={"new_state": state})

    def clear_task(self, dag_id: str, run_id: str, task_id: str) -> list[str]:
        """Clear a task and all downstream tasks, and return their ids.

        Raises AirflowApiError.
        """
        body = {
            "dry_run": False,
            "only_failed": False,
            "dag_run_id": run_id,
            "task_ids": [task_id],
            "include_downstream": True,
        }
        response = self._request("POST", f"/api/v2/dags/{dag_id}/clearTaskInstances", json=body)
        return [str(row["task_id"]) for row in response["task_instances"]]

    def dag_run(self, dag_id: str, run_id: str) -> DagRun:
        """Return a run as it is now. Raises AirflowApiError (404: there is none)."""
        return _dag_run(self._request("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}"))

    def dag_runs(self, dag_id: str) -> list[DagRun]:
        """Return all runs, the newest first."""
        params = {"order_by": "-run_after", "limit": 1000}
        response = self._request("GET", f"/api/v2/dags/{dag_id}/dagRuns", params=params)
        return [_dag_run(row) for row in response["dag_runs"]]

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str | None]:
        """Return the state by task id, None before it is scheduled.

        Mapped tasks are `task[0]`, `task[1]`, ...
        """
        return {_task_name(row): row["state"] for row in self._task_instances(dag_id, run_id)}

    def task_times(
        self, dag_id: str, run_id: str
    ) -> dict[str, tuple[datetime | None, datetime | None]]:
        """Return start and end (UTC) of the last try by task id; None: not yet."""
        return {
            _task_name(row): (_time(row["start_date"]), _time(row["end_date"]))
            for row in self._task_instances(dag_id, run_id)
        }

    def first_start(self, dag_id: str, run_id: str, task_id: str) -> datetime | None:
        """Return when the first try of a task began (UTC), before any deferral; None: not yet."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/tries"
        tries = self._request("GET", path)["task_instances"]
        start_times = [_time(row["start_date"]) for row in tries]
        return min((at for at in start_times if at is not None), default=None)

    def task_log(
        self, dag_id: str, run_id: str, task_id: str, map_index: int = -1, try_number: int = 1
    ) -> str:
        """Return the log of one try of a task, one line per entry."""
        task_path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}"
        params = {"map_index": map_index, "full_content": True}
        response = self._request("GET", f"{task_path}/logs/{try_number}", params=params)
        return "\n".join(_log_line(entry) for entry in response["content"])

    def pending_approvals(self, dag_id: str = "~", run_id: str = "~") -> list[PendingApproval]:
        """Return the required actions without a response; `~` stands for all Dags or runs."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/hitlDetails"
        params = {"response_received": False, "limit": 1000}
        response = self._request("GET", path, params=params)
        return [_approval(row) for row in response["hitl_details"]]

    def choose_option(self, approval: PendingApproval) -> None:
        """Choose the only option of a required action, which decides nothing.

        Raises AirflowApiError: 403 the user may not respond, 409 somebody has responded before.
        """
        task = f"/api/v2/dags/{approval.dag_id}/dagRuns/{approval.run_id}/taskInstances"
        body = {"chosen_options": list(approval.options), "params_input": {}}
        path = f"{task}/{approval.task_id}/{approval.map_index}/hitlDetails"
        self._request("PATCH", path, json=body)

    def decide(
        self,
        ledger_run_id: str,
        decision: str,
        reason: str,
        *,
        rate: str = "",
        fingerprint: str = "",
    ) -> dict[str, Any]:
        """Answer a plan as this user, with Counterpoise's API; without a fingerprint, the plan that
        the run has. Raises AirflowApiError with the status of the refusal.
        """
        path = f"/counterpoise/api/runs/{ledger_run_id}"
        plan = fingerprint or self._request("GET", path)["fingerprint"]
        body = {"decision": decision, "fingerprint": plan, "rate": rate, "reason": reason}
        told: dict[str, Any] = self._request("POST", f"{path}/decision", json=body)
        return told

    def approve(self, approval: PendingApproval, reason: str, rate: str) -> None:
        """Approve the plan that a required action is about, as `decide` does."""
        self.decide(approval.ledger_run_id, "approve", reason, rate=rate)

    def approval_page(self, dag_id: str, run_id: str, task_id: str) -> str:
        """Return the address of the page on which a person responds."""
        return f"{self.base_url}/dags/{dag_id}/runs/{run_id}/tasks/{task_id}/required_actions"

    def wait_for_dags(self, dag_ids: Collection[str], timeout_seconds: float) -> None:
        """Wait until Airflow knows all of these Dags.

        Raises AirflowApiError with the stack trace of a Dag file that cannot be imported.
        """

        def are_all_known() -> bool | None:
            errors = self._request("GET", "/api/v2/importErrors")["import_errors"]
            if errors:
                traces = [f"{error['filename']}:\n{error['stack_trace']}" for error in errors]
                message = "Airflow cannot import these Dag files:"
                raise AirflowApiError("\n".join([message, *traces]))
            rows = self._request("GET", "/api/v2/dags", params={"limit": 1000})["dags"]
            known_ids = {row["dag_id"] for row in rows}
            return known_ids.issuperset(dag_ids) or None

        self.wait_for(are_all_known, f"the Dags {', '.join(sorted(dag_ids))}", timeout_seconds)

    def wait_for_run(self, dag_id: str, run_id: str, timeout_seconds: float) -> DagRun:
        """Wait until the run has ended, in whatever state. Raises AirflowApiError if it has not."""

        def ended() -> DagRun | None:
            run = self.dag_run(dag_id, run_id)
            return run if run.state in FINAL_RUN_STATES else None

        return self.wait_for(ended, f"{dag_id} {run_id} to end", timeout_seconds)

    def wait_for_new_run(
        self,
        dag_id: str,
        known: Collection[str],
        timeout_seconds: float,
        partition_key: str | None = None,
    ) -> DagRun:
        """Wait for a run whose id is not in `known`, with the partition key if one is given."""

        def new_run() -> DagRun | None:
            for run in self.dag_runs(dag_id):
                if run.run_id not in known and partition_key in (None, run.partition_key):
                    return run
            return None

        return self.wait_for(new_run, f"a new run of {dag_id}", timeout_seconds)

    def wait_for_approval(
        self, dag_id: str, run_id: str, timeout_seconds: float
    ) -> PendingApproval:
        """Wait until the run's approval task is deferred and waits for a person.

        Raises AirflowApiError when the run ends without it.
        """

        def awaited_approval() -> PendingApproval | None:
            for approval in self.pending_approvals(dag_id, run_id):
                if approval.task_state in WAITING_STATES:
                    return approval
            state = self.dag_run(dag_id, run_id).state
            if state in FINAL_RUN_STATES:
                states = self.task_states(dag_id, run_id)
                message = f"{dag_id} {run_id} ended as {state} without asking for approval"
                raise AirflowApiError(f"{message}: {states}")
            return None

        what = f"{dag_id} {run_id} to ask for approval"
        return self.wait_for(awaited_approval, what, timeout_seconds)

    def wait_for(
        self, find: Callable[[], Found | None], what: str, timeout_seconds: float
    ) -> Found:
        """Call `find` until it returns something; once more when time is up.

        Raises AirflowApiError when time is up, and what `check` raises.
        """
        deadline = time.monotonic() + timeout_seconds
        is_over = False
        while (found := find()) is None:
            self._check()
            if is_over:
                raise AirflowApiError(f"waited {timeout_seconds:g} s in vain for {what}")
            is_over = time.monotonic() >= deadline
            time.sleep(POLL_SECONDS)
        return found

    def _task_instances(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances"
        return list(self._request("GET", path, params={"limit": 1000})["task_instances"])

    def _request(self, method: str, path: str, **arguments: Any) -> Any:
        if "Authorization" not in self._client.headers:
            self._log_in()
        response = self._client.request(method, path, **arguments)
        if response.status_code == httpx.codes.UNAUTHORIZED:  # tokens last a day
            self._log_in()
            response = self._client.request(method, path, **arguments)
        for _ in range(DATABASE_ATTEMPTS - 1):
            if response.is_success or "Database error" not in _reason(response):
                break
            time.sleep(POLL_SECONDS)
            response = self._client.request(method, path, **arguments)
        if response.is_error:
            status = response.status_code
            message = f"Airflow refused {method} {path} for {self.user}: {status}"
            raise AirflowApiError(f"{message} {_reason(response)}", status)
        return response.json() if response.content else None

    def _log_in(self) -> None:
        response = self._client.post(
            "/auth/token", json={"username": self.user, "password": self._password}
        )
        if response.is_error:
            status = response.status_code
            raise AirflowApiError(f"Airflow refused the login of {self.user}: {status}", status)
        self._client.headers["Authorization"] = f"Bearer {response.json()['access_token']}"


def _dag_run(row: Mapping[str, Any]) -> DagRun:
    return DagRun(
        row["dag_id"],
        row["dag_run_id"],
        row["state"],
        row.get("partition_key"),
        datetime.fromisoformat(row["run_after"]),
    )


def _approval(row: Mapping[str, Any]) -> PendingApproval:
    task = row["task_instance"]
    return PendingApproval(
        dag_id=task["dag_id"],
        run_id=task["dag_run_id"],
        task_id=task["task_id"],
        map_index=task["map_index"],
        task_state=task["state"],
        subject=row["subject"],
        body=row["body"] or "",
        options=tuple(row["options"]),
        created_at=datetime.fromisoformat(row["created_at"]),
    )


def _task_name(row: Mapping[str, Any]) -> str:
    return str(row["task_id"]) if row["map_index"] < 0 else f"{row['task_id']}[{row['map_index']}]"


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _log_line(entry: Any) -> str:
    if not isinstance(entry, Mapping):
        return str(entry)
    fields = [str(entry.get(name) or "") for name in ("timestamp", "level", "event")]
    line = " ".join(fields).strip()
    details = entry.get("error_detail") or []
    errors = [f"  {detail.get('exc_type')}: {detail.get('exc_value')}" for detail in details]
    return "\n".join([line, *errors])


def _reason(response: httpx.Response) -> str:
    try:
        detail = response.json()["detail"]
    except (ValueError, KeyError, TypeError):
        return response.text[:200]
    return str(detail)
