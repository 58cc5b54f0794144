"""Random days on the simulated cluster: brokers that are dead, frozen, unreachable, silent about
their log dirs or restarted, replicas that lag, rates and pauses. However a day ends, no run waits
longer than its longest patience once nothing happens any more.

`COUNTERPOISE_SOAK=20` makes 20 times as many days, drawn anew each time.
"""

import random
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from counterpoise.errors import ClusterError, HaltedError, RefusedError
from counterpoise.model.control import Control
from counterpoise.model.kafka import BrokerVersion
from counterpoise.model.policy import InFlight, MovementPolicy
from counterpoise.model.request import Goal
from counterpoise.model.run import ENDED_STATES, RunState
from tests.support.examples import seeds
from tests.support.pictures import cluster
from tests.support.plans import move, plan_by_hand
from tests.support.runs import SimulatedRun

BROKERS: Final = (1, 2, 3, 4, 5)
PICTURE: Final = """
orders-0: 1 2 3 size=20000000 rate=1000
orders-1: 2 3 1 size=60000000
payments-0: 3 1 size=20000000 rate=300000
__consumer_offsets-0: 1 2 3 size=1000000
audit-0: 1 2 3 size=1000
other-0: 2 1 3 size=30000000 rate=20000
"""
MOVES: Final = (
    move("__consumer_offsets-0", "1 2 3", "5 2 3", size=1_000_000),
    move("audit-0", "1 2 3", "2 1 3", size=1_000),
    move("orders-0", "1 2 3", "4 2 3", size=20_000_000),
    move("orders-1", "2 3 1", "4 5 1", size=60_000_000),
    move("payments-0", "3 1", "3 5", size=20_000_000),
)
PATIENCE: Final = timedelta(seconds=60)
LONGEST: Final = timedelta(seconds=240)  # of all patiences here, twice the stall's included
# One reason after another may last: each ends within its patience.
MAX_WAITS: Final = 6


def limits(chance: random.Random) -> MovementPolicy:
    return MovementPolicy(
        max_moves_in_flight=chance.choice([1, 2, 50]),
        on_halt=chance.choice(list(InFlight)),
        dead_broker_patience=PATIENCE,
        hold_patience=2 * PATIENCE,
        pause_patience=3 * PATIENCE,
    )


class Day:
    """One run, and what happens to its cluster."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        plan = plan_by_hand(cluster(PICTURE, racks="1 2 3 4 5"), Goal.REBALANCE, *MOVES)
        self.run = SimulatedRun.make(
            folder, PICTURE, racks="1 2 3 4 5", plan=plan, limits=limits(self.chance)
        )
        self.cluster = self.run.cluster
        self.happened: list[str] = []

    def something_happens(self) -> None:
        broker_id = self.chance.choice(BROKERS)
        what = self.chance.choice(
            [
                self._dies,
                self._freezes,
                self._comes_back,
                self._comes_back,
                self._is_unreachable,
                self._reports_no_log_dirs,
                self._lags,
                self._speaks_another_version,
                self._people_request,
                self._gets_no_answer,
            ]
        )
        self.happened.append(f"{self.cluster.now:.0f} {what.__name__} {broker_id}")
        what(broker_id)

    def _dies(self, broker_id: int) -> None:
        if self._can_lose(broker_id):
            self.cluster.kill_broker(broker_id, noticed=self.chance.random() < 0.5)

    def _freezes(self, broker_id: int) -> None:
        if self._can_lose(broker_id):
            self.cluster.freeze_broker(broker_id)

    def _can_lose(self, broker_id: int) -> bool:
        reachable = [b for b in BROKERS if self.cluster.is_reachable(b) and b != broker_id]
        return self.cluster.is_responding(broker_id) and len(reachable) >= 2

    def _comes_back(self, broker_id: int) -> None:
        self.cluster.unreachable.discard(broker_id)
        self.cluster.without_log_dirs.discard(broker_id)
        if self.cluster.brokers[broker_id].is_frozen:
            self.cluster.thaw_broker(broker_id)
        elif not self.cluster.is_responding(broker_id):
            self.cluster.restart_broker(broker_id)

    def _is_unreachable(self, broker_id: int) -> None:
        if self._can_lose(broker_id):
            self.cluster.unreachable.add(broker_id)

    def _reports_no_log_dirs(self, broker_id: int) -> None:
        self.cluster.without_log_dirs.add(broker_id)

    def _lags(self, broker_id: int) -> None:
        """A follower falls out of the ISR, and takes minutes to come back, or for ever."""
        key = self.chance.choice(sorted(self.cluster.partitions))
        partition = self.cluster.partitions[key]
        if broker_id in partition.isr - {partition.leader} and len(partition.isr) > 1:
            partition.isr.discard(broker_id)
            partition.copied[broker_id] = 0.0
            if self.chance.random() < 0.3:
                partition.bytes_in_per_second = 200_000_000.0

    def _speaks_another_version(self, broker_id: int) -> None:
        usual, newer = BrokerVersion("simulated", 29), BrokerVersion("newer", 30)
        self.cluster.versions[broker_id] = self.chance.choice([usual, usual, newer])

    def _people_request(self, _: int) -> None:
        control = self.chance.choice([Control.PAUSE, Control.RESUME, Control.RATE])
        rate = {"rate_bytes_per_second": self.chance.choice([200_000, 2_000_000])}
        self.run.ask(control, **(rate if control is Control.RATE else {}))

    def _gets_no_answer(self, broker_id: int) -> None:
        self.cluster.addressed_broker = self.chance.choice([None, broker_id])

    # -- the run

    def step(self) -> bool:
        """Do what a process does that is started again whenever it ends; False: it has ended."""
        driver = self.run.driver()
        try:
            wait = driver.step() if self.run.run.state is RunState.RUNNING else None
            if wait is None:
                wait = driver.settle_step()
        except (HaltedError, RefusedError, ClusterError):
            wait = 2.0
        self.cluster.advance(max(wait or 0.0, 2.0))
        return self.run.run.state not in ENDED_STATES


@pytest.mark.parametrize("seed", seeds(12))
def test_no_run_waits_longer_than_its_patience_once_nothing_happens_any_more(
    seed: int, tmp_path: Path
) -> None:
    day = Day(tmp_path, seed)
    day.run.driver().open()
    while day.cluster.now < 600 and day.step():
        if day.chance.random() < 0.05:
            day.something_happens()
    # Changes go to a broker that responds, as the real client sends them.
    day.cluster.addressed_broker = None
    give_up_at = day.cluster.now + MAX_WAITS * LONGEST.total_seconds()
    while day.step():
        assert day.cluster.now < give_up_at, (
            f"seed {seed} waits for ever: {day.run.log[-3:]}\n" + "\n".join(day.happened)
        )
