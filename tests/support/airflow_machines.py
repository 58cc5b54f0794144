"""Airflow on Postgres, each component on a machine of its own, so to say.

    with AirflowMachines(folder, settings=text, environment=known, postgres=postgres) as airflow:
        airflow.stop_component("scheduler")
        airflow.start_component("scheduler", without="COUNTERPOISE_STORE")

Each has its home, its working directory, its temporary files and its copy of the settings in a
folder that it alone can see (a mount namespace), and writes elsewhere nothing but through Postgres
and the object store. What is installed is the same for all. With LocalExecutor, as here, tasks run
on the scheduler's machine.

Limits: needs root, for the namespaces. /tmp itself is shared, since Postgres has its socket there.
"""

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx

from dev import local_processes
from dev.local_airflow import LocalAirflow
from dev.local_airflow.components import COMMANDS
from dev.local_processes import Process, free_ports, wait_until
from tests.support.postgres import Postgres

ROOT: Final = Path(__file__).parents[2]
S3_SERVER: Final = ROOT / ".venv" / "s3" / "bin" / "moto_server"
BUCKET: Final = "counterpoise"
HOST: Final = "127.0.0.1"
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


def why_not_here() -> str | None:
    """Return why this machine cannot run the test; None where it can."""
    if os.getuid() != 0:
        return "needs root, for Linux namespaces"
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return None if tried.returncode == 0 else "no mount namespaces here"


class AirflowMachines(LocalAirflow):
    """See the module's docstring; `environment` is that of every component."""

    def __init__(
        self, folder: Path, *, settings: str, environment: Mapping[str, str], postgres: Postgres
    ) -> None:
        self.machines = folder / "machines"
        self._settings = settings
        database = postgres.url("airflow")
        variables = {
            "PYTHONPATH": os.pathsep.join([str(ROOT / "plugins"), str(ROOT)]),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database,
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": database,
        }
        super().__init__(
            self.machines / "api-server",
            dags=ROOT / "dags",
            plugins=ROOT / "plugins",
            environment={**variables, **environment},
        )

    def stop_component(self, name: str) -> None:
        self._processes.pop(name).stop(grace_seconds=20)

    def start_component(self, name: str, without: str = "") -> None:
        """Start a component that has all variables but one."""
        self._processes[name] = self.start_alone(name, COMMANDS[name], self.variables, without)

    def logs_of_tasks(self, machine: str) -> list[Path]:
        return sorted((self.machines / machine / "task-logs").rglob("*.log"))

    def start_alone(
        self, name: str, command: tuple[str, ...], variables: Mapping[str, str], without: str = ""
    ) -> Process:
        """Start a command on the machine of that name, with all variables but one."""
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
        known = {key: value for key, value in {**variables, **places}.items() if key != without}
        alone = ("unshare", "--mount", "sh", "-c", _ALONE, "sh", str(own), str(self.machines))
        return local_processes.start(
            (*alone, *command),
            env=known,
            log_path=self.machines.parent / f"{name}.log",
            name=name,
        )

    def _start_component(
        self, name: str, command: tuple[str, ...], variables: Mapping[str, str]
    ) -> None:
        self._processes[name] = self.start_alone(name, command, variables)


@contextmanager
def s3_server(folder: Path) -> Iterator[str]:
    """Yield the URI of an empty store in a bucket of an S3 server."""
    (port,) = free_ports(1)
    process = local_processes.start(
        [S3_SERVER, "-H", HOST, "-p", str(port)], log_path=folder / "s3.log", name="s3"
    )
    try:
        url = f"http://{HOST}:{port}/{BUCKET}"
        wait_until(lambda: _is_made(url), "the bucket", 120, process, poll_seconds=0.5)
        yield (f"s3://{BUCKET}/store?region=us-east-1&scheme=http&endpoint_override={HOST}:{port}")
    finally:
        process.stop(grace_seconds=3)


def _is_made(url: str) -> bool:
    try:
        return httpx.put(url, timeout=30, trust_env=False).is_success
    except httpx.TransportError:
        return False
