"""A real Airflow on SQLite as child processes: its four components, until the block ends.

    with LocalAirflow(Path("var/airflow"), dags=Path("dags"), plugins=Path("plugins")) as airflow:
        api = airflow.api("admin")
        run_id = api.trigger("kafka_snapshot")

The components are api-server, scheduler, dag-processor and triggerer; `check` names one that died,
with the end of its log. None outlives this process (see `local_processes`). Everything is in one
home directory, which remains for reading.

Limits: one machine, LocalExecutor, SQLite, SimpleAuthManager: for demo and tests, never for
production.
"""

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import ClassVar

import httpx

from dev.local_airflow.api import REQUEST_TIMEOUT_SECONDS, AirflowApi
from dev.local_airflow.components import (
    COMMANDS,
    HOST,
    MIGRATE,
    USERS,
    AirflowHome,
    MigratedHome,
    environment,
)
from dev.local_processes import ChildFailedError, Process, free_ports, start, wait_until

__all__ = ["USERS", "AirflowApi", "LocalAirflow"]

START_TIMEOUT_SECONDS = 400.0
STOP_GRACE_SECONDS = 8.0
# After its last answer the api-server is busy for seconds with the end of Python alone.
API_SERVER_GRACE_SECONDS = 0.5
PARK_TIMEOUT_SECONDS = 240.0
_SCHEDULER_STARTS = "Starting the scheduler"
_QUEUED = "Trying to enqueue tasks:"


class LocalAirflow:
    """Airflow from `__enter__` to `__exit__`; see the module's docstring.

    `environment` is that of every component and task: for connections (`AIRFLOW_CONN_...`) and our
    own settings. `users` maps names to roles of the SimpleAuthManager; each gets a new password.
    `prefix` is the path under which it answers, like "/airflow".
    """

    # What this process has migrated first, by the Airflow that did it and its auth manager, which
    # may have tables of its own: all new homes of these are the same.
    _migrated: ClassVar[dict[tuple[str | None, str | None], MigratedHome]] = {}

    def __init__(
        self,
        home: Path,
        *,
        dags: Path,
        plugins: Path,
        environment: Mapping[str, str] | None = None,
        users: Mapping[str, str] = USERS,
        prefix: str = "",
    ) -> None:
        self.home = AirflowHome(home.resolve())
        self._dags = dags.resolve()
        self._plugins = plugins.resolve()
        self._extra_variables = dict(environment or {})
        self._users = dict(users)
        self._prefix = prefix
        self._passwords: Mapping[str, str] = {}
        self._processes: dict[str, Process] = {}
        self._variables: Mapping[str, str] = {}
        self.base_url = ""

    def __enter__(self) -> "LocalAirflow":
        try:
            self._start()
        except BaseException:  # also Ctrl-C: components that run by now must end
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def password(self, user: str) -> str:
        """Return the password of one of the users."""
        return self._passwords[user]

    def api(self, user: str = "admin") -> AirflowApi:
        """Return a REST client that acts as `user`."""
        return AirflowApi(self.base_url, user, self.password(user), check=self.check)

    @property
    def processes(self) -> Mapping[str, Process]:
        """Return the process of each component that was started and not killed."""
        return self._processes

    @property
    def variables(self) -> Mapping[str, str]:
        """Return the environment in which Airflow's own commands work on this one."""
        return self._variables

    def token(self, user: str) -> str:
        """Log in as one of the users, and return the token for other clients than `api`."""
        login = {"username": user, "password": self.password(user)}
        url = f"{self.base_url}/auth/token"
        answer = httpx.post(url, json=login, timeout=REQUEST_TIMEOUT_SECONDS, trust_env=False)
        return str(answer.raise_for_status().json()["access_token"])

    def check(self) -> None:
        """Raise ChildFailedError, with the end of its log, when a component has died."""
        for name, process in self._processes.items():
            if (code := process.poll()) is not None:
                raise ChildFailedError(
                    f"Airflow's {name} ended with {code}; the end of {process.log_path}:\n"
                    f"{process.last_log_lines()}"
                )

    def kill(self, component: str) -> None:
        """Send SIGKILL to a component and what it started, as in a crash; the others go on."""
        process = self._processes.pop(component)
        process.kill()
        process.wait()

    def supervise(self) -> None:
        """Start components again that were killed or died, as a supervisor would."""
        for name, command in COMMANDS.items():
            process = self._processes.get(name)
            if process is None or process.poll() is not None:
                self._start_component(name, command, self._variables)

    def wait_until_parked(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Wait until the scheduler has seen every process of a task end.

        Airflow takes a task for failed that goes on before that. Only the scheduler's log says it.
        Raises ChildFailedError.
        """
        begun = f"<TaskInstance: {dag_id}.{task_id} {run_id} [scheduled]"
        ended = f"TaskInstance Finished: dag_id={dag_id}, task_id={task_id}, run_id={run_id},"

        def has_parked() -> bool:
            log = self.home.component_log("scheduler").read_text(errors="replace")
            of_this_scheduler = log.rpartition(_SCHEDULER_STARTS)[2]
            queued = [line for line in of_this_scheduler.splitlines() if _QUEUED in line]
            return sum(line.count(begun) for line in queued) <= of_this_scheduler.count(ended)

        wait_until(
            has_parked, f"{run_id} {task_id} to park", PARK_TIMEOUT_SECONDS, poll_seconds=0.5
        )

    def stop(self) -> None:
        """Stop all components in parallel, and wait until they have ended."""
        processes, self._processes = self._processes, {}
        for name, process in processes.items():
            is_api_server = name == "api-server"
            process.begin_stop(API_SERVER_GRACE_SECONDS if is_api_server else STOP_GRACE_SECONDS)
        for process in processes.values():
            process.wait()

    def _start(self) -> None:
        self.home.temporary_files.mkdir(parents=True, exist_ok=True)
        self.home.write_local_settings()
        self._passwords = self.home.write_passwords(self._users)
        (port,) = free_ports(1)
        self.base_url = f"http://{HOST}:{port}{self._prefix}"
        self._variables = environment(
            self.home,
            port=port,
            prefix=self._prefix,
            dags=self._dags,
            plugins=self._plugins,
            users=self._users,
            extra=self._extra_variables,
        )
        self._migrate(self._variables)
        for name, command in COMMANDS.items():
            self._start_component(name, command, self._variables)
        wait_until(
            self._is_healthy,
            "Airflow to be healthy",
            START_TIMEOUT_SECONDS,
            self._processes.values(),
            poll_seconds=0.2,
        )
        dag_ids = {path.stem for path in self._dags.glob("*.py")}
        self.api().wait_for_dags(dag_ids, START_TIMEOUT_SECONDS)

    def _start_component(
        self, name: str, command: tuple[str, ...], variables: Mapping[str, str]
    ) -> None:
        self._processes[name] = start(
            command, env=variables, log_path=self.home.component_log(name), name=name
        )

    def _migrate(self, variables: Mapping[str, str]) -> None:
        is_own = str(self.home.database) in variables["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]
        kind = (variables.get("PATH"), variables.get("AIRFLOW__CORE__AUTH_MANAGER"))
        if is_own and not self.home.database.exists() and kind in self._migrated:
            self._migrated[kind].copy_to(self.home)
            return
        log_path = self.home.component_log("migrate")
        process = start(MIGRATE, env=variables, log_path=log_path, name="airflow db migrate")
        try:
            code = process.wait(START_TIMEOUT_SECONDS)
        finally:
            process.stop()
        if code != 0:
            raise ChildFailedError(
                f"airflow db migrate ended with {code}:\n{process.last_log_lines()}"
            )
        if is_own and kind not in self._migrated:
            self._migrated[kind] = MigratedHome.read(self.home)

    def _is_healthy(self) -> bool:
        url = f"{self.base_url}/api/v2/monitor/health"
        try:
            health = httpx.get(url, timeout=30, trust_env=False).json()
        except (httpx.TransportError, ValueError):  # not listening yet, or no JSON yet
            return False
        parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        return all(health[part]["status"] == "healthy" for part in parts)
