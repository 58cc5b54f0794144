"""A run of the tests says what it left out: nothing is skipped without a word."""

import re
import subprocess
import sys
from pathlib import Path

from dev.local_processes import wait_until
from tests.support.left_out import VARIABLE, summary

ROOT = Path(__file__).resolve().parents[2]
# Every skip of the project, by file: each names a system package, a Python, or a right, that is
# missing.
SKIPS = {
    "tests/architecture/test_compose.py": 1,
    "tests/nightly/test_compose_services.py": 1,
    "tests/nightly/test_pythons.py": 1,  # other Pythons
    "tests/support/airflow_place.py": 1,  # root
    "tests/support/browser.py": 1,
    "tests/unit/test_completion.py": 1,
}


def test_the_last_line_says_what_was_left_out_and_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(
        "import pytest\n\n\n"
        "def test_one() -> None:\n    pytest.skip('no foo (apt-get install foo)')\n"
    )
    noted = tmp_path / "left-out.txt"
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", str(tmp_path)]
    environment = {VARIABLE: str(noted), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    last = subprocess.run(
        [sys.executable, "-m", "tests.support.left_out", str(noted)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    assert last.stdout == "left out: 1 test: no foo (apt-get install foo)\n"


def test_nothing_left_out_is_said_too() -> None:
    assert summary([]) == "left out: nothing"
    assert summary(["a", "b", "a"]) == "left out: 2 tests: a; 1 test: b"


def test_a_clone_skips_only_what_needs_a_system_package_or_root() -> None:
    skips = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name == "tests/architecture/test_left_out.py":
            continue
        calls = re.findall(r"pytest\.skip\(|mark\.skip|importorskip|mark\.xfail", path.read_text())
        if calls:
            skips[name] = len(calls)
    assert skips == SKIPS


def test_a_failing_test_leaves_no_process_behind(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(
        "import pathlib, subprocess\n\n\n"
        "def test_one() -> None:\n"
        "    child = subprocess.Popen(['sleep', '1000'])\n"
        "    pathlib.Path('pid').write_text(str(child.pid))\n"
        "    raise AssertionError\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", str(tmp_path)]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, check=False, capture_output=True)
    assert ran.returncode == 1, ran.stdout
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the end of the child", 60)
