"""Every Python that the package allows: its requirements resolve there, beside Airflow 3.3, newest
and oldest alike, and the types are right. On those that are on this machine, and with the oldest
requirements, the wheel passes some hundred unit tests.

Needs a network, for the package index. A minute and more for the types of each, and for its tests.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dev import local_processes
from tests.support.installed import build_wheel

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(sys.executable).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FIRST, AFTER_LAST = map(int, re.findall(r"3\.(\d+)", PROJECT["requires-python"]))
PYTHONS = [f"3.{minor}" for minor in range(FIRST, AFTER_LAST)]
AIRFLOW = "apache-airflow>=3.3,<3.4"

# What needs neither Airflow nor Spark nor a server.
NAMES = ("calendar", "command_line", "ledger", "planning", "settings", "validation_data")
TESTS = [*(f"tests/unit/test_{name}.py" for name in NAMES), "tests/simulation/test_commands.py"]
TEST_TOOLS = ("pytest>=8", "pytest-timeout>=2.3", "hypothesis>=6.100")

pytestmark = pytest.mark.timeout(1800)


def test_the_document_names_the_pythons() -> None:
    document = (ROOT / "docs" / "install.md").read_text()
    assert f"\nPython {PYTHONS[0]} to {PYTHONS[-1]}: " in document


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("resolution", ["highest", "lowest-direct"])
def test_the_requirements_resolve(python: str, resolution: str, tmp_path: Path) -> None:
    """To wheels, but for PySpark, which has none."""
    extras = [name for each in PROJECT["optional-dependencies"].values() for name in each]
    wanted = tmp_path / "requirements.in"
    wanted.write_text("\n".join([*PROJECT["dependencies"], *extras, AIRFLOW]))
    resolved = local_processes.run(
        [
            *(PROGRAMS / "uv", "pip", "compile", wanted, "--no-header", "--no-annotate"),
            *("--python-version", python, "--resolution", resolution),
            *("--only-binary", ":all:", "--no-binary", "pyspark"),
        ],
        name="uv pip compile",
        timeout_seconds=600,
    )
    assert resolved.returncode == 0, resolved.stderr
    assert re.search(r"^apache-airflow==3\.3\.", resolved.stdout, re.MULTILINE)
    assert re.search(r"^pyspark==4\.3\.", resolved.stdout, re.MULTILINE)


@pytest.mark.parametrize("python", PYTHONS)
def test_the_types_are_right(python: str, tmp_path: Path) -> None:
    checked = local_processes.run(
        [PROGRAMS / "mypy", "--python-version", python, "--cache-dir", tmp_path],
        name="mypy",
        timeout_seconds=1500,
        cwd=ROOT,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def interpreter(python: str) -> str | None:
    """Return a Python of that version: on the path, or one of pyenv."""
    of_pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    candidates = [shutil.which(f"python{python}"), *of_pyenv.glob(f"*/bin/python{python}")]
    for candidate in filter(None, candidates):
        answer = subprocess.run([candidate, "--version"], capture_output=True, timeout=60)
        if answer.returncode == 0:
            return str(candidate)
    return None


@pytest.mark.parametrize(
    ("python", "resolution"),
    [*((python, "highest") for python in PYTHONS), (PYTHONS[0], "lowest-direct")],
)
def test_the_wheel_passes_unit_tests(python: str, resolution: str, tmp_path: Path) -> None:
    """What the command line does, with the packages that a resolver takes there."""
    found = interpreter(python)
    if found is None:
        pytest.skip(f"Python {python} is not installed")
    wheel = build_wheel(tmp_path / "wheel")
    environment = tmp_path / "env"
    # Named one by one: `lowest-direct` leaves what others bring along at the newest.
    direct = (*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["postgres"])
    wanted = (f"counterpoise @ {wheel.as_uri()}", *direct, *TEST_TOOLS)
    to_install = ("uv", "pip", "install", "--python", environment / "bin" / "python")
    tests = (environment / "bin" / "python", "-m", "pytest", "-q", "-k", "not postgres", *TESTS)
    ours = ("COUNTERPOISE", "PYTHON", "VIRTUAL_ENV")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    for program, *words in (
        ("uv", "venv", "--python", found, environment),
        (*to_install, "--resolution", resolution, *wanted),
        tests,
    ):
        done = local_processes.run(
            [PROGRAMS / "uv" if program == "uv" else program, *words],
            name=str(words[0]),
            timeout_seconds=1500,
            env=variables,
            cwd=ROOT,
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert re.search(r"\d{3} passed", done.stdout)
