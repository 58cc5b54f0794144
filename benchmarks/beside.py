"""Another version's planner on the same clusters, in turns with ours.

    with planner_of("154f3337") as environment:    # its packages come first on PYTHONPATH
        used_by([COMMAND, "plan", ...], environment)
        row_of(["-m", "benchmarks.crooked_plans", "add-240"], environment)

Limits: what that version imports has to be installed here.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
COMMAND: Final = str(Path(sys.executable).with_name("counterpoise"))


@contextmanager
def planner_of(commit: str) -> Iterator[dict[str, str]]:
    """Yield the environment of a process that has the packages of a commit, not ours."""
    with tempfile.TemporaryDirectory(prefix="beside-") as folder:
        checkout = Path(folder) / "checkout"
        _git("worktree", "add", "--quiet", "--detach", str(checkout), commit)
        try:
            paths = [str(checkout / "plugins"), os.environ.get("PYTHONPATH", "")]
            yield {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        finally:
            _git("worktree", "remove", "--force", str(checkout))


def row_of(words: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return the last line that a benchmark of ours prints with the planner of an environment.

    Raises CalledProcessError when it prints none.
    """
    command = [sys.executable, *words]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    if not done.stdout:
        raise subprocess.CalledProcessError(done.returncode, command)
    return done.stdout.splitlines()[-1]


def _git(*words: str) -> None:
    subprocess.run(["git", "-C", str(ROOT), *words], check=True)
