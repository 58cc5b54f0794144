"""On a large cluster an observation asks few brokers, and still asks each of them in time."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from counterpoise.model.kafka import (
    FOLLOWER_REPLICAS,
    BrokerVersion,
    ConfigResource,
    LogDirDescription,
)
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.run_progress import Condition
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.plans import move
from tests.support.runs import SimulatedRun, of_topic

BROKERS = 60
ASKED_AT_ONCE = 20
A_MINUTE = 60


class AskedBrokers:
    """The simulated cluster; it notes when which broker was asked."""

    def __init__(self, simulated: SimulatedCluster) -> None:
        self._cluster = simulated
        self.log_dirs: list[tuple[float, tuple[int, ...]]] = []
        self.versions: list[tuple[float, tuple[int, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def describe_log_dirs(self, broker_ids: Sequence[int]) -> tuple[LogDirDescription, ...]:
        self.log_dirs.append((self._cluster.now, tuple(broker_ids)))
        return self._cluster.describe_log_dirs(broker_ids)

    def describe_versions(self, broker_ids: Sequence[int]) -> Mapping[int, BrokerVersion]:
        self.versions.append((self._cluster.now, tuple(broker_ids)))
        return self._cluster.describe_versions(broker_ids)


def busy_run(folder: Path) -> SimulatedRun:
    """Return a run in which each broker sends one copy and receives another, for 400 s."""
    picture = "\n".join(f"orders-{p}: {p + 1} size=400000000" for p in range(BROKERS))
    racks = " ".join(str(broker_id) for broker_id in range(1, BROKERS + 1))
    moves = (
        move(f"orders-{p}", str(p + 1), str((p + 1) % BROKERS + 1), size=400_000_000)
        for p in range(BROKERS)
    )
    limits = MovementPolicy(max_moves_in_flight=BROKERS)
    return SimulatedRun.of_moves(folder, picture, *moves, racks=racks, limits=limits)


def longest_time_unasked(asked: list[tuple[float, tuple[int, ...]]], until: float) -> float:
    """Return the longest time in which some broker was not asked."""
    longest = 0.0
    for broker_id in range(1, BROKERS + 1):
        times = [*(now for now, asked_ids in asked if broker_id in asked_ids), until]
        longest = max(longest, *(later - earlier for earlier, later in pairwise(times)))
    return longest


def test_log_dirs_are_asked_in_rotation_and_each_within_a_minute(tmp_path: Path) -> None:
    run = busy_run(tmp_path)
    admin = AskedBrokers(run.cluster)
    driver = run.driver(admin)  # type: ignore[arg-type]
    run.until_moving(driver)
    driver.step()
    began = len(admin.log_dirs)
    until = run.cluster.now + 90
    for interval in (2, 15):
        while run.cluster.now < until:
            run.cluster.advance(interval)
            driver.step()
        until += 90
        rotation = admin.log_dirs[began:]
        assert longest_time_unasked(rotation, run.cluster.now) <= A_MINUTE
    assert max(len(asked) for _, asked in admin.log_dirs[began : began + 20]) == ASKED_AT_ONCE


def test_speed_and_progress_are_right_although_sizes_are_of_different_times(
    tmp_path: Path,
) -> None:
    run = busy_run(tmp_path)
    driver = run.driver()
    run.until_moving(driver)
    for _ in range(10):
        run.cluster.advance(2)
        driver.step()
    speeds = {link.bytes_per_second for link in run.run_progress().links}
    assert min(speeds) >= 0.95 * run.rate
    assert max(speeds) <= 1.05 * run.rate
    assert Condition.NO_PROGRESS not in run.run_progress().conditions


def test_versions_are_asked_at_open_in_rotation_and_when_a_broker_returns(tmp_path: Path) -> None:
    run = busy_run(tmp_path)
    admin = AskedBrokers(run.cluster)
    driver = run.driver(admin)  # type: ignore[arg-type]
    driver.open()
    assert admin.versions[0][1] == tuple(range(1, BROKERS + 1))
    run.until_moving(driver)
    admin.versions.clear()
    for _ in range(3):
        driver.step()
        run.cluster.advance(2)
    assert [len(asked) for _, asked in admin.versions] == [ASKED_AT_ONCE] * 3
    assert longest_time_unasked(admin.versions * 2, run.cluster.now) < A_MINUTE
    just_asked = admin.versions[-1][1][0]
    run.cluster.kill_broker(just_asked)
    driver.step()
    run.cluster.restart_broker(just_asked)
    admin.versions.clear()
    driver.step()
    assert just_asked in admin.versions[0][1]


class BehindOnce:
    """The simulated cluster; one read of configs comes from a broker that knows no list yet."""

    def __init__(self, simulated: SimulatedCluster) -> None:
        self._cluster = simulated
        self.is_behind = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def describe_configs(
        self, resources: Sequence[ConfigResource], keys: Sequence[str], **more: Any
    ) -> Any:
        found = self._cluster.describe_configs(resources, keys, **more)
        if self.is_behind and FOLLOWER_REPLICAS in keys:
            self.is_behind = False
            return {resource: {} for resource in found}
        return found


def test_a_stale_read_is_no_throttle_gap(tmp_path: Path) -> None:
    run = busy_run(tmp_path)
    admin = BehindOnce(run.cluster)
    driver = run.driver(admin)  # type: ignore[arg-type]
    run.until_moving(driver)
    run.cluster.advance(driver.step() or 0)
    before = run.cluster.configs.dynamic[of_topic("orders")]
    for _ in range(3):  # a second gap would cancel the run
        admin.is_behind = True
        run.cluster.advance(driver.step() or 0)
        assert not admin.is_behind
    assert run.run_progress().throttle_gaps == 0
    assert "throttle gap" not in run.event_kinds()
    assert run.cluster.configs.dynamic[of_topic("orders")] == before
