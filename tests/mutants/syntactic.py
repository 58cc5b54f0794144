"""How large a share of small defects do the quick tests find? 150 of them, drawn by a fixed seed.

    python -m tests.mutants.syntactic --out var/mutants.json              # an hour or more
    python -m tests.mutants.syntactic --count 20 --calls var/calls.json   # made once, then read
    python -m tests.mutants.syntactic --again var/mutants.json --out var/later.json

One defect at a time, in the rooms that decide what is written to a cluster: an operator turned, a
`not` dropped, a constant changed, a call left out, None returned. Against each run at most
MAX_TESTS tests that enter its function (`covering`), and no more than MAX_SECONDS of them: those
that enter the fewest functions first. A defect that only a test finds which is not among them
counts as survived, so the share is one to compare with another commit, not with another project.
With `--again` the defects of an earlier run are made in the code as it is now, each first against
the test that found it then; those whose code is gone are left out.
"""

import argparse
import ast
import copy
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tests.mutants.copied_tree import CopiedTree, copied_tree
from tests.mutants.covering import IN_MEMORY, Calls, find_calls, read_calls
from tests.mutants.mutant import ROOT, is_there

ROOMS: Final = (
    "plugins/counterpoise/execution",
    "plugins/counterpoise/ledger",
    "plugins/counterpoise/validation",
    "plugins/counterpoise/services/approvals.py",
    "plugins/counterpoise/access.py",
)
_LEFT_OUT: Final = ("/migrations/", "/waits")  # tables, and words
SEED: Final = 43
COUNT: Final = 150
MAX_TESTS: Final = 40
MAX_SECONDS: Final = 12.0  # of tests as they take without a defect
_DEADLINE_SECONDS: Final = 180.0

_TURNED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Defect:
    """A piece of a file, and what stands there instead."""

    file: str
    function: str  # the name of the innermost one around it; "" for none
    kind: str
    line: int
    column: int
    end_line: int
    end_column: int
    replacement: str

    def applied_to(self, text: str) -> str:
        lines = text.encode().splitlines(keepends=True)
        begin, end = self.line - 1, self.end_line - 1
        before, after = lines[begin][: self.column], lines[end][self.end_column :]
        lines[begin : end + 1] = [before + self.replacement.encode() + after]
        return b"".join(lines).decode()

    def original_in(self, text: str) -> str:
        """Return what stands there, in one line."""
        lines = text.encode().splitlines(keepends=True)[self.line - 1 : self.end_line]
        lines[-1] = lines[-1][: self.end_column]
        lines[0] = lines[0][self.column :]
        return " ".join(b"".join(lines).decode().split())

    def what_in(self, text: str) -> list[str]:
        """Return by what it is known again where code has moved."""
        return [self.function, self.kind, self.replacement, self.original_in(text)]

    def in_words(self, text: str) -> str:
        """Return `decide.py:120 comparison: `a < b` -> `(a <= b)``."""
        change = f"`{self.original_in(text)}` -> `{self.replacement}`"
        return f"{self.file}:{self.line} {self.kind}: {change}"


def find_defects(root: Path = ROOT, rooms: Sequence[str] = ROOMS) -> list[Defect]:
    """Return all that can be made, in the order of files and lines."""
    paths = (path for room in rooms for path in sorted(_python_files(root / room)))
    names = (path.relative_to(root).as_posix() for path in paths)
    return [
        defect
        for name in names
        if not any(part in name for part in _LEFT_OUT)
        for defect in _defects_of(name, (root / name).read_text())
    ]


def draw(defects: Sequence[Defect], count: int = COUNT, seed: int = SEED) -> list[Defect]:
    return random.Random(seed).sample(defects, min(count, len(defects)))


def _python_files(place: Path) -> list[Path]:
    return [place] if place.is_file() else list(place.rglob("*.py"))


def _defects_of(name: str, text: str) -> Iterator[Defect]:
    for node, function in _mutable_nodes(ast.parse(text)):
        for kind, replacement in _replacements(node):
            assert isinstance(node, ast.expr | ast.stmt)
            yield Defect(
                file=name,
                function=function,
                kind=kind,
                line=node.lineno,
                column=node.col_offset,
                end_line=node.end_lineno or node.lineno,
                end_column=node.end_col_offset or 0,
                replacement=replacement,
            )


def _mutable_nodes(node: ast.AST, function: str = "") -> Iterator[tuple[ast.AST, str]]:
    """Yield the nodes of what is executed, each with the function that it is in: no annotations,
    decorators, imports or f-strings.
    """
    if isinstance(node, ast.FunctionDef):
        function = node.name
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr | ast.Raise):
                continue
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            yield child, function
            yield from _mutable_nodes(child, function)


def _replacements(node: ast.AST) -> Iterator[tuple[str, str]]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in _TURNED:
            turned = copy.deepcopy(node)
            turned.ops = [_TURNED[type(op)]()]
            yield "comparison", _in_brackets(turned)
        case ast.BoolOp(op=op):
            turned_or = copy.deepcopy(node)
            turned_or.op = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield "and or", _in_brackets(turned_or)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "dropped not", _in_brackets(operand)
        case ast.BinOp(op=ast.Add() | ast.Sub() as sign):
            other = copy.deepcopy(node)
            other.op = ast.Sub() if isinstance(sign, ast.Add) else ast.Add()
            yield "plus minus", _in_brackets(other)
        case ast.Constant(value=bool() as flag):
            yield "constant", str(not flag)
        case ast.Constant(value=int() as number):
            yield "constant", str(number + 1)
        case ast.Return(value=ast.expr() as value) if not _is_none(value):
            yield "returned None", "return None"
        case ast.Expr(value=ast.Call()):
            yield "call left out", "pass"


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _in_brackets(node: ast.AST) -> str:
    return f"({ast.unparse(node)})"


# -- running


def tests_for(defect: Defect, calls: Calls) -> list[str]:
    """Return the tests that enter the function of a defect: those that enter the fewest others
    first, as far as tests and seconds go.
    """
    entering = calls.entering_line(defect.file, defect.line)
    in_order = sorted(entering, key=lambda test: (calls.number_of_functions[test], test))
    chosen: list[str] = []
    seconds = 0.0
    for test in in_order:
        if len(chosen) == MAX_TESTS:
            break
        if chosen and seconds + calls.seconds[test] > MAX_SECONDS:
            continue
        chosen.append(test)
        seconds += calls.seconds[test]
    return chosen


def _try_drawn(tree: CopiedTree, root: Path, options: argparse.Namespace) -> Iterator[Result]:
    defects = draw(find_defects(root), options.count, options.seed)
    if options.calls and options.calls.exists():
        calls = read_calls(options.calls, root)
    else:
        files = {defect.file for defect in defects}
        calls = find_calls(tree, files, options.tests, str(options.calls or ""))
    for defect in defects:
        yield _try(tree, defect, tests_for(defect, calls))


def _try_again(tree: CopiedTree, root: Path, earlier: Path) -> Iterator[Result]:
    """Yield what becomes now of the defects that were found then, of those whose code is still
    there. What survived then is taken to survive now.
    """
    present = find_defects(root)
    texts = {name: (root / name).read_text() for name in {defect.file for defect in present}}
    for result in json.loads(earlier.read_text()):
        what = [result[name] for name in ("function", "kind", "replacement", "original")]
        same = [d for d in present if d.what_in(texts[d.file]) == what]
        if not same:
            yield result | {"state": "gone"}
        elif result["state"] == "survived":
            yield result
        else:
            found_by = result["by"].partition("[")[0]
            tests = [t for t in dict.fromkeys([found_by, *result["tests"]]) if is_there(root, t)]
            yield _try(tree, same[0], tests)


def _try(tree: CopiedTree, defect: Defect, tests: Sequence[str]) -> Result:
    """Return what became of a defect, and by which of the tests."""
    text = (tree.root / defect.file).read_text()
    state, by = "survived", "" if tests else "no test enters it"
    if tests:
        with tree.changed(defect.file, defect.applied_to(text)):
            outcome = tree.run(tests, seconds=_DEADLINE_SECONDS)
        # Where a module cannot be imported any more, no test fails, and pytest says so.
        if not outcome.passed:
            state, by = "killed", outcome.first_failure
    return asdict(defect) | {
        "original": defect.original_in(text),
        "state": state,
        "by": by,
        "tests": list(dict.fromkeys(test.partition("[")[0] for test in tests)),
        "words": defect.in_words(text),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--root", type=Path, default=ROOT, help="the work tree")
    parser.add_argument("--calls", type=Path, help="where it is kept which test calls what")
    parser.add_argument("--tests", nargs="+", default=IN_MEMORY, help="files and folders")
    parser.add_argument("--again", type=Path, help="what an earlier run wrote")
    parser.add_argument("--out", type=Path, default=Path("var/mutants.json"))
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    results: list[Result] = []
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with copied_tree(root) as tree:
        again = options.again
        found = _try_again(tree, root, again) if again else _try_drawn(tree, root, options)
        for number, result in enumerate(found, 1):
            results.append(result)
            _say(f"{number:3}  {result['state']:8} {result['words']}  {result['by']}")
            options.out.write_text(json.dumps(results, indent=1))
    there = [result for result in results if result["state"] != "gone"]
    killed = sum(result["state"] == "killed" for result in there)
    _say(f"{killed} of {len(there)} killed: {100 * killed / max(1, len(there)):.1f} %")
    return 0


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - a progress line each


if __name__ == "__main__":
    sys.exit(main())
