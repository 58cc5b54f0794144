"""Every test that takes `day` or `present` is run on each frozen day."""

from pathlib import Path

import pytest

from tests.upgrades.current import Present
from tests.upgrades.frozen import DAYS, FrozenDay


@pytest.fixture(params=DAYS, ids=str)
def day(request: pytest.FixtureRequest) -> FrozenDay:
    frozen: FrozenDay = request.param
    return frozen


@pytest.fixture
def present(day: FrozenDay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Present:
    return Present.opened(day, tmp_path, monkeypatch)
