"""What a run adds on a wide cluster: 68 simulated brokers, each call 50 ms, 20 side by side, one
broker timing out.

    overhead = measure_overhead()
    overhead.before_seconds, overhead.after_seconds

Copying costs nothing here: the cluster's own clock stands still while calls are waited for, and is
wound on in between. Before the first byte one broker of the plan is silent all the time; after the
last one, a broker that the plan leaves alone: a key that is set on a broker that does not respond
is restored when it does. As with real brokers, one that let a deadline pass is not asked again for
10 s.
"""

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from counterpoise.execution import Driver, ExecutionOptions, decide
from counterpoise.kafka_admin.broker_client import UNRESPONSIVE_AFTER_SECONDS
from counterpoise.ledger import Ledger
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.document import from_document_text
from counterpoise.model.kafka import EVERY_BROKER, ConfigResourceType
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.provider import MAX_PARTITIONS_PER_CALL
from counterpoise.model.request import Goal, PlanRequest, Scope
from counterpoise.model.run import RunState
from counterpoise.planning import make_plan
from tests.simulated_kafka.cluster import SimulatedCluster

_BROKERS: Final = 68
_NEW_BROKERS: Final = (67, 68)
_TOPICS: Final = 20
_CALL_SECONDS: Final = 0.05
_SIDE_BY_SIDE: Final = 20
_REMEMBERED_SECONDS: Final = 10.0
_LEFT_ALONE: Final = 9
_RATE: Final = 50_000_000
_START: Final = datetime(2026, 1, 31, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Overhead:
    before_seconds: float  # from the first observation to the first move
    after_seconds: float  # from the last byte to the end of the run


def measure_overhead() -> Overhead:
    snapshot = from_document_text(json.dumps(_document()))
    scope = Scope(excluded_broker_ids=(_LEFT_ALONE,))
    plan = make_plan(snapshot, PlanRequest(Goal.ADD_BROKERS, _NEW_BROKERS, scope=scope))
    cluster = SimulatedCluster.like(snapshot)
    slow = SlowCluster(cluster)
    with _approved_driver(slow, plan) as (driver, ledger, run_id):
        cluster.freeze_broker(5)
        began = time.monotonic()
        driver.open()
        _repeat(driver.step, lambda: bool(cluster.list_reassignments()))
        before = time.monotonic() - began
        cluster.thaw_broker(5)
        slow.is_instant = True
        while cluster.list_reassignments() or not _all_arrived(plan, cluster):
            driver.step()
            cluster.advance(40)
        slow.is_instant = False
        cluster.freeze_broker(_LEFT_ALONE)
        began = time.monotonic()
        _repeat(driver.step, None)
        _repeat(driver.settle_step, None)
        after = time.monotonic() - began
        assert ledger.run(run_id).state is RunState.DONE, ledger.run(run_id).reason
    return Overhead(before, after)


class SlowCluster:
    """The simulated cluster behind calls that take time.

    What is asked of several brokers goes 20 side by side.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.is_instant = False
        self._known_until: dict[int, float] = {}  # brokers that let a deadline pass

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.cluster, name)

        def call(*args: Any, **options: Any) -> Any:
            brokers = self._brokers_asked(name, args, options)
            if not self.is_instant:
                time.sleep(self._seconds(brokers))
            return method(*args, **options)

        return call

    def _brokers_asked(self, name: str, args: Sequence[Any], options: dict[str, Any]) -> set[int]:
        if options.get("via_broker") is not None:
            return {options["via_broker"]}
        if name in ("describe_configs", "alter_configs"):
            resources = [getattr(one, "resource", one) for one in args[0]]
            brokers = (r for r in resources if r.type is ConfigResourceType.BROKER)
            return {int(r.name) for r in brokers if r != EVERY_BROKER}
        if name == "describe_log_dirs":
            return set(args[0])
        if name == "describe_versions":
            return set(args[0] if args else self.cluster.live_broker_ids)
        return set()

    def _seconds(self, brokers: set[int]) -> float:
        now = time.monotonic()
        late = [
            b
            for b in brokers
            if not self.cluster.is_responding(b) and self._known_until.get(b, 0.0) < now
        ]
        for broker_id in late:
            self._known_until[broker_id] = now + UNRESPONSIVE_AFTER_SECONDS + _REMEMBERED_SECONDS
        whole_rounds = _CALL_SECONDS * ceil(max(1, len(brokers)) / _SIDE_BY_SIDE)
        return max(whole_rounds, UNRESPONSIVE_AFTER_SECONDS if late else 0.0)


@contextmanager
def _approved_driver(
    admin: SlowCluster, plan: RebalancePlan
) -> Iterator[tuple[Driver, Ledger, str]]:
    def clock() -> datetime:
        return _START + timedelta(seconds=admin.cluster.now)

    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.open(f"sqlite:///{Path(folder) / 'ledger.db'}", clock)
        try:
            run_id = ledger.propose(plan, "", requested_by="benchmark").run_id
            until = clock() + timedelta(days=1)
            yes = Approval(
                run_id, plan.fingerprint, Decision.GRANTED, "benchmark", "", clock(), _RATE, until
            )
            ledger.record_decision(yes)
            orders = ExecutionOptions(run_id, plan, _RATE, MovementPolicy())
            with patch.object(decide, "MAX_ELECTIONS_PER_CALL", MAX_PARTITIONS_PER_CALL):
                yield Driver(admin, ledger, orders, clock, lambda _: None), ledger, run_id  # type: ignore[arg-type]
        finally:
            ledger.close()


def _repeat(step: Callable[[], float | None], is_enough: Callable[[], bool] | None) -> None:
    while (seconds := step()) is not None:
        if is_enough and is_enough():
            return
        time.sleep(seconds)


def _all_arrived(plan: RebalancePlan, cluster: SimulatedCluster) -> bool:
    return all(
        set(cluster.partitions[m.topic_partition].replicas) == set(m.replicas_after)
        for m in plan.moves
    )


def _document() -> dict[str, Any]:
    old = _BROKERS - len(_NEW_BROKERS)
    partitions = [
        [
            f"topic-{t}",
            p,
            [1 + (p + t * 7 + k * 11) % old for k in range(3)],
            1 + (p + t * 7) % old,
            50_000_000,
            None,
        ]
        for t in range(_TOPICS)
        for p in range(old)
    ]
    brokers = [{"id": b, "rack": "abc"[b % 3]} for b in range(1, _BROKERS + 1)]
    return {"cluster": "wide", "cluster_id": "wide", "brokers": brokers, "partitions": partitions}
