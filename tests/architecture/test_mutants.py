"""The list of mutants fits the code: each applies, its tests are there, no promise is without."""

from dataclasses import replace

import pytest

from counterpoise.validation import RULES
from tests.mutants.mutant import Mutant, read_mutants

MUTANTS = read_mutants()
PROMISES = range(1, 12)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_applies_and_its_tests_are_there(mutant: Mutant) -> None:
    assert mutant.complaint() == ""


def test_every_promise_and_every_rule_of_validation_has_a_mutant() -> None:
    assert {mutant.promise for mutant in MUTANTS} == {None, *PROMISES}
    clauses = {mutant.clause for mutant in MUTANTS if mutant.promise is None}
    assert clauses == {f"validation: {rule.__name__}" for rule in RULES}


def test_what_does_not_fit_is_said() -> None:
    sound = MUTANTS[0]
    assert "there is no nowhere.py" in replace(sound, file="nowhere.py").complaint()
    assert "occurs 0 times" in replace(sound, before="what stands nowhere").complaint()
    assert "killed_by" in replace(sound, killed_by=()).complaint()
    test = "tests/architecture/test_mutants.py::test_of_nothing"
    assert replace(sound, killed_by=(test,)).complaint().endswith("defines no test_of_nothing")
