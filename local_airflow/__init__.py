"""A real Airflow of its own as child processes: api-server, scheduler, dag-processor and triggerer,
on SQLite.

    with LocalAirflow(Path("var/airflow"), dags=Path("dags"), plugins=Path("plugins")) as airflow:
        api = airflow.api("admin")
        run_id = api.trigger("kafka_snapshot")

Each component is a supervised process of its own; `check` says which one died, with its last words.
Nothing outlives us, however we end (see `local_processes`). Everything lies in one home directory,
which stays behind for reading.

Limits: one machine, LocalExecutor, SQLite, SimpleAuthManager: for the demo and for tests, never for
production.
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import httpx

from local_airflow.api import AirflowApi
from local_airflow.components import COMMANDS, HOST, MIGRATE, USERS, AirflowHome, environment
from local_processes import ChildFailedError, Process, free_ports, start, wait_until

__all__ = ["USERS", "AirflowApi", "LocalAirflow"]

START_TIMEOUT_SECONDS = 240.0
STOP_GRACE_SECONDS = 8.0


class LocalAirflow:
    """Airflow from `__enter__` to `__exit__`; see the module's text.

    `environment` reaches every component and task: connections (`AIRFLOW_CONN_...`) and our own
    settings go there. `users` maps names to roles of the SimpleAuthManager; each gets a fresh
    password.
    """

    def __init__(
        self,
        home: Path,
        *,
        dags: Path,
        plugins: Path,
        environment: Mapping[str, str] | None = None,
        users: Mapping[str, str] = USERS,
    ) -> None:
        self.home = AirflowHome(home.resolve())
        self._dags = dags.resolve()
        self._plugins = plugins.resolve()
        self._extra = dict(environment or {})
        self._users = dict(users)
        self._passwords: Mapping[str, str] = {}
        self._processes: dict[str, Process] = {}
        self._variables: Mapping[str, str] = {}
        self.base_url = ""

    def __enter__(self) -> "LocalAirflow":
        try:
            self._start()
        except BaseException:  # Ctrl-C included: whatever runs by now has to go
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
        """The login of one of our users."""
        return self._passwords[user]

    def api(self, user: str = "admin") -> AirflowApi:
        """A REST client that acts as `user`."""
        return AirflowApi(self.base_url, user, self.password(user), check=self.check)

    @property
    def processes(self) -> Mapping[str, Process]:
        """By component, as long as it runs."""
        return self._processes

    def check(self) -> None:
        """Raises ChildFailedError, with its last log lines, when a component has died.

        Nothing is restarted.
        """
        for name, process in self._processes.items():
            if (code := process.poll()) is not None:
                raise ChildFailedError(
                    f"Airflow's {name} ended with {code}; the end of {process.log_path}:\n{process.last_log_lines()}"
                )

    def kill(self, component: str) -> None:
        """SIGKILL to a component, as in a crash, with all that it started; the others go on."""
        process = self._processes.pop(component)
        process.kill()
        process.wait()

    def supervise(self) -> None:
        """Start anew what was killed or has died, as a supervisor would; returns at once."""
        for name, command in COMMANDS.items():
            process = self._processes.get(name)
            if process is None or process.poll() is not None:
                self._start_component(name, command, self._variables)

    def stop(self) -> None:
        """End all components at the same time, and wait until they are gone."""
        processes, self._processes = self._processes, {}
        for process in processes.values():
            process.begin_stop(STOP_GRACE_SECONDS)
        for process in processes.values():
            process.wait()

    def _start(self) -> None:
        self.home.directory.mkdir(parents=True, exist_ok=True)
        self._passwords = self.home.write_passwords(self._users)
        (port,) = free_ports(1)
        self.base_url = f"http://{HOST}:{port}"
        self._variables = environment(
            self.home,
            port=port,
            dags=self._dags,
            plugins=self._plugins,
            users=self._users,
            extra=self._extra,
        )
        self._migrate(self._variables)
        for name, command in COMMANDS.items():
            self._start_component(name, command, self._variables)
        wait_until(
            self._is_healthy,
            "Airflow to be healthy",
            START_TIMEOUT_SECONDS,
            self._processes.values(),
            0.2,
        )
        self.api().wait_for_dags(
            {path.stem for path in self._dags.glob("*.py")}, START_TIMEOUT_SECONDS
        )

    def _start_component(
        self, name: str, command: tuple[str, ...], variables: Mapping[str, str]
    ) -> None:
        self._processes[name] = start(
            command, env=variables, log_path=self.home.component_log(name), name=name
        )

    def _migrate(self, variables: Mapping[str, str]) -> None:
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

    def _is_healthy(self) -> bool:
        with contextlib.suppress(
            httpx.TransportError, ValueError
        ):  # not listening yet, or no JSON yet
            health = httpx.get(
                f"{self.base_url}/api/v2/monitor/health", timeout=5, trust_env=False
            ).json()
            parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
            return all(health[part]["status"] == "healthy" for part in parts)
        return False
