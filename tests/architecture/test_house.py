"""The house stands: imports go down, Dag files are thin, pure rooms read no clock, Spark jobs stand
alone; packages come by their hashes.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "plugins" / "counterpoise"
OURS = [
    PACKAGE,
    *(ROOT / name for name in ("dev", "demo", "spark_jobs")),
]
PURE = (
    "model",
    "access",
    "analysis",
    "planning",
    "approval",
    "notifications",
    "verification",
    "reporting",
    "history",
    "audit",
    "undoing",
)
PURE_OF_EXECUTION = ("decide", "observation", "throttling/targets", "throttling/restore")
CLOCKS = {
    ("datetime", "now"),
    ("datetime", "utcnow"),
    ("date", "today"),
    ("time", "time"),
    ("time", "monotonic"),
}
MAX_LINES_OF_A_DAG = 120


def python_files() -> list[Path]:
    return sorted(
        path
        for folder in OURS
        for path in folder.rglob("*.py")
        if "migrations/versions" not in str(path)
    )


def pure_files() -> Iterator[Path]:
    for room in PURE:
        yield from (
            [PACKAGE / f"{room}.py"]
            if (PACKAGE / f"{room}.py").exists()
            else (PACKAGE / room).rglob("*.py")
        )
    for name in PURE_OF_EXECUTION:
        yield PACKAGE / "execution" / f"{name}.py"


def test_import_contracts_hold() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_room_stands_on_a_floor() -> None:
    contracts = (ROOT / "pyproject.toml").read_text()
    rooms = {path.stem for path in PACKAGE.glob("*.py")} | {
        path.parent.name for path in PACKAGE.glob("*/__init__.py")
    }
    homeless = [
        room for room in sorted(rooms - {"__init__"}) if f"counterpoise.{room}" not in contracts
    ]
    assert not homeless


def test_dag_files_are_thin() -> None:
    thick = [
        path.name
        for path in (ROOT / "dags").glob("*.py")
        if path.read_text().count("\n") > MAX_LINES_OF_A_DAG
    ]
    assert not thick


def test_pure_rooms_read_no_clock_and_no_file() -> None:
    impure = [
        f"{path.relative_to(PACKAGE)}:{call.lineno}"
        for path in pure_files()
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and _does_something(call.func)
    ]
    assert not impure


def _does_something(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id in ("open", "print", "input")
    if not isinstance(function, ast.Attribute):
        return False
    owner = function.value
    name = (
        owner.id
        if isinstance(owner, ast.Name)
        else owner.attr
        if isinstance(owner, ast.Attribute)
        else ""
    )
    return (name, function.attr) in CLOCKS or function.attr in (
        "write_text",
        "write_bytes",
        "unlink",
        "mkdir",
    )


def test_spark_jobs_import_only_the_model_of_ours() -> None:
    ours = {
        name
        for path in (ROOT / "spark_jobs").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [a.name for a in node.names]
        )
        if name.split(".")[0] in ("counterpoise", "dev", "demo")
    }
    assert ours
    assert all(name.startswith("counterpoise.model") for name in ours)


def test_nothing_tracked_names_a_path_of_one_machine() -> None:
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    own = str(Path(__file__).relative_to(ROOT))
    texts = {
        n: (ROOT / n).read_text()
        for n in tracked
        if n.endswith((".py", ".md", ".yaml", ".toml", ".in", ".txt"))
    }
    places = ("/root/", "/work/", "/home/")
    assert not [
        name
        for name, text in texts.items()
        if name != own and any(place in text for place in places)
    ]


def test_every_package_is_installed_by_its_hash() -> None:
    """Also the one that installs the others."""
    for path in (ROOT / "requirements.txt", *(ROOT / "requirements").glob("*.txt")):
        requirements = path.read_text().replace("\\\n", " ").splitlines()
        pinned = [line for line in requirements if re.match(r"\w", line)]
        assert pinned, path.name
        assert not [line for line in pinned if "==" not in line or "--hash=sha256:" not in line]
    for name in ("Makefile", "docker/Dockerfile"):
        installs = re.findall(r"pip\)? install [^\n&|}]*", (ROOT / name).read_text())
        assert installs
        own = "--no-deps --no-build-isolation --editable ."
        assert not [line for line in installs if own not in line and "--require-hashes" not in line]
