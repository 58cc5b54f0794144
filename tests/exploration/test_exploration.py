"""Every interleaving of each scenario within the bound of `make test`: a preemption, or a fault.

`make soak` goes further: `python -m tests.exploration.soak`.
"""

from typing import Final

import pytest

from tests.exploration.explorer import explore
from tests.exploration.paths import Budget, Scenario, replay
from tests.exploration.sampling import sample
from tests.exploration.scenarios import (
    EXECUTOR_AND_A_STUCK_FOREIGN_REASSIGNMENT,
    EXECUTOR_AND_CANCEL,
    EXECUTOR_AND_FOREIGN_REASSIGNMENT,
    SCENARIOS,
    TWO_WATCHES,
)

A_PREEMPTION: Final = Budget(preemptions=1)
A_FAULT: Final = Budget(faults=1)
BOTH: Final = Budget(preemptions=1, faults=1)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_without_a_deviation_every_promise_holds(scenario: Scenario) -> None:
    replay(scenario)


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(
    ("scenario", "budget"),
    [
        pytest.param(scenario, budget, id=f"{scenario.name}, {budget}")
        for scenario in SCENARIOS
        for budget in ((A_PREEMPTION,) if scenario.has_fault else (A_PREEMPTION, A_FAULT))
    ],
)
def test_no_schedule_within_the_bound_breaks_a_promise(scenario: Scenario, budget: Budget) -> None:
    found = explore(scenario, budget)
    print(found)  # noqa: T201 - `pytest -s` shows schedules, states, seconds
    assert not found.broken, found.tests()


@pytest.mark.parametrize(
    ("scenario", "budget", "left_out"),
    [
        (EXECUTOR_AND_CANCEL, A_PREEMPTION, ["left out"]),
        (EXECUTOR_AND_FOREIGN_REASSIGNMENT, A_FAULT, ["followed once while frozen"]),
        (TWO_WATCHES, BOTH, ["left out", "followed once while frozen"]),
    ],
    ids=["preemptions", "what others do while a process is frozen", "both"],
)
def test_what_is_left_out_leads_to_no_other_end(
    scenario: Scenario, budget: Budget, left_out: list[str]
) -> None:
    found = explore(scenario, budget)
    everything = explore(scenario, budget, leaves_out=False)

    print(found, everything, sep="\n")  # noqa: T201 - `pytest -s` shows what is spared
    assert all(found.figures[what] for what in left_out)
    assert found.ends == everything.ends
    assert found.broken.keys() == everything.broken.keys()


def test_a_seed_tells_its_random_schedules_again() -> None:
    scenario, budget = EXECUTOR_AND_A_STUCK_FOREIGN_REASSIGNMENT, Budget(preemptions=2, faults=1)

    first, second = (sample(scenario, budget, seed=3, walks=4) for _ in range(2))

    assert not first.broken, first.tests()
    assert first.figures == second.figures
    assert first.ends == second.ends
