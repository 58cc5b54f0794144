"""The Airflow of this environment, asked by a process of its own: the command line imports none.

answer_of_airflow("counterpoise.orchestration.self_check", timeout_seconds=60)
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


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
    package = str(Path(__file__).resolve().parents[2])
    paths = filter(None, (package, os.environ.get("PYTHONPATH")))
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    with tempfile.TemporaryDirectory(prefix="counterpoise-airflow-") as folder:
        answer = Path(folder) / "answer.json"
        try:
            subprocess.run(
                [sys.executable, "-m", module, str(answer)],
                env=variables,
                cwd=folder,
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
