"""Every interleaving of each scenario within the bound of `make test`: a preemption, or a fault.

`make soak` goes further: `python -m tests.exploration.soak`.
"""

import pytest

from tests.exploration.explorer import explore
from tests.exploration.paths import Budget, Scenario, replay
from tests.exploration.scenarios import SCENARIOS


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_without_a_deviation_every_promise_holds(scenario: Scenario) -> None:
    replay(scenario)


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(
    "budget",
    [
        pytest.param(Budget(preemptions=1), id="a preemption"),
        pytest.param(Budget(faults=1), id="a fault"),
    ],
)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_no_schedule_within_the_bound_breaks_a_promise(scenario: Scenario, budget: Budget) -> None:
    found = explore(scenario, budget)
    print(found)  # noqa: T201 - `pytest -s` shows schedules, states, seconds
    assert not found.broken, found.tests()
