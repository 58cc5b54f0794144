"""Moves that the cluster does not let end: they keep their throttle while they are in flight."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from counterpoise.errors import HaltedError
from counterpoise.installation import Installation
from counterpoise.model.kafka import FOLLOWER_RATE, LEADER_RATE
from counterpoise.model.run import RunState
from counterpoise.services import execution, watch
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.simulation.test_what_earlier_runs_left import approved, run_of, until_moving
from tests.support.installations import installation_over
from tests.support.pictures import simulated
from tests.support.runs import clock_of, own_configs

CLUSTERS = """
clusters:
  demo:
    connection: reader
    operator_connection: operator
    policy: {movement: {dead_broker_patience: 60s}}
"""


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    picture = "orders-0: 1 size=30000000\norders-1: 2 size=30000000\norders-2: 1 size=30000000"
    kafka = simulated(picture, racks="1=a 2=b 3=c")
    monkeypatch.setattr(time, "sleep", kafka.advance)
    return kafka


@pytest.fixture
def installation(tmp_path: Path, kafka: SimulatedCluster) -> Iterator[Installation]:
    with installation_over(
        tmp_path, lambda _: kafka, clusters=CLUSTERS, clock=clock_of(kafka)
    ) as installation:
        yield installation


def test_a_single_replica_whose_broker_dies_is_copied_under_its_throttle_when_it_returns(
    installation: Installation, kafka: SimulatedCluster
) -> None:
    """Kafka refuses to cancel: that would leave the partition without a replica in sync."""
    run = approved(installation)
    execution.open_run(installation, *run_of(run))
    until_moving(installation, kafka, run)
    kafka.kill_broker(1)
    with pytest.raises(HaltedError):
        while (wait := execution.execute_step(installation, *run_of(run), print)) is not None:
            kafka.advance(max(wait, 10))
    while (wait := execution.settle_step(installation, run["run_id"], print)) is not None:
        kafka.advance(max(wait, 10))
    ended = installation.ledger.run(run["run_id"])
    assert ended.state is RunState.HALTED and "still in flight" in ended.reason
    watch.watch_throttles(installation, "demo", print)
    assert kafka.list_reassignments()
    kafka.restart_broker(1)
    rates = {key for values in own_configs(kafka).values() for key in values}
    assert {LEADER_RATE, FOLLOWER_RATE} <= rates
    for _ in range(3):
        kafka.advance(60)
        watch.watch_throttles(installation, "demo", print)
    assert not kafka.list_reassignments()
    assert own_configs(kafka) == {}
