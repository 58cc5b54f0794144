"""Which scenarios are explored: all of them, or in `make test` a third, another one each day.

COUNTERPOISE_SCENARIOS=third    # by the day of the year; the session prints which third it is
COUNTERPOISE_SCENARIOS=2        # that third, whatever day it is

Tests of one schedule, and those that find a defect put back, are never left out.
"""

import os
from datetime import UTC, datetime
from typing import Final

import pytest

from tests.exploration.scenarios import SCENARIOS, TWO_WATCHES

VARIABLE: Final = "COUNTERPOISE_SCENARIOS"
THIRDS: Final = 3
_ALL: Final = (*SCENARIOS, TWO_WATCHES)


def chosen_third() -> int | None:
    """Return which third is explored, from 1 on; None where all scenarios are."""
    named = os.environ.get(VARIABLE, "all")
    if named == "all":
        return None
    if named == "third":
        return datetime.now(UTC).timetuple().tm_yday % THIRDS + 1
    if named in map(str, range(1, THIRDS + 1)):
        return int(named)
    raise pytest.UsageError(f"{VARIABLE}={named}: write all, third, or a number from 1 to {THIRDS}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    third = chosen_third()
    if third is None:
        return
    left_out = [item for item in items if _third_of(item) not in (None, third)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def pytest_report_collectionfinish() -> str:
    third = chosen_third()
    return f"explored: third {third} of {THIRDS} ({VARIABLE}={third})" if third else "explored: all"


def _third_of(item: pytest.Item) -> int | None:
    """Return the third that a test belongs to; None where it always runs."""
    parameters = getattr(item, "callspec", None)
    if parameters is None or "budget" not in parameters.params:
        return None
    return _ALL.index(parameters.params["scenario"]) % THIRDS + 1
