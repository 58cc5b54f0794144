"""Workers of an earlier day's version and of the present one carry out the same run.

On real brokers, one after the other and at the same time. `tests/upgrades` has the old version.
"""

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

import counterpoise
from dev.local_kafka import LocalKafka
from dev.local_processes import Process, run, start, wait_until
from tests.support.faults import Ground
from tests.support.kafka_facts import (
    ON_A_SHARED_DISK,
    configs,
    is_copying,
    ongoing_reassignments,
    placement,
    times_added,
)
from tests.upgrades.frozen import DAYS, old_command

SLOW: Final = "20kB/s"  # what is in flight stays so
FAST: Final = "5MB/s"  # and ends at once
SECONDS: Final = 120.0
BY_ALICE: Final = ("--by", "alice")


@dataclass(frozen=True)
class Installation:
    """Settings, ledger and store that both versions use."""

    folder: Path
    kafka: LocalKafka

    @classmethod
    def made(cls, folder: Path, kafka: LocalKafka) -> "Installation":
        policy = f"{{{ON_A_SHARED_DISK}, movement: {{max_moves_in_flight: 2}}}}"
        settings = f"clusters:\n  demo:\n    connection: kafka\n    policy: {policy}\n"
        (folder / "clusters.yaml").write_text(settings)
        connection = f'kafka: {{bootstrap.servers: "{kafka.bootstrap_string}"}}\n'
        (folder / "connections.yaml").write_text(connection)
        return cls(folder, kafka)

    @property
    def plan(self) -> Path:
        return self.folder / "plan.json"

    def environment(self, *, is_old: bool) -> dict[str, str]:
        old = DAYS[0].environment(self.folder)
        present = Path(counterpoise.__file__).parents[1]
        return old if is_old else old | {"PYTHONPATH": str(present)}

    def type(self, *words: str | Path, is_old: bool = False) -> "subprocess.CompletedProcess[str]":
        """Run one command of either version to its end; it has to succeed."""
        environment = self.environment(is_old=is_old)
        command = old_command(*words)
        ended = run(command, name=str(words[0]), timeout_seconds=SECONDS, env=environment)
        assert ended.returncode == 0, ended.stderr
        return ended

    @contextmanager
    def executing(self, *, is_old: bool) -> Iterator[Process]:
        """Execute the plan in a process of its own, which ends with this block at the latest."""
        name = "old" if is_old else "present"
        process = start(
            old_command("execute", self.plan),
            log_path=self.folder / f"{name}.log",
            name=name,
            env=self.environment(is_old=is_old),
        )
        try:
            yield process
        finally:
            process.stop(grace_seconds=0)

    def approve_with_the_old_version(self) -> None:
        """Plan and approve, at a rate that leaves time."""
        words = ["--cluster", "demo", "--goal", "add-brokers", "--brokers", "4"]
        self.type("plan", *words, "--out", self.plan, is_old=True)
        words = ["--rate", SLOW, "--reason", "broker 4 joined", *BY_ALICE]
        self.type("approve", self.plan, *words, is_old=True)

    def hurry(self) -> None:
        """Ask for a rate at which everything ends soon."""
        self.type("rate", self.plan, FAST, "--why", "test", *BY_ALICE)

    def wait_for_moves(self, *processes: Process) -> None:
        wait_until(lambda: is_copying(self.kafka, 3), "moves in flight", SECONDS, processes)

    def check_ended(self, before: list[str]) -> None:
        """Check that the run is done, as planned, and that configs are as before."""
        status = json.loads(self.type("status", self.plan, "--json").stdout)
        assert status["state"] == "done", status
        assert status["moves_done"] == status["moves_submitted"] > 0
        self.type("verify", self.plan)
        moves = json.loads(self.plan.read_text())["moves"]
        replicas = {name: found for name, (found, _) in placement(self.kafka).items()}
        for move in moves:
            wanted = tuple(move["replicas_after"])
            assert replicas[f"{move['topic']}-{move['partition']}"] == wanted
        assert configs(self.kafka) == before
        assert not ongoing_reassignments(self.kafka)
        assert set(times_added(self.kafka, 4).values()) == {1}, "no partition was moved twice"


@pytest.fixture
def installation(tmp_path: Path, kafka: LocalKafka) -> Installation:
    return Installation.made(tmp_path, kafka)


def create_topic(installation: Installation, name: str) -> list[str]:
    """Make a topic of which broker 4 has nothing; the configs of the cluster then."""
    ground = Ground(installation.kafka, installation.folder)
    ground.create_topic(name, [(1, 2, 3)] * 6)
    return configs(installation.kafka)


def test_the_present_version_finishes_what_a_killed_worker_of_the_old_one_began(
    installation: Installation,
) -> None:
    before = create_topic(installation, "orders")
    installation.approve_with_the_old_version()
    with installation.executing(is_old=True) as old:
        installation.wait_for_moves(old)
        old.kill()
    assert configs(installation.kafka) != before, "what a killed worker leaves behind"
    installation.hurry()
    installation.type("execute", installation.plan)
    installation.check_ended(before)


def test_workers_of_both_versions_execute_one_run_at_the_same_time(
    installation: Installation,
) -> None:
    """The step lock lets one act at a time; both see the end."""
    before = create_topic(installation, "stores")
    installation.approve_with_the_old_version()
    present_log = installation.folder / "present.log"
    with installation.executing(is_old=True) as old:
        installation.wait_for_moves(old)
        with installation.executing(is_old=False) as present:
            wait_until(
                lambda: "in flight" in present_log.read_text(),
                "both to look",
                SECONDS,
                [old, present],
            )
            installation.hurry()
            with ThreadPoolExecutor(2) as pool:
                codes = list(pool.map(lambda process: process.wait(SECONDS), (old, present)))
    logs = [(installation.folder / f"{name}.log").read_text() for name in ("old", "present")]
    assert codes == [0, 0], "\n".join(logs)
    installation.check_ended(before)
