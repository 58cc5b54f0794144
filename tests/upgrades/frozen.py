"""What installations of earlier days have written, and workers that run the code of such a day.

    day = DAYS[0]
    folder = day.copied_to(tmp_path)                   # settings, ledger, store, simulated clusters
    with OldWorker.started(day, folder) as old:
        old.ask("look", day.run_under_way)             # {"state": "running", "wait": 10.0}

The data lies in `data/<day>/`. `freeze.py.txt` in there made it and says how; `worker.py.txt` is
the old worker; `expected.json` has what the code of that day read from its own data. A simulated
cluster is a file of plain JSON (`clusters/<name>.json`), which each side reads before it acts and
writes anew afterwards.

Nothing here names anything of the present package.
"""

import gzip
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

UNDER_WAY_CLUSTER: Final = "orders-eu"
HALTED_CLUSTER: Final = "stock"
_COPIED: Final = ("clusters.yaml", "connections.yaml", "ledger.db", "ledger.db-made")
_COPIED_FOLDERS: Final = ("store", "clusters")

Document = dict[str, Any]


@dataclass(frozen=True)
class FrozenDay:
    """The data of one day, and what its code did in another way than later code does."""

    name: str
    step_held_error: str  # whose step is another process's
    chains_rows: bool = True  # whoever writes a row adds it to the chain
    tells_uneven_topics: bool = True  # an analysis says how many topics are led unevenly

    def __str__(self) -> str:
        return self.name

    @property
    def data(self) -> Path:
        return Path(__file__).with_name("data") / self.name

    def days_before(self, count: int) -> str:
        return (date.fromisoformat(self.name) - timedelta(days=count)).isoformat()

    @property
    def expected(self) -> Document:
        """Return what the frozen code read from its own data."""
        return _read_once(self.data / "expected.json")

    @property
    def run_under_way(self) -> str:
        run_id: str = self.expected["under_way"]
        return run_id

    def run_in_state(self, state: str, cluster: str) -> Document:
        (found,) = [
            run
            for run in self.expected["runs"]
            if (run["state"], run["cluster"]) == (state, cluster)
        ]
        return dict(found)

    @property
    def plans(self) -> list[str]:
        return sorted(path.name for path in (self.data / "plans").iterdir())

    def cluster_documents(self) -> dict[str, str]:
        """Return the exported cluster documents by their snapshot's id."""
        paths = (self.data / "documents").iterdir()
        texts = [gzip.decompress(path.read_bytes()).decode() for path in paths]
        return {json.loads(text)["snapshot_id"]: text for text in texts}

    def copied_to(self, folder: Path) -> Path:
        """Copy the frozen installation, so that a test may write to it."""
        for name in _COPIED:
            shutil.copy(self.data / name, folder / name)
        for name in _COPIED_FOLDERS:
            shutil.copytree(self.data / name, folder / name)
        return folder

    def package_in(self, folder: Path) -> Path:
        """Extract the frozen package into `folder`, for PYTHONPATH."""
        root = folder / "old-package"
        if not root.exists():
            with zipfile.ZipFile(self.data / "counterpoise.zip") as package:
                package.extractall(root)
        return root

    def environment(self, folder: Path) -> dict[str, str]:
        """Return the environment of a process that runs the frozen package on the copy there."""
        return os.environ | {
            "PYTHONPATH": str(self.package_in(folder)),
            "PYTHONDONTWRITEBYTECODE": "1",
            "COUNTERPOISE_CONFIG": str(folder / "clusters.yaml"),
            "COUNTERPOISE_CONNECTIONS": str(folder / "connections.yaml"),
            "COUNTERPOISE_STORE": str(folder / "store"),
            "COUNTERPOISE_LEDGER": f"sqlite:///{folder / 'ledger.db'}",
        }


DAYS: Final = (
    FrozenDay("2026-11-23", "StepTakenError", chains_rows=False, tells_uneven_topics=False),
    FrozenDay("2026-11-27", "StepLockHeldError"),
)
# For a test that takes long, and tries nothing that a later day has written in another way.
on_oldest_day: Final = pytest.mark.parametrize("day", DAYS[:1], indirect=True, ids=str)


@cache
def _read_once(path: Path) -> Document:
    document: Document = json.loads(path.read_text())
    return document


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


def old_command(*words: str | Path) -> list[str]:
    """Return what a process of the frozen package has to start to run one command."""
    return [sys.executable, "-c", "from counterpoise.cli.main import run; run()", *map(str, words)]


class OldWorker:
    """A process of the frozen code that opened the ledger before the present code did."""

    def __init__(self, day: FrozenDay, folder: Path) -> None:
        script = folder / "old_worker.py"
        shutil.copy(day.data / "worker.py.txt", script)
        self._process = subprocess.Popen(
            [sys.executable, str(script), str(folder)],
            env=day.environment(folder),
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @classmethod
    @contextmanager
    def started(cls, day: FrozenDay, folder: Path) -> Iterator["OldWorker"]:
        worker = cls(day, folder)
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
