"""The lock of a cluster's steps: it is that of a process that lives, and ends by itself."""

import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from counterpoise.errors import StepLockHeldError
from counterpoise.ledger import Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with closing(Ledger.open(url, lambda: datetime.now(UTC))) as opened:
        yield opened


def end_after(ledger: Ledger, seconds: int) -> None:
    """Let every step lock end so many seconds from now, by the database's clock."""
    with ledger._transactions.writing() as connection:
        until = {"until": int(time.time()) + seconds}
        connection.execute(sa.text("UPDATE step_locks SET until = :until"), until)


def test_a_lock_holds_until_its_time_is_over(ledger: Ledger) -> None:
    with ledger.step("demo"):
        end_after(ledger, 10)
        with pytest.raises(StepLockHeldError), ledger.step("demo"):
            pass
        end_after(ledger, -1)  # as that of a process that was killed
        with ledger.step("demo"):
            pass
