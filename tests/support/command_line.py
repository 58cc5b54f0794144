"""The command line as a person types it: in this process, with exit code and output."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from counterpoise import installation
from counterpoise.cli import common, repeating
from counterpoise.cli.main import main
from tests.simulated_kafka.cluster import SimulatedCluster


@contextmanager
def typed_by(user: str) -> Iterator[None]:
    """Let the operating system say that this user types."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(common, "system_user_name", lambda: user)
        yield


def let_commands_reach(kafka: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connect every command to this cluster; whoever waits makes the cluster's time pass."""
    monkeypatch.setattr(installation, "connect_by_discovery", lambda _: kafka)
    monkeypatch.setattr(
        installation, "cluster_id_at", lambda _: kafka.describe_cluster().cluster_id
    )
    monkeypatch.setattr(repeating, "sleep", kafka.advance)


@contextmanager
def interrupted_while_moving(kafka: SimulatedCluster) -> Iterator[None]:
    """Let a person type Ctrl-C as soon as a command waits while something moves."""

    def advance_or_stop(seconds: float) -> None:
        if kafka.list_reassignments():
            raise KeyboardInterrupt
        kafka.advance(seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repeating, "sleep", advance_or_stop)
        yield


@dataclass(frozen=True)
class Typed:
    code: int
    out: str
    err: str


@dataclass
class CommandLine:
    """`environment` is what the commands see besides what is there; nothing of the person's own
    settings leaks in.
    """

    folder: Path
    capture: pytest.CaptureFixture[str]
    environment: dict[str, str]
    user: str = "tester"  # of the operating system, who types where a test names nobody else

    @classmethod
    def in_folder(cls, folder: Path, capture: pytest.CaptureFixture[str]) -> "CommandLine":
        environment = {
            "COUNTERPOISE_CONFIG": str(folder / "clusters.yaml"),
            "COUNTERPOISE_CONNECTIONS": str(folder / "connections.yaml"),
            "COUNTERPOISE_STORE": str(folder / "store"),
            "COUNTERPOISE_LEDGER": f"sqlite:///{folder / 'ledger.db'}",
        }
        return cls(folder, capture, environment)

    def configure(self, bootstrap: str, *, cluster: str = "demo", extra: str = "") -> None:
        (self.folder / "clusters.yaml").write_text(
            f"clusters:\n  {cluster}:\n    connection: kafka\n{extra}"
        )
        (self.folder / "connections.yaml").write_text(
            f'kafka: {{bootstrap.servers: "{bootstrap}"}}\n'
        )

    def type(self, *words: str | Path, user: str = "") -> Typed:
        self.capture.readouterr()
        with self._environment(), typed_by(user or self.user):
            try:
                code = main([str(word) for word in words])
            except SystemExit as usage:  # argparse's own way to end
                code = int(usage.code or 0)
        captured = self.capture.readouterr()
        return Typed(code, captured.out, captured.err)

    @contextmanager
    def _environment(self) -> Iterator[None]:
        before = dict(os.environ)
        os.environ.update(self.environment)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)
