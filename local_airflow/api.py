"""A small client for Airflow's public REST API (v2): start runs, watch them, answer approvals.

    api = AirflowApi("http://127.0.0.1:8080", "alice", password)
    run_id = api.trigger("kafka_rebalance", conf={"goal": "leaders"}, partition_key="demo")
    api.wait_for_run("kafka_rebalance", run_id, timeout_seconds=300)

Limits: reads at most 1000 rows of a list; works with the SimpleAuthManager's tokens.
"""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import httpx

from counterpoise.errors import CounterpoiseError

FINAL_RUN_STATES = frozenset({"success", "failed"})
POLL_SECONDS = 0.5

Found = TypeVar("Found")


class AirflowApiError(CounterpoiseError):
    """Airflow refused a request, or what was waited for did not come; `status` is the HTTP status,
    0 without one.
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
    """A question that waits for an answer; `params` has the prefilled values of its form."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    task_state: str  # awaiting_input once the task is parked; shortly before that: running
    subject: str
    body: str
    params: Mapping[str, Any]
    assigned_users: tuple[str, ...]  # ids; empty: anybody who may answer at all
    created_at: datetime  # UTC


class AirflowApi:
    """One user's view of one Airflow.

    `check` is called while waiting; it raises when there is no use in waiting.
    """

    def __init__(
        self, base_url: str, user: str, password: str, check: Callable[[], None] = lambda: None
    ) -> None:
        self.base_url = base_url
        self.user = user
        self._password = password
        self._check = check
        # trust_env=False: a proxy of this machine has no part in what goes to the loopback address.
        self._client = httpx.Client(base_url=base_url, timeout=30, trust_env=False)

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def trigger(
        self, dag_id: str, conf: Mapping[str, Any] | None = None, partition_key: str | None = None
    ) -> str:
        """Start a run; returns its id. Raises AirflowApiError."""
        body: dict[str, Any] = {"logical_date": None, "conf": dict(conf or {})}
        if partition_key is not None:
            body["partition_key"] = partition_key
        return str(self._request("POST", f"/api/v2/dags/{dag_id}/dagRuns", json=body)["dag_run_id"])

    def mark_run(self, dag_id: str, run_id: str, state: str) -> None:
        """Say that a run has ended as `success` or `failed`, as a person does in the UI.

        Raises AirflowApiError.
        """
        self._request("PATCH", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}", json={"state": state})

    def mark_task(self, dag_id: str, run_id: str, task_id: str, state: str) -> None:
        """Say that a task has ended as `success`, `failed` or `skipped`. Raises AirflowApiError."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}"
        self._request("PATCH", path, json={"new_state": state})

    def clear_task(self, dag_id: str, run_id: str, task_id: str) -> list[str]:
        """Have a task, and all after it, done again; the ids of the tasks concerned.

        Raises AirflowApiError.
        """
        body = {
            "dry_run": False,
            "only_failed": False,
            "dag_run_id": run_id,
            "task_ids": [task_id],
            "include_downstream": True,
        }
        rows = self._request("POST", f"/api/v2/dags/{dag_id}/clearTaskInstances", json=body)[
            "task_instances"
        ]
        return [str(row["task_id"]) for row in rows]

    def dag_run(self, dag_id: str, run_id: str) -> DagRun:
        """One run as it is now. Raises AirflowApiError (404: there is none)."""
        return _dag_run(self._request("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}"))

    def dag_runs(self, dag_id: str) -> list[DagRun]:
        """All runs, the newest first."""
        rows = self._request(
            "GET",
            f"/api/v2/dags/{dag_id}/dagRuns",
            params={"order_by": "-run_after", "limit": 1000},
        )["dag_runs"]
        return [_dag_run(row) for row in rows]

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str | None]:
        """State by task id; mapped tasks as `task[0]`, `task[1]`, ... None: not scheduled yet."""
        return {_task_name(row): row["state"] for row in self._task_instances(dag_id, run_id)}

    def task_times(
        self, dag_id: str, run_id: str
    ) -> dict[str, tuple[datetime | None, datetime | None]]:
        """Start and end (UTC) by task id, of the last try; None: not yet."""
        return {
            _task_name(row): (_time(row["start_date"]), _time(row["end_date"]))
            for row in self._task_instances(dag_id, run_id)
        }

    def first_start(self, dag_id: str, run_id: str, task_id: str) -> datetime | None:
        """When the first try of a task began (UTC), however often it was deferred since; None: not
        yet.
        """
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/tries"
        tries = self._request("GET", path)["task_instances"]
        return min(
            (datetime.fromisoformat(row["start_date"]) for row in tries if row["start_date"]),
            default=None,
        )

    def task_log(
        self, dag_id: str, run_id: str, task_id: str, map_index: int = -1, try_number: int = 1
    ) -> str:
        """What one try of a task said, one line per entry."""
        answer = self._request(
            "GET",
            f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/{try_number}",
            params={"map_index": map_index, "full_content": True},
        )
        return "\n".join(_log_line(entry) for entry in answer["content"])

    def pending_approvals(self, dag_id: str = "~", run_id: str = "~") -> list[PendingApproval]:
        """The questions that nobody has answered yet; `~` stands for all."""
        rows = self._request(
            "GET",
            f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/hitlDetails",
            params={"response_received": False, "limit": 1000},
        )["hitl_details"]
        return [_approval(row) for row in rows]

    def answer_approval(
        self,
        dag_id: str,
        run_id: str,
        task_id: str,
        option: str,
        params: Mapping[str, Any],
        map_index: int = -1,
    ) -> None:
        """Answer as this user.

        Raises AirflowApiError: 403 not one who may answer, 409 answered before.
        """
        self._request(
            "PATCH",
            f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/{map_index}/hitlDetails",
            json={"chosen_options": [option], "params_input": dict(params)},
        )

    def approval_page(self, dag_id: str, run_id: str, task_id: str) -> str:
        """The address where a person answers."""
        return f"{self.base_url}/dags/{dag_id}/runs/{run_id}/tasks/{task_id}/required_actions"

    def wait_for_dags(self, dag_ids: Collection[str], timeout_seconds: float) -> None:
        """Until all are known.

        Raises AirflowApiError with the text of any Dag file that cannot be imported.
        """

        def all_known() -> bool:
            errors = self._request("GET", "/api/v2/importErrors")["import_errors"]
            if errors:
                texts = "\n".join(
                    f"{error['filename']}:\n{error['stack_trace']}" for error in errors
                )
                raise AirflowApiError(f"Airflow cannot import {len(errors)} Dag file(s):\n{texts}")
            known = {
                row["dag_id"]
                for row in self._request("GET", "/api/v2/dags", params={"limit": 1000})["dags"]
            }
            return known.issuperset(dag_ids)

        self.wait_for(
            lambda: all_known() or None, f"the Dags {', '.join(sorted(dag_ids))}", timeout_seconds
        )

    def wait_for_run(self, dag_id: str, run_id: str, timeout_seconds: float) -> DagRun:
        """Until the run has ended, well or not. Raises AirflowApiError when time is up."""

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
        """Until there is a run whose id is not in `known` (and that has this key, when one is
        named).
        """

        def new_run() -> DagRun | None:
            runs = [run for run in self.dag_runs(dag_id) if run.run_id not in known]
            return next((run for run in runs if partition_key in (None, run.partition_key)), None)

        return self.wait_for(new_run, f"a new run of {dag_id}", timeout_seconds)

    def wait_for_approval(
        self, dag_id: str, run_id: str, timeout_seconds: float
    ) -> PendingApproval:
        """Until the run waits for a person, its task parked.

        Raises AirflowApiError when it ends without asking.
        """

        def parked() -> PendingApproval | None:
            waiting = [
                a
                for a in self.pending_approvals(dag_id, run_id)
                if a.task_state == "awaiting_input"
            ]
            if not waiting and (state := self.dag_run(dag_id, run_id).state) in FINAL_RUN_STATES:
                raise AirflowApiError(
                    f"{dag_id} {run_id} ended as {state} without asking: {self.task_states(dag_id, run_id)}"
                )
            return waiting[0] if waiting else None

        return self.wait_for(parked, f"{dag_id} {run_id} to ask for approval", timeout_seconds)

    def wait_for(
        self, look: Callable[[], Found | None], what: str, timeout_seconds: float
    ) -> Found:
        """Look until there is something.

        Raises AirflowApiError when time is up, and what `check` raises.
        """
        deadline = time.monotonic() + timeout_seconds
        while (found := look()) is None:
            self._check()
            if time.monotonic() >= deadline:
                raise AirflowApiError(f"waited {timeout_seconds:g} s in vain for {what}")
            time.sleep(POLL_SECONDS)
        return found

    def _task_instances(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        answer = self._request(
            "GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances", params={"limit": 1000}
        )
        return list(answer["task_instances"])

    def _request(self, method: str, path: str, **arguments: Any) -> Any:
        if "Authorization" not in self._client.headers:
            self._log_in()
        response = self._client.request(method, path, **arguments)
        if response.status_code == httpx.codes.UNAUTHORIZED:  # tokens last a day
            self._log_in()
            response = self._client.request(method, path, **arguments)
        if response.is_error:
            raise AirflowApiError(
                f"Airflow refused {method} {path} for {self.user}: {response.status_code} {_reason(response)}",
                response.status_code,
            )
        return response.json() if response.content else None

    def _log_in(self) -> None:
        response = self._client.post(
            "/auth/token", json={"username": self.user, "password": self._password}
        )
        if response.is_error:
            raise AirflowApiError(
                f"Airflow refused the login of {self.user}: {response.status_code}",
                response.status_code,
            )
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
        params={name: param["value"] for name, param in row["params"].items()},
        assigned_users=tuple(user["id"] for user in row["assigned_users"]),
        created_at=datetime.fromisoformat(row["created_at"]),
    )


def _task_name(row: Mapping[str, Any]) -> str:
    return str(row["task_id"]) if row["map_index"] < 0 else f"{row['task_id']}[{row['map_index']}]"


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _log_line(entry: Any) -> str:
    if not isinstance(entry, Mapping):
        return str(entry)
    line = f"{entry.get('timestamp') or ''} {entry.get('level') or ''} {entry.get('event') or ''}".strip()
    details = entry.get("error_detail") or []
    errors = [f"  {detail.get('exc_type')}: {detail.get('exc_value')}" for detail in details]
    return "\n".join([line, *errors])


def _reason(response: httpx.Response) -> str:
    try:
        detail = response.json()["detail"]
    except (ValueError, KeyError, TypeError):
        return response.text[:200]
    return str(detail)
