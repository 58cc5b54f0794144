"""What an installation of an earlier day has written, and a worker that runs that day's code.

    folder = copied_to(tmp_path)                       # settings, ledger, store, simulated clusters
    with OldWorker.started(folder) as old:
        old.ask("look", run_id)                        # {"state": "running", "wait": 10.0}

The data lies in `data/<day>/`. `freeze.py.txt` in there made it and says how; `worker.py.txt` is
the old worker; `expected.json` has what the code of that day read from its own data. A simulated
cluster is a file of plain JSON (`clusters/<name>.json`), which each side reads before it acts and
writes anew afterwards.

Nothing here names anything of the present package.
"""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

DATA: Final = Path(__file__).with_name("data") / "2026-11-23"
UNDER_WAY_CLUSTER: Final = "orders-eu"
HALTED_CLUSTER: Final = "stock"
_COPIED: Final = ("clusters.yaml", "connections.yaml", "ledger.db", "ledger.db-made")
_COPIED_FOLDERS: Final = ("store", "clusters")

Document = dict[str, Any]


@cache
def expected() -> Document:
    """Return what the frozen code read from its own data."""
    document: Document = json.loads((DATA / "expected.json").read_text())
    return document


def copied_to(folder: Path) -> Path:
    """Copy the frozen installation, so that a test may write to it."""
    for name in _COPIED:
        if (DATA / name).exists():
            shutil.copy(DATA / name, folder / name)
    for name in _COPIED_FOLDERS:
        shutil.copytree(DATA / name, folder / name)
    return folder


def read_cluster(folder: Path, name: str) -> Document:
    document: Document = json.loads((folder / "clusters" / f"{name}.json").read_text())
    return document


def write_cluster(folder: Path, name: str, document: Document) -> None:
    (folder / "clusters" / f"{name}.json").write_text(json.dumps(document, indent=1))


def placement_of(document: Document) -> dict[str, tuple[tuple[int, ...], int | None]]:
    """Return replicas and leader of each partition."""
    return {
        f"{p['topic']}-{p['partition']}": (tuple(p["replicas"]), p["leader"])
        for p in document["partitions"]
    }


def old_package(folder: Path) -> Path:
    """Extract the frozen package into `folder`, for PYTHONPATH."""
    root = folder / "old-package"
    if not root.exists():
        with zipfile.ZipFile(DATA / "counterpoise.zip") as package:
            package.extractall(root)
    return root


def old_environment(folder: Path) -> dict[str, str]:
    """Return the environment of a process that runs the frozen package on the copy in `folder`."""
    return os.environ | {
        "PYTHONPATH": str(old_package(folder)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "COUNTERPOISE_CONFIG": str(folder / "clusters.yaml"),
        "COUNTERPOISE_CONNECTIONS": str(folder / "connections.yaml"),
        "COUNTERPOISE_STORE": str(folder / "store"),
        "COUNTERPOISE_LEDGER": f"sqlite:///{folder / 'ledger.db'}",
    }


def old_command(*words: str | Path) -> list[str]:
    """Return what a process of the frozen package has to start to run one command."""
    return [sys.executable, "-c", "from counterpoise.cli.main import run; run()", *map(str, words)]


class OldWorker:
    """A process of the frozen code that opened the ledger before the present code did."""

    def __init__(self, folder: Path) -> None:
        script = folder / "old_worker.py"
        shutil.copy(DATA / "worker.py.txt", script)
        self._process = subprocess.Popen(
            [sys.executable, str(script), str(folder)],
            env=old_environment(folder),
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @classmethod
    @contextmanager
    def started(cls, folder: Path) -> Iterator["OldWorker"]:
        worker = cls(folder)
        try:
            worker.ask("status")  # it has opened the ledger when it answers
            yield worker
        finally:
            worker.end()

    def ask(self, *words: str) -> Document:
        """Ask for one thing, and wait for the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the old worker has ended: {self._process.wait()}"
        answer: Document = json.loads(line)
        return answer

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()
