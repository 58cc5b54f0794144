"""The command line over a simulated cluster: this one, or what a module calls `kafka` itself."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from counterpoise.ledger import Ledger
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.command_line import CommandLine, let_commands_reach
from tests.support.pictures import ON_TWO_BROKERS, simulated


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    """Broker 3 has just joined. Whoever waits makes the cluster's time pass."""
    made = simulated(ON_TWO_BROKERS, racks="1=a 2=b 3=c")
    let_commands_reach(made, monkeypatch)
    return made


@pytest.fixture
def shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kafka: SimulatedCluster
) -> CommandLine:
    made = CommandLine.in_folder(tmp_path, capsys)
    made.configure("simulated:9092")
    return made


@pytest.fixture
def ledger(shell: CommandLine) -> Iterator[Ledger]:
    """The ledger of the commands, for another process."""
    url = shell.environment["COUNTERPOISE_LEDGER"]
    with closing(Ledger.open(url, lambda: datetime.now(UTC))) as opened:
        yield opened
