"""A copy of the work tree in which defects are made, one after the other, and tests run.

with copied_tree() as tree:
    tree.run(tests)                                      # Outcome: 0 where all pass
    with tree.changed("plugins/.../decide.py", text):
        tree.run(tests)
"""

import compileall
import os
import py_compile
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.mutants.mutant import ROOT

# More than any of the quick tests takes: whoever waits for ever is found, too.
TEST_SECONDS: Final = 120
_ALL_PASSED: Final = 0
_SOME_FAILED: Final = 1
_NO_END: Final = -1  # of this module, not of pytest


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run of pytest ended."""

    code: int
    output: str
    seconds: float

    @property
    def passed(self) -> bool:
        return self.code == _ALL_PASSED

    @property
    def failed(self) -> bool:
        """Return whether a test failed, or did not end; not where pytest could not run it."""
        return self.code in (_SOME_FAILED, _NO_END)

    @property
    def first_failure(self) -> str:
        """Return the line that names it, without what follows the test's name."""
        lines = (line for line in self.output.splitlines() if line.startswith("FAILED "))
        first = next(lines, "no end" if self.code == _NO_END else "")
        return first.removeprefix("FAILED ").partition(" - ")[0]

    @property
    def last_lines(self) -> str:
        return "\n".join(self.output.splitlines()[-15:])


@dataclass(frozen=True, slots=True)
class CopiedTree:
    root: Path

    @contextmanager
    def changed(self, file: str, text: str) -> Iterator[None]:
        """Replace a file, and put it back."""
        path = self.root / file
        original = path.read_text()
        path.write_text(text)
        try:
            yield
        finally:
            path.write_text(original)

    def run(
        self,
        arguments: Sequence[str],
        *,
        seconds: float = 1200.0,
        environment: Mapping[str, str] | None = None,
    ) -> Outcome:
        """Run pytest with these arguments, until the first test that fails."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        began_at = time.monotonic()
        with subprocess.Popen(
            [*command, f"--timeout={TEST_SECONDS}", *arguments],
            cwd=self.root,
            env=self._environment() | dict(environment or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=seconds)
                code = process.returncode
            except subprocess.TimeoutExpired:
                output, code = "", _NO_END
            finally:
                _end_group(process.pid)
        return Outcome(code, output, time.monotonic() - began_at)

    def _environment(self) -> dict[str, str]:
        """Return that of this process, with the copy's packages before those that are installed."""
        path = os.pathsep.join((str(self.root / "plugins"), str(self.root)))
        return {**os.environ, "PYTHONPATH": path}


def _end_group(process_id: int) -> None:
    """End what a test has left behind."""
    try:
        os.killpg(process_id, signal.SIGKILL)
    except ProcessLookupError:
        return


@contextmanager
def copied_tree(root: Path = ROOT) -> Iterator[CopiedTree]:
    """Yield a copy of what Git tracks, or would; it is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder).resolve()
        for name in _files(root):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, copy / name)
        # By the source's hash: a file that is changed twice within a second is compiled again.
        compileall.compile_dir(
            copy / "plugins",
            quiet=1,
            invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH,
        )
        yield CopiedTree(copy)


def _files(root: Path) -> list[str]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    return [name for name in listed.split("\0") if name and (root / name).is_file()]
