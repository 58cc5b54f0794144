"""Whether a simulated month leaves behind what it should, and stays as large as it was.

    problems = list(differences(month))     # of files and rows in the store, and of the ledger
    for check in month_checks(days, problems): print(check)

What it should is computed by `store_model.py` and `ledger_model.py` from what happened.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

from benchmarks.ledger_model import ledger_model
from benchmarks.ledger_size import ledger_rows
from benchmarks.simulated_month import KEEP_LEDGER, PRUNE_EVERY_DAYS, Day, Month
from benchmarks.store_contents import differing, expected_contents, found_contents
from benchmarks.store_model import StoreModel
from benchmarks.targets import Check

MAX_GROWTH: Final = 1.1
MAX_DATABASE_GROWTH: Final = 1.2
_DAY: Final = timedelta(days=1)


def differences(month: Month) -> Iterator[str]:
    """Yield what of store and ledger is not as the events of the month have it."""
    model = StoreModel(month.fleet)
    for event in month.events:
        model.add(event)
    yield from differing(found_contents(month.store_folder), expected_contents(model))
    found, expected = ledger_rows(month.database), ledger_model(month.fleet, month.events)
    for table in sorted({*found, *expected}):
        has, should_have = found.get(table, 0), expected.get(table, 0)
        if has != should_have:
            yield f"ledger: {has} rows of {table}, expected {should_have}"


def month_checks(days: Sequence[Day], problems: Sequence[str]) -> list[Check]:
    """Hold a month against its targets: memory and ledger flat, history as computed.

    Flat: the last third of the days beside the second, since caches and retention fill first. The
    ledger of a month so short that nothing is pruned in the second third has to grow.
    """
    third = max(1, len(days) // 3)
    second, last = days[third : 2 * third], days[2 * third :]
    memory = _growth([day.rss_bytes for day in second], [day.rss_bytes for day in last])
    is_full = second[-1].number >= (KEEP_LEDGER // _DAY) + PRUNE_EVERY_DAYS
    return [
        Check(
            memory <= MAX_GROWTH,
            f"memory of the last third of the days {memory:.3f} of that of the second "
            f"(at most {MAX_GROWTH})",
        ),
        *([_database_check(second, last)] if is_full else []),
        Check(
            not problems,
            f"{len(problems)} differences from files and rows as computed (0)"
            + "".join(f"\n  {problem}" for problem in problems[:10]),
        ),
    ]


def _database_check(second: Sequence[Day], last: Sequence[Day]) -> Check:
    growth = _growth([day.database_bytes for day in second], [day.database_bytes for day in last])
    return Check(
        growth <= MAX_DATABASE_GROWTH,
        f"the ledger's files {growth:.3f} (at most {MAX_DATABASE_GROWTH})",
    )


def _growth(before: Sequence[int], after: Sequence[int]) -> float:
    return max(after) / max(before)
