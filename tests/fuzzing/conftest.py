"""One fork server for all cases, and what has to hold after each."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.support.broken.case import SECRET

ROOT: Final = Path(__file__).parents[2]
EXIT_CODES: Final = (0, 1, 2, 3)
OUR_FILES: Final = ("ledger.db", "store", "out", "err")  # that a command may always write


@dataclass(frozen=True)
class Ended:
    status: int  # negative: by this signal
    out: str
    err: str


class Commands:
    """Runs commands in a folder; the environment is `environment` and nothing else."""

    def __init__(self, folder: Path, server: "subprocess.Popen[str]") -> None:
        self.folder, self._server = folder, server
        self.environment = {
            "HOME": str(folder / "home"),
            "TMPDIR": str(folder / "tmp"),
            "PATH": "/nowhere",
            "COUNTERPOISE_HOME": str(folder / "home"),
            "COUNTERPOISE_CONFIG": str(folder / "clusters.yaml"),
            "COUNTERPOISE_CONNECTIONS": str(folder / "connections.yaml"),
            "COUNTERPOISE_STORE": str(folder / "store"),
            "COUNTERPOISE_LEDGER": f"sqlite:///{folder / 'ledger.db'}",
        }

    def run(
        self,
        words: Sequence[str],
        files: Mapping[str, bytes] = {},
        environment: Mapping[str, str] = {},
        *,
        writes: Sequence[str] = (),
        terminal: bool = False,
    ) -> Ended:
        """Run a command over fresh files, and check what holds for every command."""
        self._empty()
        (self.folder / "tmp").mkdir()
        for name, content in files.items():
            (self.folder / name).write_bytes(content)
        case = {
            "words": [str(word) for word in words],
            "folder": str(self.folder),
            "environment": self.environment | dict(environment),
            "out": str(self.folder / "out"),
            "err": str(self.folder / "err"),
            "terminal": terminal,
        }
        ended = self._ended(case)
        self._check(ended, case, files, writes)
        return ended

    def _ended(self, case: dict[str, object]) -> Ended:
        assert self._server.stdin and self._server.stdout
        self._server.stdin.write(json.dumps(case) + "\n")
        self._server.stdin.flush()
        status = json.loads(self._server.stdout.readline())["status"]
        out, err = (
            (self.folder / name).read_bytes().decode(errors="backslashreplace")
            for name in ("out", "err")
        )
        return Ended(status, out, err)

    def _check(
        self,
        ended: Ended,
        case: dict[str, object],
        files: Mapping[str, bytes],
        writes: Sequence[str],
    ) -> None:
        told = f"{case['words']} {case['environment']}\n{ended.err[-3000:]}"
        details = [path.read_text() for path in (self.folder / "tmp").glob("counterpoise-*.txt")]
        assert ended.status in EXIT_CODES, f"{ended.status}: {told}\n{''.join(details)}"
        assert "Traceback" not in ended.out + ended.err, told
        assert SECRET not in ended.out + ended.err, told
        steering = {"\x1b", "\x07", "\x08", "\x9b", "\r"} if not case["terminal"] else {"\x07"}
        assert not steering & set(ended.out + ended.err), told
        for path in self.folder.rglob("*"):
            name = str(path.relative_to(self.folder))
            if name in files:
                is_same = path.read_bytes() == files[name]
                assert is_same or name in writes, f"{name} was changed: {told}"
            elif path.is_file():
                may_be = name.startswith(OUR_FILES) or name in writes
                assert may_be, f"{name} was written: {told}"

    def _empty(self) -> None:
        for path in sorted(self.folder.rglob("*"), reverse=True):
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink()


@pytest.fixture(scope="session")
def server() -> Iterator["subprocess.Popen[str]"]:
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.fuzzing.fork_server"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdin and server.stdout
    assert server.stdout.readline() == "ready\n"
    yield server
    server.stdin.close()
    server.wait(60)


@pytest.fixture(scope="session")
def commands(server: "subprocess.Popen[str]", tmp_path_factory: pytest.TempPathFactory) -> Commands:
    return Commands(tmp_path_factory.mktemp("fuzzed"), server)
