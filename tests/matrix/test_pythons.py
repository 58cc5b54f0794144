"""Every Python that the package allows: its requirements resolve there, beside Airflow 3.3, newest
and oldest alike, and the types are right. Nothing of it runs on another Python than this one.

Needs a network, for the package index. A minute and more for the types of each.
"""

import re
import sys
import tomllib
from pathlib import Path

import pytest

import local_processes

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(sys.executable).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FIRST, AFTER_LAST = map(int, re.findall(r"3\.(\d+)", PROJECT["requires-python"]))
PYTHONS = [f"3.{minor}" for minor in range(FIRST, AFTER_LAST)]
AIRFLOW = "apache-airflow>=3.3,<3.4"

pytestmark = pytest.mark.timeout(1800)


def test_the_document_names_the_pythons() -> None:
    document = (ROOT / "docs" / "deploying.md").read_text()
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
