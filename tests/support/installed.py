"""A fresh environment with the wheel in it, and an Airflow that has nothing else of ours.

    installed = install(folder)
    installed.run("counterpoise", "status")

Packages come from the cache of `make setup`; only what is missing there is fetched. Versions are
those of requirements.txt.
"""

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Final

from dev import local_processes

ROOT: Final = Path(__file__).resolve().parents[2]
_BIN: Final = Path(sys.executable).parent
_NOT_OURS: Final = ("COUNTERPOISE", "AIRFLOW", "_AIRFLOW", "PYTHON", "VIRTUAL_ENV")
_BUNDLES: Final = (
    '[{"name": "counterpoise", "classpath": '
    '"counterpoise.entry_points.dag_bundle.PackagedDagBundle", "kwargs": {}}]'
)


@dataclass(frozen=True)
class Installed:
    """`variables` are all that the programs of the environment see."""

    folder: Path
    variables: dict[str, str]

    @property
    def python(self) -> Path:
        return self.folder / "env" / "bin" / "python"

    def run(
        self, program: str, *arguments: str | Path, timeout_seconds: float = 600, **variables: str
    ) -> "CompletedProcess[str]":
        """Run a program of the environment in a folder where nothing of ours is."""
        return local_processes.run(
            [self.folder / "env" / "bin" / program, *arguments],
            name=program,
            timeout_seconds=timeout_seconds,
            env=self.variables | variables,
            cwd=self.folder / "cwd",
        )


def build_wheel(folder: Path, source: Path = ROOT) -> Path:
    """Build the wheel from this source tree, or from a source archive, without network."""
    return _build(folder, source, "wheel", "*.whl")


def build_source_archive(folder: Path) -> Path:
    """Build what is published beside the wheel, without network."""
    return _build(folder, ROOT, "sdist", "*.tar.gz")


def _build(folder: Path, source: Path, kind: str, files: str) -> Path:
    command = [_BIN / "uv", "build", f"--{kind}", "--no-build-isolation", "--offline"]
    _must_run([*command, "-o", folder, "--python", sys.executable, source], f"building a {kind}")
    (built,) = folder.glob(files)
    return built


def install(folder: Path) -> Installed:
    """Make an environment below `folder`, and Airflow's database in it."""
    wheel = build_wheel(folder / "wheel")
    (folder / "cwd").mkdir()
    _must_run([_BIN / "uv", "venv", "--python", sys.executable, folder / "env"], "uv venv")
    install_command: list[str | Path] = [
        *(_BIN / "uv", "pip", "install", "--python", folder / "env" / "bin" / "python"),
        *("--constraint", _constraints(folder)),
        f"counterpoise[spark,postgres,s3] @ {wheel.as_uri()}",
        "apache-airflow",
    ]
    # Of its thousand modules that are needed, Python compiles each; of all, uv would.
    environment = os.environ | {"UV_COMPILE_BYTECODE": "0"}
    if local_processes.run(
        [*install_command, "--offline"], name="uv pip install", timeout_seconds=600, env=environment
    ).returncode:
        _must_run(install_command, "uv pip install", env=environment)
    installed = Installed(folder, _variables(folder))
    migrated = installed.run("airflow", "db", "migrate")
    assert migrated.returncode == 0, migrated.stdout + migrated.stderr
    return installed


def _constraints(folder: Path) -> Path:
    """Return the tested versions, made of the lock as docs/install.md has it."""
    document = (ROOT / "docs" / "install.md").read_text()
    (line,) = re.findall(r"^    (grep .*) > constraints\.txt$", document, re.MULTILINE)
    made = local_processes.run(["sh", "-c", line], name="grep", timeout_seconds=240, cwd=ROOT)
    pinned = made.stdout.split()
    assert len(pinned) == (ROOT / "requirements.txt").read_text().count("==")
    path = folder / "constraints.txt"
    path.write_text("\n".join(pinned))
    return path


def _variables(folder: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_NOT_OURS)}
    return kept | {
        "PATH": f"{folder / 'env' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder / "home"),
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        # The one line of configuration.
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": _BUNDLES,
    }


def _must_run(
    command: list[str | Path], name: str, *, env: Mapping[str, str] | None = None
) -> None:
    done = local_processes.run(command, name=name, timeout_seconds=1000, env=env, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
