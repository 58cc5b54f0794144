"""Which functions of the product each test in memory enters, and how long that takes.

    calls = find_calls(tree, files)                # runs the tests once; some minutes
    calls.entering("plugins/.../decide.py")        # the tests, the quickest first
    calls.entering_line("plugins/.../decide.py", 120)

In the copy of the tree each function of the files says that it was entered; as a plugin of pytest
(`-p tests.mutants.covering`) this module writes down during which test, to the file that
COUNTERPOISE_CALLS names. What is entered in processes that a test starts is not seen.
"""

import ast
import builtins
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any, Final

from tests.mutants.copied_tree import CopiedTree

VARIABLE: Final = "COUNTERPOISE_CALLS"
IN_MEMORY: Final = ("tests/unit", "tests/simulation", "tests/property")
_SECONDS: Final = 2 * 3600.0
_ENTERED: Final = "_entered_by_a_test"
# Where nobody listens, as in a process that a test starts, nothing happens.
_SAYS_SO: Final = f'getattr(__import__("builtins"), "{_ENTERED}", int)({{number}})'

Function = tuple[str, int]  # the file, and the line of its `def`
AnyFunction = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Calls:
    seconds: dict[str, float]  # of processor, by test
    number_of_functions: dict[str, int]  # that each test enters
    tests_by_function: dict[Function, frozenset[str]]
    root: Path

    def entering(self, file: str) -> list[str]:
        """Return the tests that enter any function of a file, the quickest first."""
        of_file = (tests for (of, _), tests in self.tests_by_function.items() if of == file)
        return self._quickest(frozenset().union(*of_file))

    def entering_line(self, file: str, line: int) -> list[str]:
        """Return the tests that enter the function around a line, the quickest first.

        What stands in no function, like a constant, counts for all that enter the file.
        """
        function = _function_around((self.root / file).read_text(), line)
        if function is None:
            return self.entering(file)
        return self._quickest(self.tests_by_function.get((file, function.lineno), frozenset()))

    def _quickest(self, tests: frozenset[str]) -> list[str]:
        return sorted(tests, key=lambda test: (self.seconds[test], test))


def find_calls(
    tree: CopiedTree, files: Iterable[str], tests: Sequence[str] = IN_MEMORY, found: str = ""
) -> Calls:
    """Run the tests once, and return which of them enter which functions of the files.

    `found` keeps that for `read_calls`. A test that fails is left out.
    """
    written_to = Path(found).resolve() if found else tree.root / "calls.json"
    functions: list[Function] = []
    with ExitStack() as changes:
        for file in sorted(set(files)):
            text, of_file = _saying_so((tree.root / file).read_text(), len(functions))
            functions += [(file, line) for line in of_file]
            changes.enter_context(tree.changed(file, text))
        arguments = ["-p", "tests.mutants.covering", "--maxfail=1000", "--timeout=1200", *tests]
        tree.run(arguments, seconds=_SECONDS, environment={VARIABLE: str(written_to)})
    content = json.loads(written_to.read_text())
    written_to.write_text(json.dumps(content | {"functions": functions}))
    return read_calls(written_to, tree.root)


def read_calls(found: Path, root: Path) -> Calls:
    content = json.loads(found.read_text())
    functions = [(file, line) for file, line in content["functions"]]
    tests_by_function: dict[Function, set[str]] = {}
    for test, numbers in content["tests"].items():
        for number in numbers:
            tests_by_function.setdefault(functions[number], set()).add(test)
    return Calls(
        content["seconds"],
        {test: len(numbers) for test, numbers in content["tests"].items()},
        {function: frozenset(tests) for function, tests in tests_by_function.items()},
        root,
    )


# -- functions


def _functions(text: str) -> Iterator[AnyFunction]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, AnyFunction):
            yield node


def _function_around(text: str, line: int) -> AnyFunction | None:
    around = [f for f in _functions(text) if f.lineno <= line <= (f.end_lineno or f.lineno)]
    return max(around, key=lambda function: function.lineno, default=None)


def _saying_so(text: str, first_number: int) -> tuple[str, list[int]]:
    """Return the text in which each function says that it is entered, by a number; and the lines of
    the functions, in the order of their numbers.
    """
    lines = text.splitlines(keepends=True)
    inserted: dict[int, str] = {}  # before a line
    functions = []
    for function in _functions(text):
        first = _first_statement(function)
        begins_at = min([first.lineno, *(d.lineno for d in getattr(first, "decorator_list", ()))])
        if begins_at == function.lineno or lines[begins_at - 1][: first.col_offset].strip():
            continue  # on one line with `def`
        number = first_number + len(functions)
        inserted[begins_at] = f"{' ' * first.col_offset}{_SAYS_SO.format(number=number)}\n"
        functions.append(function.lineno)
    both = (inserted.get(number, "") + line for number, line in enumerate(lines, 1))
    return "".join(both), functions


def _first_statement(function: AnyFunction) -> ast.stmt:
    """Return the first one behind the docstring, if there is one."""
    has_docstring = ast.get_docstring(function, clean=False) is not None
    return function.body[1 if has_docstring and len(function.body) > 1 else 0]


# -- the plugin


class _Recorder:
    def __init__(self, written_to: Path) -> None:
        self._written_to = written_to
        self._entered: set[int] = set()
        self._began_at = 0.0
        self._tests: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}
        setattr(builtins, _ENTERED, self._enter)

    def _enter(self, number: int) -> None:
        self._entered.add(number)

    def begin(self) -> None:
        self._entered = set()
        self._began_at = process_time()  # many tests have clocks of their own

    def end(self, test: str) -> None:
        self._seconds[test] = round(process_time() - self._began_at, 3)
        self._tests[test] = sorted(self._entered)

    def forget(self, test: str) -> None:
        self._tests.pop(test, None)

    def write(self) -> None:
        content = {"tests": self._tests, "seconds": self._seconds}
        self._written_to.write_text(json.dumps(content))


_recorders: list[_Recorder] = []  # one, where calls are written down


def pytest_configure() -> None:
    if VARIABLE in os.environ:
        _recorders.append(_Recorder(Path(os.environ[VARIABLE])))


def pytest_runtest_setup() -> None:
    for recorder in _recorders:
        recorder.begin()


def pytest_runtest_teardown(item: Any) -> None:
    for recorder in _recorders:
        recorder.end(item.nodeid)


def pytest_runtest_logreport(report: Any) -> None:
    for recorder in _recorders:
        if not report.passed:
            recorder.forget(report.nodeid)


def pytest_sessionfinish() -> None:
    for recorder in _recorders:
        recorder.write()
