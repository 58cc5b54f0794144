"""What one observation of a large run costs: CPU seconds of our own, requests, rows of the ledger.

    .venv/bin/python benchmarks/observing.py [--moves 60000] [--profile]

60,000 moves of 600 topics on 200 simulated brokers, a third of them done. An *ordinary* observation
finds 500 moves in flight, a *submitting* one has room for the next batch. The CPU seconds are those
of a whole step of the driver (observe, decide, act), without those spent in the simulated cluster.
Requests are those that the real client would send: one to each broker named, one for 2,000 topics.
Exit code 1 when a target is missed.
"""

import argparse
import cProfile
import gc
import pstats
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path
from typing import Any, Final

if __name__ == "__main__":
    # A script's own folder is there, the project's is not.
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import sqlalchemy as sa

from counterpoise.execution import Driver, ExecutionOptions
from counterpoise.ledger import Ledger
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.kafka import ConfigResourceType
from counterpoise.model.plan import LowerBound, Move, RebalancePlan
from counterpoise.model.policy import BalancePolicy, MovementPolicy
from counterpoise.model.request import Goal
from counterpoise.model.run import RunState
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.simulated_kafka.partition import SimulatedPartition
from tests.simulated_kafka.world import SimulatedBroker
from tests.support.ledger_view import change_state, record_as_arrived

BROKERS: Final = 200
TOPICS: Final = 600
MAX_CPU_SECONDS: Final = {"ordinary": 1.0, "submitting": 2.0}
_SIZE_BYTES: Final = 1_000_000_000
_RATE: Final = 20_000_000
_TOPICS_PER_REQUEST: Final = 2_000
_START: Final = datetime(2026, 1, 31, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Cost:
    """What one step of the driver costs."""

    kind: str  # "ordinary", "submitting" or "other"
    cpu_seconds: float
    requests: int
    rows: int


class CountingCluster:
    """A simulated cluster that counts the requests to it and the CPU seconds spent in it."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.requests: Counter[str] = Counter()
        self.cpu_seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.cluster, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            began = time.thread_time()
            try:
                return call(*args, **kwargs)
            finally:
                self.cpu_seconds += time.thread_time() - began
                self.requests[name] += _count_requests(args)

        return counted


def _count_requests(args: tuple[Any, ...]) -> int:
    if not args or not isinstance(args[0], (list, tuple, set, frozenset)):
        return 1
    brokers = sum(isinstance(subject, int) or _is_broker(subject) for subject in args[0])
    return brokers + ceil((len(args[0]) - brokers) / _TOPICS_PER_REQUEST)


def _is_broker(subject: object) -> bool:
    return getattr(subject, "type", None) is ConfigResourceType.BROKER


def large_plan(move_count: int) -> RebalancePlan:
    """Return a plan in which every partition changes one replica."""
    partitions_per_topic = move_count // TOPICS
    return RebalancePlan(
        cluster="large",
        cluster_id="large",
        snapshot_id="s",
        goal=Goal.REBALANCE,
        broker_ids=(),
        policy_digest=BalancePolicy().digest,
        moves=tuple(
            _move(topic, partition, topic * partitions_per_topic + partition)
            for topic in range(TOPICS)
            for partition in range(partitions_per_topic)
        ),
        figures=(),
        lower_bound=LowerBound(0, 0, 0),
        reason="",
    )


def _move(topic: int, partition: int, number: int) -> Move:
    before = tuple(1 + (number + step) % BROKERS for step in (0, 61, 127))
    after = (*before[:2], 1 + (number + 31) % BROKERS)
    name = f"topic-{topic:03d}"
    return Move(name, partition, f"id-of-{name}", before, after, before[0], _SIZE_BYTES)


def large_cluster(plan: RebalancePlan, done_count: int) -> SimulatedCluster:
    """Return the cluster of the plan, of which the first moves are done."""
    cluster = SimulatedCluster(cluster_id="large")
    for broker_id in range(1, BROKERS + 1):
        cluster.brokers[broker_id] = SimulatedBroker("abc"[broker_id % 3])
    for number, move in enumerate(plan.moves):
        replicas = move.replicas_after if number < done_count else move.replicas_before
        cluster.topic_ids[move.topic] = move.topic_id
        cluster.partitions[move.topic_partition] = SimulatedPartition(
            replicas, set(replicas), replicas[0], float(move.size_bytes)
        )
    return cluster


@contextmanager
def running_driver(
    admin: CountingCluster, plan: RebalancePlan, done_count: int
) -> Iterator[tuple[Driver, Ledger]]:
    """Yield the driver of a run whose first moves are done."""

    def clock() -> datetime:
        return _START + timedelta(seconds=admin.cluster.now)

    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.open(f"sqlite:///{Path(folder) / 'ledger.db'}", clock)
        try:
            run_id = ledger.propose(plan, "", requested_by="benchmark").run_id
            until = clock() + timedelta(days=1)
            granted = Decision.GRANTED
            ledger.record_decision(
                Approval(run_id, plan.fingerprint, granted, "benchmark", "", clock(), _RATE, until)
            )
            change_state(ledger, run_id, RunState.RUNNING)
            record_as_arrived(ledger, run_id, plan.moves[:done_count], clock())
            options = ExecutionOptions(run_id, plan, _RATE, MovementPolicy())
            yield Driver(admin, ledger, options, clock, lambda _: None), ledger  # type: ignore[arg-type]
        finally:
            ledger.close()


def costs(move_count: int, profile: cProfile.Profile | None = None) -> list[Cost]:
    """Return the cost of each step of a run, until it has submitted twice and waited twice."""
    plan = large_plan(move_count)
    done_count = move_count // 3
    admin = CountingCluster(large_cluster(plan, done_count))
    gc.collect()
    gc.freeze()  # a real cluster is no part of this process
    found: list[Cost] = []
    with running_driver(admin, plan, done_count) as (driver, ledger), _rows_read(ledger) as rows:
        while min(Counter(cost.kind for cost in found)[kind] for kind in MAX_CPU_SECONDS) < 2:
            found.append(_cost_of_step(driver, admin, rows, profile))
            if found[-1].kind == "ordinary":
                finish_moves(admin.cluster, 100)
            admin.cluster.now += 2.0
    return found


def finish_moves(cluster: SimulatedCluster, count: int) -> None:
    """Complete some of the moves in flight, so that there is room for others."""
    for key in sorted(cluster.list_reassignments())[:count]:
        partition = cluster.partitions[key]
        partition.isr = set(partition.replicas)
        cluster.complete_if_ready(partition)


def _cost_of_step(
    driver: Driver, admin: CountingCluster, rows: list[int], profile: cProfile.Profile | None
) -> Cost:
    admin.requests.clear()
    admin.cpu_seconds, rows[0] = 0.0, 0
    began = time.process_time()
    if profile:
        profile.enable()
    driver.step()
    if profile:
        profile.disable()
    cpu_seconds = time.process_time() - began - admin.cpu_seconds
    kind = "submitting" if admin.requests["alter_reassignments"] else "ordinary"
    if admin.requests["alter_configs"]:
        kind = "setting throttles"
    return Cost(kind, cpu_seconds, admin.requests.total(), rows[0])


@contextmanager
def _rows_read(ledger: Ledger) -> Iterator[list[int]]:
    """Yield the number of rows that were read from the ledger, to be set to 0."""
    count = [0]

    def counted(_cursor: sqlite3.Cursor, row: tuple[object, ...]) -> tuple[object, ...]:
        count[0] += 1
        return row

    @sa.event.listens_for(ledger._engine, "connect")
    def count_rows(connection: Any, _record: Any) -> None:
        connection.row_factory = counted

    ledger._engine.dispose()
    yield count


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moves", type=int, default=60_000)
    parser.add_argument("--profile", action="store_true", help="also print where the time goes")
    arguments = parser.parse_args(argv)
    profile = cProfile.Profile() if arguments.profile else None
    is_met = True
    for cost in costs(arguments.moves, profile):
        limit = MAX_CPU_SECONDS.get(cost.kind)
        is_met &= limit is None or cost.cpu_seconds <= limit
        target = f" (at most {limit:g})" if limit else ""
        print(
            f"{cost.kind:18} {cost.cpu_seconds:6.2f} CPU s{target}, {cost.requests:5,} requests, "
            f"{cost.rows:7,} rows",
            flush=True,
        )
    if profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(40)
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
