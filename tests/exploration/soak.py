"""Explores further than `make test`: two deviations of any kind, three preemptions of executors.

    python -m tests.exploration.soak [--scenario NAME] [--minutes M] [--sample-minutes M] [--seed N]

Each exploration is exhaustive, or broken off after so many minutes of the processor; then random
schedules of up to four preemptions and three faults follow (`sampling.py`). Prints schedules and
states explored, and each schedule that breaks a promise as a test to paste.
"""

import argparse
import random
import sys
from collections.abc import Iterator
from typing import Final

from tests.exploration.explorer import Found, explore
from tests.exploration.paths import Budget, Scenario
from tests.exploration.sampling import sample
from tests.exploration.scenarios import SCENARIOS, TWO_EXECUTORS

_BUDGETS: Final = (Budget(preemptions=2), Budget(preemptions=1, faults=1))
_A_FAULT: Final = Budget(faults=1)  # `make test` has it for scenarios without one of their own
_THREE: Final = Budget(preemptions=3)
_SAMPLED: Final = Budget(preemptions=4, faults=3)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    names = [scenario.name for scenario in SCENARIOS]
    parser.add_argument("--scenario", choices=names, help="only this one (default: all)")
    parser.add_argument("--minutes", type=float, default=30.0, help="for each exploration")
    parser.add_argument(
        "--sample-minutes", type=float, default=2.0, help="for random schedules of each scenario"
    )
    parser.add_argument("--seed", type=int, default=random.randrange(10_000))
    asked = parser.parse_args(arguments)
    sys.stdout.write(f"seed {asked.seed}\n")
    is_broken = False
    for scenario in SCENARIOS:
        if asked.scenario in (None, scenario.name):
            for found in _explorations(scenario, asked):
                sys.stdout.write(f"{found}\n{found.tests()}\n")
                sys.stdout.flush()
                is_broken = is_broken or bool(found.broken)
    return int(is_broken)


def _explorations(scenario: Scenario, asked: argparse.Namespace) -> Iterator[Found]:
    budgets = list(_BUDGETS)
    if scenario.has_fault:
        budgets.insert(0, _A_FAULT)
    if scenario is TWO_EXECUTORS:
        budgets.append(_THREE)
    for budget in budgets:
        yield explore(scenario, budget, max_seconds=60 * asked.minutes)
    yield sample(scenario, _SAMPLED, seed=asked.seed, max_seconds=60 * asked.sample_minutes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
