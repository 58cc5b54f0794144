"""Does each defect of the list fail a test? (`make mutants`)

    python -m tests.mutants.run                  # each mutant with the tests that its file names
    python -m tests.mutants.run p03 p04_stop     # those whose names begin so
    python -m tests.mutants.run --all            # with all tests in memory that enter its file
    python -m tests.mutants.run --root FOLDER    # of another work tree

First the tests run without a defect: they have to pass. Exits 1 where a mutant survives, or does
not apply. The work tree is not changed.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Final

from tests.mutants.copied_tree import CopiedTree, Outcome, copied_tree
from tests.mutants.covering import Calls, find_calls
from tests.mutants.mutant import ROOT, Mutant, read_mutants

KILLED: Final = "killed"
_SURVIVED: Final = "survived"
_DOES_NOT_APPLY: Final = "does not apply"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="how names of mutants begin; by default all")
    parser.add_argument("--all", action="store_true", help="all tests in memory that enter it")
    parser.add_argument("--root", type=Path, default=ROOT, help="the work tree")
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    mutants = read_mutants(options.names, root / "tests" / "mutants")
    with copied_tree(root) as tree:
        if not _pass_without_a_defect(tree, mutants):
            return 2
        calls = find_calls(tree, {m.file for m in mutants}) if options.all else None
        states: Counter[str] = Counter()
        for number, mutant in enumerate(mutants, 1):
            state, how = _try(tree, mutant, calls)
            states[state] += 1
            _say(f"{number:3} of {len(mutants)}  {state:14} {mutant.name}  {how}")
    _say(f"{states[KILLED]} of {len(mutants)} mutants killed")
    return 0 if states[KILLED] == len(mutants) else 1


def _pass_without_a_defect(tree: CopiedTree, mutants: tuple[Mutant, ...]) -> bool:
    applying = [mutant for mutant in mutants if not mutant.complaint(tree.root)]
    tests = sorted({test for mutant in applying for test in mutant.killed_by})
    if not tests:
        return True
    outcome = tree.run(tests)
    _say(f"without a defect: {len(tests)} tests, {outcome.seconds:.0f} s")
    if not outcome.passed:
        _say(f"they do not pass:\n{outcome.last_lines}")
    return outcome.passed


def _try(tree: CopiedTree, mutant: Mutant, calls: Calls | None) -> tuple[str, str]:
    """Return what became of a mutant, and how."""
    if complaint := mutant.complaint(tree.root):
        return _DOES_NOT_APPLY, complaint
    tests = mutant.killed_by if calls is None else (*mutant.killed_by, *calls.entering(mutant.file))
    text = mutant.mutated((tree.root / mutant.file).read_text())
    with tree.changed(mutant.file, text):
        outcome = tree.run(list(dict.fromkeys(tests)))
    return state_of(outcome), f"{outcome.seconds:.0f} s  {_how(outcome)}"


def state_of(outcome: Outcome) -> str:
    if outcome.passed:
        return _SURVIVED
    return KILLED if outcome.failed else _DOES_NOT_APPLY


def _how(outcome: Outcome) -> str:
    if outcome.passed or outcome.failed:
        return outcome.first_failure
    return f"pytest could not run the tests:\n{outcome.last_lines}"


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - a progress line each


if __name__ == "__main__":
    sys.exit(main())
