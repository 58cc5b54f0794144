"""What every suite shares: tests that a session leaves out are noted for the end of `make test`."""

import pytest

from tests.support.left_out import note_left_out


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and isinstance(report.longrepr, tuple):
        note_left_out(report.longrepr[2].removeprefix("Skipped: "))
