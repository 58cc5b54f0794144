"""A mutant: a defect that a maintainer could make, and the tests that find it.

    for mutant in read_mutants():
        mutant.mutated(text)         # the text of its file with the defect in it
        mutant.complaint(root)       # "" where it applies to the tree, and its tests are there

Each is a file of this folder, `NAME.toml`:

    clause = "3: a throttle goes only when no copy in flight uses it"   # or "validation: RULE"
    file = "plugins/counterpoise/execution/..."
    before = '''...'''     # occurs exactly once in the file
    after = '''...'''
    killed_by = ["tests/simulation/test_x.py::test_y"]     # `make test` runs them; seconds each

The number before the colon is that of a promise. Code that moves takes its mutant along: the text
is changed here in the same commit.
"""

import ast
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
ROOT: Final = FOLDER.parents[1]
# `make test` starts no broker and no Airflow for these.
_IN_MEMORY: Final = ("architecture", "exploration", "property", "simulation", "unit")


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    clause: str
    file: str
    before: str
    after: str
    killed_by: tuple[str, ...]

    @property
    def promise(self) -> int | None:
        """Return the number of the promise; None for a rule of validation."""
        number = self.clause.partition(":")[0]
        return int(number) if number.isdecimal() else None

    def mutated(self, text: str) -> str:
        """Return the text with the defect. Raises ValueError where it does not apply."""
        count = text.count(self.before)
        if count != 1:
            raise ValueError(f"`before` occurs {count} times in {self.file}, not once")
        return text.replace(self.before, self.after)

    def complaint(self, root: Path = ROOT) -> str:
        """Return why the mutant does not apply to a tree, or which test is missing; "" if none."""
        path = root / self.file
        if not path.is_file():
            return f"there is no {self.file}"
        try:
            mutated = self.mutated(path.read_text())
            ast.parse(mutated)
        except (ValueError, SyntaxError) as error:
            return str(error)
        if not self.killed_by:
            return "killed_by names no test"
        return "; ".join(filter(None, (_missing(root, test) for test in self.killed_by)))


def read_mutants(names: Sequence[str] = (), folder: Path = FOLDER) -> tuple[Mutant, ...]:
    """Return the mutants whose names begin so, or all, by name. Raises FileNotFoundError where none
    does.
    """
    paths = sorted(folder.glob("*.toml"))
    for name in names:
        if not any(path.stem.startswith(name) for path in paths):
            raise FileNotFoundError(f"no mutant of {folder} begins with {name}")
    begins_so = tuple(names) or ("",)
    return tuple(_read(path) for path in paths if path.stem.startswith(begins_so))


def _read(path: Path) -> Mutant:
    content = tomllib.loads(path.read_text())
    content["killed_by"] = tuple(content["killed_by"])
    return Mutant(name=path.stem, **content)


def is_there(root: Path, test: str) -> bool:
    """Return whether a tree defines the test with this id."""
    return not _missing(root, test)


def _missing(root: Path, test: str) -> str:
    """Return what is wrong with the id of a test; "" where it is there, and quick."""
    file, *names = test.partition("[")[0].split("::")
    if not (root / file).is_file():
        return f"there is no {file}"
    if file.split("/")[1] not in _IN_MEMORY:
        return f"{file} is not among the tests in memory"
    tree: ast.AST = ast.parse((root / file).read_text())
    for name in names:
        found = [
            node
            for node in ast.iter_child_nodes(tree)
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name
        ]
        if not found:
            return f"{file} defines no {name}"
        tree = found[-1]
    return "" if names else f"{test} names no test"
