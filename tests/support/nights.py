"""A night on the simulated cluster: a small cluster, a plan, and what happens beside its run.

    night = Night(random.Random(7), is_harmless=True)
    night.happen_until(1800.0, HARMLESS)     # events are drawn, and each one ends well
    night.pass_time(10.0)          # events happen when it is their time

What is set at brokers and topics is followed here by what people did alone: `settings` is what has
to be there when nothing of a run is left. Nothing here knows how a run decides.
"""

import heapq
import random
from collections.abc import Callable, Sequence
from datetime import time, timedelta
from functools import partial
from itertools import count
from typing import Any, Final

from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import (
    LIST_KEYS,
    RATE_KEYS,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
)
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.policy import (
    DailyRate,
    InFlight,
    MaintenanceWindow,
    MovementPolicy,
)
from counterpoise.model.request import Goal
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.simulated_kafka.partition import SimulatedPartition
from tests.support.pictures import cluster, simulated
from tests.support.plans import move, plan_by_hand
from tests.support.runs import at_broker, of_topic

Key = tuple[ConfigResource, str]
RATE: Final = 1_000_000
SIZES: Final = (1_000, 20_000_000, 60_000_000, 60_000_000, 150_000_000)
WINDOWS: Final = (MaintenanceWindow("*/10 * * * *", timedelta(minutes=5)),)
SLOW_AT_NOON: Final = DailyRate(time(12, 3), time(12, 20), 400_000)
THEIRS: Final = "9:9"  # an entry of somebody else, of no replica that there is


class Night:
    """The cluster, its plan, and all that happens there by other hands than those of the run."""

    def __init__(self, chance: random.Random, *, is_harmless: bool) -> None:
        self.chance, self.is_harmless = chance, is_harmless
        self.broker_ids = tuple(range(1, chance.randint(4, 6) + 1))
        self.replicas = {tp: self._some_replicas() for tp in self._some_partitions()}
        self.plan = self._some_plan()
        self.limits = self._some_limits()
        self.cluster: SimulatedCluster = simulated(self.picture, racks=self.racks)
        self.cluster.full_speed_bytes_per_second = chance.choice([5e6, 20e6, 100e6])
        self.settings: dict[Key, str] = {}
        self.told: list[str] = []  # what happened, for whoever reads a failure
        self.ask: Callable[..., None] = lambda *_, **__: None  # of the run
        self.kill_worker: Callable[[], None] = lambda: None
        self.set_by_others: set[Key] = set()
        self.their_rates: dict[Key, int] = {}  # that are set now
        self.moved_by_others: set[TopicPartition] = set()
        self.cancelled_by_others: set[TopicPartition] = set()
        self.gone: set[str] = set()
        self.may_be_sent_again = False  # a call got no answer
        self.default_rate: int | None = None  # of somebody else, for all brokers
        self.settle: Callable[[], None] = lambda: None
        self.quiet_at = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._some_settings()

    # -- what there is

    def _some_replicas(self) -> tuple[int, ...]:
        return tuple(self.chance.sample(self.broker_ids, self.rf))

    def _some_partitions(self) -> list[TopicPartition]:
        self.rf = self.chance.choice([2, 3, 3])
        total = self.chance.randint(3, 8)
        topics = [*("orders",) * 4, "payments", "payments", "__consumer_offsets", "other"]
        chosen = [*self.chance.choices(topics[:-1], k=total - 1), "other"]
        seen: dict[str, int] = {}
        partitions = []
        for topic in sorted(chosen):
            partitions.append(TopicPartition(topic, seen.get(topic, 0)))
            seen[topic] = seen.get(topic, 0) + 1
        self.sizes = {tp: self.chance.choice(SIZES) for tp in partitions}
        self.rates = {tp: self.chance.choice([0, 0, 1_000, 15_000]) for tp in partitions}
        return partitions

    @property
    def picture(self) -> str:
        return "\n".join(
            f"{tp}: {' '.join(map(str, ids))} size={self.sizes[tp]} rate={self.rates[tp]}"
            for tp, ids in self.replicas.items()
        )

    @property
    def racks(self) -> str:
        return " ".join(map(str, self.broker_ids))

    def _some_plan(self) -> RebalancePlan:
        more: dict[str, Any]
        planned = [tp for tp in self.replicas if tp.topic != "other"]
        planned = self.chance.sample(planned, min(len(planned), self.chance.randint(2, 6)))
        resizes = self.chance.random() < 0.15
        rf = self.chance.choice([n for n in (2, 3, 4) if n != self.rf]) if resizes else self.rf
        moves = [self._some_move(tp, rf) for tp in sorted(planned)]
        snapshot = cluster(self.picture, racks=self.racks)
        if resizes:
            goal, more = Goal.REPLICATION_FACTOR, {"replication_factor": rf}
            return plan_by_hand(snapshot, goal, *moves, **more)
        received = {broker_id for m in moves for broker_id in m.adding}
        emptied = [broker_id for broker_id in self.broker_ids if broker_id not in received]
        if emptied and self.chance.random() < 0.4:
            brokers = tuple(emptied[:1])
            return plan_by_hand(snapshot, Goal.REMOVE_BROKERS, *moves, brokers=brokers)
        return plan_by_hand(snapshot, Goal.REBALANCE, *moves)

    def _some_move(self, tp: TopicPartition, rf: int) -> Move:
        before = self.replicas[tp]
        if rf > self.rf:
            others = [b for b in self.broker_ids if b not in before]
            after = (*before, *self.chance.sample(others, rf - self.rf))
        elif rf < self.rf:
            after = before[:rf]
        else:
            after = before
            while after == before:
                is_reorder = self.chance.random() < 0.2
                after = tuple(self.chance.sample(before if is_reorder else self.broker_ids, rf))
        old, new = (" ".join(map(str, ids)) for ids in (before, after))
        return move(str(tp), old, new, size=self.sizes[tp])

    def _some_limits(self) -> MovementPolicy:
        chance = self.chance
        return MovementPolicy(
            max_moves_in_flight=chance.choice([1, 2, 500]),
            max_moves_in_flight_per_broker=chance.choice([1, 50]),
            on_halt=chance.choice(list(InFlight)),
            dead_broker_patience=timedelta(minutes=chance.choice([15, 15, 30])),
            hold_patience=timedelta(hours=chance.choice([1, 24])),
            pause_patience=timedelta(hours=chance.choice([2, 168])),
            windows=chance.choice([(), (), (), WINDOWS]),
            daily_rates=chance.choice([(), (), (), (SLOW_AT_NOON,)]),
        )

    def _some_settings(self) -> None:
        """What somebody had set before the run."""
        if self.chance.random() < 0.3:
            resource = at_broker(self.chance.choice(self.broker_ids))
            value = self.chance.choice(["600000", "7000000"])
            self._set(resource, self.chance.choice(RATE_KEYS), value)
        if self.chance.random() < 0.3:
            value = self.chance.choice(["*", THEIRS, f"0:1,{THEIRS}"])
            self._set(of_topic("orders"), self.chance.choice(LIST_KEYS), value)

    def _set(self, resource: ConfigResource, key: str, value: str) -> None:
        if resource.is_topic and resource.name not in self.cluster.topic_ids:
            return
        refusal = self.cluster.configs.alter(
            resource, [ConfigChange(resource, key, ConfigOperation.SET, value)]
        )
        assert not refusal, refusal
        self.settings[resource, key] = value

    # -- time

    def at(self, seconds: float, happens: Callable[[], None]) -> None:
        """Let something happen in so many seconds."""
        due = self.cluster.now + seconds
        heapq.heappush(self._events, (due, next(self._numbers), happens))
        self.quiet_at = max(self.quiet_at, due)

    def pass_time(self, seconds: float, check: Callable[[], None] = lambda: None) -> None:
        end = self.cluster.now + seconds
        while self._events and self._events[0][0] <= end:
            due, _, happens = heapq.heappop(self._events)
            self.cluster.advance(max(0.0, due - self.cluster.now))
            check()
            happens()
        self.cluster.advance(max(0.0, end - self.cluster.now))
        check()

    @property
    def is_quiet(self) -> bool:
        return not self._events

    def happen_until(self, end: float, kinds: "Sequence[Event]") -> None:
        """Draw what happens from now on until then."""
        kinds = self.chance.sample(kinds, 8)
        for _ in range(self.chance.choice([3, 6, 9, 12, 16])):
            kind = self.chance.choice(kinds)
            self.at(self.chance.uniform(0, end - self.cluster.now), partial(self._happen, kind))

    def _happen(self, kind: "Event") -> None:
        self.tell(kind.__name__)
        kind(self)

    def tell(self, text: str) -> None:
        self.told.append(f"{self.cluster.now:.0f} {text}")

    # -- helpers of events

    def partition(self) -> tuple[TopicPartition, SimulatedPartition]:
        tp = self.chance.choice(sorted(self.cluster.partitions))
        self.tell(f"  {tp}")
        return tp, self.cluster.partitions[tp]

    @property
    def is_healthy(self) -> bool:
        return all(map(self.cluster.is_reachable, self.broker_ids)) and all(
            set(p.target) - set(p.adding) <= p.isr for p in self.cluster.partitions.values()
        )

    def alter(self, resource: ConfigResource, key: str, value: str | None) -> None:
        """Somebody sets, or deletes, a key."""
        self.tell(f"  {resource.name} {key} {value}")
        self.set_by_others.add((resource, key))
        self.their_rates.pop((resource, key), None)
        if value is None:
            delete = ConfigChange(resource, key, ConfigOperation.DELETE)
            self.cluster.configs.alter(resource, [delete])
            self.settings.pop((resource, key), None)
        else:
            self._set(resource, key, value)
            if key in RATE_KEYS:
                self.their_rates[resource, key] = int(value)


Event = Callable[[Night], None]
