"""Explores further than `make test`: two deviations of any kind, three preemptions of executors.

    python -m tests.exploration.soak [--scenario NAME] [--minutes M]

Prints schedules and states explored, and each schedule that breaks a promise as a test to paste.
"""

import argparse
import sys
from typing import Final

from tests.exploration.explorer import explore
from tests.exploration.paths import Budget
from tests.exploration.scenarios import SCENARIOS, TWO_EXECUTORS_AND_A_WATCH

_BUDGETS: Final = (Budget(preemptions=2), Budget(preemptions=1, faults=1))
_THREE: Final = Budget(preemptions=3)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", choices=[scenario.name for scenario in SCENARIOS])
    parser.add_argument("--minutes", type=float, default=float("inf"), help="for each exploration")
    asked = parser.parse_args(arguments)
    is_broken = False
    for scenario in SCENARIOS:
        if asked.scenario not in (None, scenario.name):
            continue
        three = (_THREE,) if scenario is TWO_EXECUTORS_AND_A_WATCH else ()
        for budget in (*_BUDGETS, *three):
            found = explore(scenario, budget, max_seconds=60 * asked.minutes)
            sys.stdout.write(f"{found}\n{found.tests()}\n")
            sys.stdout.flush()
            is_broken = is_broken or bool(found.broken)
    return int(is_broken)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
