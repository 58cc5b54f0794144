"""The Airflow of this environment, asked by a process of its own: the command line imports none.

answer_of_airflow("counterpoise.orchestration.self_check", timeout_seconds=60)
connection_in_airflow("kafka_orders_eu")    # None: no Airflow here, or it does not answer
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from counterpoise.errors import InputError, MissingConnectionError

_CONNECTION_MODULE: Final = "counterpoise.orchestration.connection_settings"
_CONNECTION_SECONDS: Final = 60.0  # Airflow takes seconds to import


def why_no_airflow() -> str:
    """Return why there is no Airflow to ask in this environment; "" where there is one."""
    if importlib.util.find_spec("airflow") is None:
        return "not installed here"
    return "" if _is_configured() else "no Airflow is configured here (AIRFLOW_HOME)"


def _is_configured() -> bool:
    """Return whether somebody has set Airflow up: it would make a home of its own otherwise."""
    home = os.environ.get("AIRFLOW_HOME")
    folder = Path(home) if home else Path("~/airflow").expanduser()
    return (folder / "airflow.cfg").exists() or any(
        name.startswith("AIRFLOW__") for name in os.environ
    )


def answer_of_airflow(module: str, timeout_seconds: float, question: object = None) -> Any:
    """Return the JSON that a module writes into the file that it is given; it reads the question
    from stdin. None: nothing was written in time.
    """
    package = str(Path(__file__).resolve().parents[1])
    paths = filter(None, (package, os.environ.get("PYTHONPATH")))
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    # The answer may hold what is secret: its file has no name.
    with tempfile.TemporaryFile() as file:
        answer = Path(f"/dev/fd/{file.fileno()}")
        try:
            subprocess.run(
                [sys.executable, "-m", module, str(answer)],
                env=variables,
                cwd=tempfile.gettempdir(),
                pass_fds=(file.fileno(),),
                input=json.dumps(question),
                text=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # may show the address of a database
                timeout=timeout_seconds,
                check=False,
            )
            return json.loads(answer.read_text())
        except (subprocess.TimeoutExpired, OSError, ValueError):
            return None


@cache
def connection_in_airflow(connection_id: str) -> Mapping[str, object] | None:
    """Return the librdkafka settings of a connection of Airflow; None where no Airflow answers.

    Raises MissingConnectionError for an id that it does not have, InputError for a connection that
    cannot be used.
    """
    if why_no_airflow():
        return None
    answer = answer_of_airflow(_CONNECTION_MODULE, _CONNECTION_SECONDS, connection_id)
    if answer is None:
        return None
    if problem := answer.get("problem"):
        raise (MissingConnectionError if answer["is_missing"] else InputError)(problem)
    settings: Mapping[str, object] = answer["settings"]
    return settings
