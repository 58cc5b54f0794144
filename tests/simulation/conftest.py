"""The command line over the simulated cluster that a module calls `kafka`."""

from pathlib import Path

import pytest

from counterpoise.kafka_admin.simulated import SimulatedCluster
from tests.support.command_line import CommandLine


@pytest.fixture
def shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kafka: SimulatedCluster
) -> CommandLine:
    return CommandLine.in_folder(tmp_path, capsys)
