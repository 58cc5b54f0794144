"""What every suite shares: tests that a session leaves out are noted for the end of `make test`;
what would take the processor in each test is done once; a failing test leaves no process behind.
"""

import gc
from collections.abc import Iterator

import pytest

from tests.support.left_out import note_left_out
from tests.support.leftover_processes import children, end_leftovers


def pytest_collection_finish() -> None:
    """Leave modules and tests, which stay until the end, out of every collection of garbage."""
    gc.collect()
    gc.freeze()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and isinstance(report.longrepr, tuple):
        note_left_out(report.longrepr[2].removeprefix("Skipped: "))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    before = children()
    try:
        yield
    except BaseException:
        end_leftovers(before)
        raise


@pytest.fixture(scope="session", autouse=True)
def new_ledgers() -> Iterator[None]:
    """Make the tables of new ledgers as migrations made those of the first one."""
    from tests.support.new_ledgers import quick_new_ledgers

    with quick_new_ledgers():
        yield
