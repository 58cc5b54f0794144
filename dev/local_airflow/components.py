"""The commands and environment variables of Airflow's four components.

    COMMANDS["scheduler"] == ("airflow", "scheduler", "--skip-serve-logs")
    environment(AirflowHome(Path("var/airflow")), port=8080, ...)

`docker-compose.yaml` starts the same commands with the same variables; a test compares the two.
"""

import base64
import json
import os
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"

MIGRATE: Final = ("airflow", "db", "migrate")

# All components see the task logs on disk, so none has to serve them over a port.
COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "api-server": ("airflow", "api-server", "--workers", "1"),
    "scheduler": ("airflow", "scheduler", "--skip-serve-logs"),
    "dag-processor": ("airflow", "dag-processor"),
    "triggerer": ("airflow", "triggerer", "--skip-serve-logs"),
}

# User: role. A viewer reads, a user may also answer an approval, op and admin also manage Airflow.
USERS: Final[Mapping[str, str]] = {
    "admin": "admin",
    "alice": "user",
    "bob": "user",
    "viewer": "viewer",
}

# The same wherever Airflow runs with Counterpoise.
SHARED_VARIABLES: Final[Mapping[str, str]] = {
    "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    # Otherwise a triggered run of a new Dag stays queued until somebody unpauses the Dag.
    "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
    # "True" would also let everybody approve.
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(
        f"{user}:{role}" for user, role in USERS.items()
    ),
    "AIRFLOW__CORE__PARALLELISM": "4",
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
    "AIRFLOW__LOGGING__COLORED_CONSOLE_LOG": "False",
    # On a busy machine a task that has no answer of the api-server within 5 s, the default, is
    # failed by Airflow, without a line in its log.
    "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
}

# Different in each place.
PLACE_VARIABLES: Final = (
    "AIRFLOW_HOME",
    "AIRFLOW__CORE__DAGS_FOLDER",
    "AIRFLOW__CORE__PLUGINS_FOLDER",
    "AIRFLOW__CORE__EXECUTION_API_SERVER_URL",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE",
    "AIRFLOW__CORE__FERNET_KEY",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN",
    "AIRFLOW__LOGGING__BASE_LOG_FOLDER",
    "AIRFLOW__API__HOST",
    "AIRFLOW__API__PORT",
    "AIRFLOW__API__BASE_URL",
    "AIRFLOW__API__SECRET_KEY",
    "AIRFLOW__API_AUTH__JWT_SECRET",
)

# For one machine on which a person waits: shorter pauses, less to keep.
QUICK_VARIABLES: Final[Mapping[str, str]] = {
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.3",
    "AIRFLOW__SCHEDULER__PARSING_CLEANUP_INTERVAL": "300",
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "300",
    # A form that changes within half a minute would be kept as it was until the Dag is parsed next.
    "AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": "0",
    "AIRFLOW__SCHEDULER__ENABLE_TRACEMALLOC": "False",
}


# Every task and every parsing of a Dag is a fork of one of these components, and would import
# libraries anew, which takes most of a second of processor time. Our own code is no part of it.
_LOCAL_SETTINGS: Final = """\
import sys

__all__ = []
if {"scheduler", "dag-processor"} & set(sys.argv):
    import alembic.command, kafka, numpy, pyarrow.dataset
"""


@dataclass(frozen=True, slots=True)
class AirflowHome:
    """The directory of a local Airflow: database, logs, passwords."""

    directory: Path

    @property
    def database(self) -> Path:
        return self.directory / "airflow.db"

    @property
    def passwords_file(self) -> Path:
        return self.directory / "passwords.json"

    @property
    def task_logs(self) -> Path:
        return self.directory / "task-logs"

    @property
    def temporary_files(self) -> Path:
        """Return the folder for what tasks remove when they end; one that is killed does not."""
        return self.directory / "tmp"

    @property
    def config(self) -> Path:
        return self.directory / "airflow.cfg"

    def component_log(self, component: str) -> Path:
        """Return the file with a component's output."""
        return self.directory / f"{component}.log"

    def write_local_settings(self) -> None:
        """Write what Airflow executes at the start of each component."""
        folder = self.directory / "config"
        folder.mkdir(exist_ok=True)
        (folder / "airflow_local_settings.py").write_text(_LOCAL_SETTINGS)

    def write_passwords(self, users: Mapping[str, str]) -> Mapping[str, str]:
        """Write a new password for each user, to a file that only its owner can read."""
        passwords = {user: secrets.token_urlsafe(9) for user in users}
        self.passwords_file.touch(mode=0o600)
        self.passwords_file.chmod(0o600)
        self.passwords_file.write_text(json.dumps(passwords))
        return passwords


@dataclass(frozen=True, slots=True)
class MigratedHome:
    """What `airflow db migrate` has written to an empty home."""

    directory: Path
    database: bytes
    config: str

    @classmethod
    def read(cls, home: AirflowHome) -> "MigratedHome":
        return cls(home.directory, home.database.read_bytes(), home.config.read_text())

    def copy_to(self, home: AirflowHome) -> None:
        """Write the same to another empty home."""
        home.database.write_bytes(self.database)
        home.config.write_text(self.config.replace(str(self.directory), str(home.directory)))


def environment(
    home: AirflowHome,
    *,
    port: int,
    dags: Path,
    plugins: Path,
    users: Mapping[str, str],
    extra: Mapping[str, str],
    prefix: str = "",
) -> dict[str, str]:
    """Return the variables of every component, with new secrets at each call.

    `extra` overrides ours, and ours override those of this process, of which settings for another
    Airflow (`AIRFLOW...`) are dropped.
    """
    base_url = f"http://{HOST}:{port}{prefix}"
    inherited = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("AIRFLOW", "_AIRFLOW"))
    }
    return {
        **inherited,
        **SHARED_VARIABLES,
        **QUICK_VARIABLES,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        # Tasks connect to the api-server directly, not through this machine's proxy.
        "NO_PROXY": _with_loopback("NO_PROXY"),
        "no_proxy": _with_loopback("no_proxy"),
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(home.temporary_files),
        "AIRFLOW_HOME": str(home.directory),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(plugins),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{base_url}/execution/",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(
            f"{user}:{role}" for user, role in users.items()
        ),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home.passwords_file),
        "AIRFLOW__CORE__FERNET_KEY": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        # On a busy machine a writer has waited longer for another one than SQLite's 5 s.
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home.database}?timeout=60",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(home.task_logs),
        "AIRFLOW__API__HOST": HOST,
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": base_url,
        "AIRFLOW__API__SECRET_KEY": secrets.token_hex(32),
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(64),
        **extra,
    }


def _with_loopback(name: str) -> str:
    return ",".join(filter(None, [os.environ.get(name, ""), HOST, "localhost"]))
