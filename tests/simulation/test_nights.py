"""Ordinary nights, at random: what happens on a cluster beside a run, and all of it ends well.

Brokers restart one after the other, retention deletes, producers write more, people pause and
change rates, processes die; somebody moves, cancels and throttles beside it. What has to hold is
written here without asking the run: that it ends, how, and that nothing of it is left.

`COUNTERPOISE_SOAK=20` makes 20 times as many nights, drawn anew each time.
"""

import random
import re
import time
from collections.abc import Set
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from counterpoise.errors import (
    ClusterError,
    HaltedError,
    RefusedError,
    RunConflictError,
    StalePlanError,
)
from counterpoise.execution import Driver
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.control import Control
from counterpoise.model.kafka import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    RATE_KEYS,
    BrokerVersion,
    ConfigResource,
)
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.reassignment import reassignment_targets
from counterpoise.model.request import Goal
from counterpoise.model.run import ENDED_STATES, RunState
from counterpoise.services.plans import plan_of_assignment
from counterpoise.snapshot import take_snapshot
from tests.simulated_kafka.partition import SimulatedPartition
from tests.support.crashes import MUTATING, Countdown, Crash, CrashingLedger, CrashingProxy
from tests.support.examples import seeds
from tests.support.ledger_view import let_step_locks_run_out, way_back_of
from tests.support.night_events import HARMLESS, OTHERS, STOPS
from tests.support.nights import RATE, Night
from tests.support.runs import SimulatedRun, at_broker, open_ledger, times_submitted

ENDS_WITHIN: Final = 4 * 3600.0  # after the last event
MAX_BARE_OBSERVATIONS: Final = 3


class Watched:
    """A run through a night, and what is held against it."""

    def __init__(self, folder: Path, seed: int, *, is_harmless: bool) -> None:
        self.chance = random.Random(seed)
        self.night = Night(self.chance, is_harmless=is_harmless)
        self.cluster = self.night.cluster
        self.run = SimulatedRun(self.cluster, None, self.night.plan, RATE, self.night.limits)  # type: ignore[arg-type]
        self.run.ledger = open_ledger(folder, self.run.clock)
        self.night.ask = self._ask
        self.night.kill_worker = self._kill_worker
        self.night.settle = self._settle
        self.interval = self.chance.choice([2.0, 10.0, 10.0, 10.0])
        self.plans: list[RebalancePlan] = []
        self.countdown: Countdown | None = None
        self.beside: Driver | None = None  # of another process
        self.bare = 0
        self.rates = [RATE]  # that people have agreed to; the last one holds
        self.observed_since_rate = 0
        self.default_rate: int | None = None  # of somebody else
        self.halts: list[str] = []

    def expected_seconds(self) -> float:
        """About how long the copies take."""
        return 60 + self.run.plan.copied_bytes / RATE

    # -- people and processes

    def _ask(self, control: Control, **more: Any) -> None:
        if control is Control.RATE:
            self.rates.append(more["rate_bytes_per_second"])
            self.observed_since_rate = 0
        self.run.ask(control, **more)

    def _settle(self) -> None:
        with suppress(RefusedError, ClusterError):
            self.run.driver().settle_step()

    def _kill_worker(self) -> None:
        self.countdown = Countdown(self.chance.randint(0, 12))

    def begin(self, plan: RebalancePlan) -> None:
        self.plans.append(plan)
        self.run.go_on_with(plan)
        self.rates = [RATE]

    def _driver(self) -> Driver:
        if self.countdown is None:
            return self.run.driver()
        admin: Any = CrashingProxy(self.cluster, MUTATING, self.countdown)
        ledger: Any = CrashingLedger(self.run.ledger, (), self.countdown)
        return self.run.driver(admin, ledger)

    def step(self) -> None:
        """Do what a process does that is started again whenever it ends."""
        wait = self.interval
        logged = len(self.run.log)
        try:
            waits = self._step_of(self._driver())
            if self.interval < 10 or waits < 1:
                wait = max(waits, 1.0)
            self.observed_since_rate += 1
            if self.beside is not None and self.chance.random() < 0.3:
                self._step_of(self.beside)
        except (HaltedError, RefusedError, ClusterError) as error:
            self.night.tell(f"{type(error).__name__}: {error}")
        except Crash:
            self.night.tell("the worker dies")
            self.countdown = None
            let_step_locks_run_out(self.run.ledger)
            wait = self.chance.choice([1.0, 40.0, 400.0])
        if self.chance.random() < 0.02:
            self.beside = self.run.driver()
        for text in self.run.log[logged:]:
            self._check_text(text)
        self.check_throttles(is_observation=True)
        if self.run.run.state not in ENDED_STATES:
            self.night.pass_time(wait, self.check_throttles)

    def _step_of(self, driver: Driver) -> float:
        try:
            if self.run.run.state is RunState.APPROVED:
                driver.open()
                return 0.0
            if self.run.run.state is RunState.RUNNING and (wait := driver.step()) is not None:
                return wait
            return driver.settle_step() or 0.0
        except RunConflictError:
            self.beside = None
            return self.interval

    def go_to_the_end(self) -> None:
        while self.run.run.state not in ENDED_STATES:
            self.step()
            late = self.cluster.now - self.night.quiet_at
            assert late < ENDS_WITHIN, f"does not end: {self.run.log[-3:]}"
        self.check_end()

    # -- what has to hold

    def check_throttles(self, *, is_observation: bool = False) -> None:
        """Copies of ours have their throttle, and nobody's rate is above what was agreed."""
        if self.countdown or not all(map(self.cluster.is_reachable, self.night.broker_ids)):
            self.observed_since_rate = 0
        if found := self._bare():
            self.bare += is_observation
            is_excused = self.night.set_by_others and self.bare <= MAX_BARE_OBSERVATIONS
            assert is_excused, f"unthrottled: {found}"
        else:
            self.bare = 0
        self._check_rates()

    def _bare(self) -> list[str]:
        found = []
        for tp, partition in self.cluster.partitions.items():
            if not self._is_ours(tp, partition) or partition.leader is None:
                continue
            sides = [(partition.leader, LEADER_REPLICAS, LEADER_RATE)]
            sides += [(b, FOLLOWER_REPLICAS, FOLLOWER_RATE) for b in partition.adding]
            for broker_id, list_key, rate_key in sides:
                rate = self.cluster.configs.rate(broker_id, rate_key)
                is_listed = self.cluster.configs.throttles(
                    tp.topic, tp.partition, broker_id, list_key
                )
                is_up = self.cluster.is_responding(broker_id)
                if is_up and (rate is None or rate > max(self.rates) or not is_listed):
                    found.append(f"{tp} at {broker_id}: {rate_key} {rate}, listed: {is_listed}")
        return found

    def _is_ours(self, tp: TopicPartition, partition: SimulatedPartition) -> bool:
        if not partition.adding or tp in self.night.moved_by_others or tp.topic in self.night.gone:
            return False
        return any(
            set(partition.target) == set(target)
            for m in self.plans[-1].moves
            if m.topic_partition == tp
            for target in reassignment_targets(m)
        )

    def _check_rates(self) -> None:
        if self.night.default_rate != self.default_rate:
            self.default_rate, self.observed_since_rate = self.night.default_rate, 0
        for broker_id in self.night.broker_ids:
            for key in RATE_KEYS:
                resource = at_broker(broker_id)
                rate = self.cluster.configs.dynamic.get(resource, {}).get(key)
                if rate is None or rate == self.night.settings.get((resource, key)):
                    continue
                theirs = self.night.their_rates.get((resource, key))
                assert theirs is None or int(rate) <= theirs, f"{key} of {broker_id}: {rate}"
                assert int(rate) <= max(self.rates), f"{key} of {broker_id}: {rate}"
                if self.observed_since_rate > 5 and self._is_running():
                    limit = min(self.rates[-1], self.night.default_rate or RATE * 100)
                    assert int(rate) <= limit, f"{key} of {broker_id}: {rate}, not {limit}"

    def _is_running(self) -> bool:
        return self.run.run.state is RunState.RUNNING

    def _check_text(self, text: str) -> None:
        night = self.night
        for name in re.findall(r"broker (\d+) is dead", text):
            assert int(name) not in self.cluster.live_broker_ids, text
        if "throttle key" in text and "somebody else" in text:
            assert night.set_by_others, text
        if "somebody else cancelled" in text:
            assert night.cancelled_by_others, text
        if "somebody else is reassigning" in text or "somebody else moved" in text:
            assert night.moved_by_others or night.cancelled_by_others, text
        assert "late call" not in text, text
        if night.is_harmless:
            assert "somebody else" not in text, text

    def check_end(self) -> None:
        run = self.run.run
        self._check_text(run.reason)
        moving = {tp for tp, p in self.cluster.partitions.items() if self._is_ours(tp, p)}
        assert not moving, f"in flight at the end: {moving}"
        left = {owned.resource for owned in self.run.view.pending_keys(run.run_id)}
        unreached = {b for b in self.night.broker_ids if not self.cluster.is_reachable(b)}
        self.check_settings(left & set(map(at_broker, unreached)))

    def check_settings(self, excused: Set[ConfigResource] = frozenset()) -> None:
        dynamic = self.cluster.configs.dynamic
        now = {
            (resource, key): value
            for resource, values in dynamic.items()
            for key, value in values.items()
            if resource not in excused
            if value or (resource, key) not in self.night.set_by_others  # what a SUBTRACT leaves
        }
        wanted = {key: v for key, v in self.night.settings.items() if key[0] not in excused}
        assert now == wanted, f"settings: {now} and not {wanted}"

    # -- the morning after

    def all_is_well(self) -> None:
        while not self.night.is_quiet:
            self.night.pass_time(30.0)
        self.cluster._lost_responses.clear()
        self.cluster._failures.clear()
        newest = max(version.metadata_version or 0 for version in self.cluster.versions.values())
        self.cluster.versions = dict.fromkeys(self.night.broker_ids, BrokerVersion("now", newest))
        self.countdown = self.beside = None
        for _ in range(500):
            if self.night.is_healthy and not self.cluster.list_reassignments():
                break
            self.night.pass_time(30.0)
        for _ in range(5):  # a call that nobody answered may come late
            self._restore_pending()
            self.night.pass_time(60.0)
        pending = self.run.view.pending_keys()
        assert not pending, f"pending restores: {pending}"
        self.check_settings()

    def _restore_pending(self) -> None:
        self.run.restore_pending()

    def carry_out(self) -> bool:
        """Execute again until it is done; False where a new plan is needed, for a reason."""
        for _ in range(6):
            if self.run.run.state is RunState.DONE:
                self.check_done()
                return True
            self.halts.append(self.run.run.reason)
            assert not self.night.is_harmless, f"halted: {self.halts}"
            self.run.ledger.record_decision(self.run.approval())
            self.rates = [RATE]
            try:
                self.run.driver().open()
            except StalePlanError as error:
                changed = {
                    m.topic_partition for m in self.run.plan.moves
                } & self.night.moved_by_others
                gone = {m.topic for m in self.run.plan.moves} & self.night.gone
                assert changed or gone, str(error)
                self.night.tell(f"stale: {error}")
                return False
            self.night.quiet_at = self.cluster.now
            self.go_to_the_end()
            self.all_is_well()
        raise AssertionError(f"refused for good: {self.halts}")

    def check_done(self) -> None:
        for m in self.run.plan.moves:
            partition = self.cluster.partitions.get(m.topic_partition)
            is_theirs = m.topic_partition in self.night.moved_by_others
            if partition is None or m.topic in self.night.gone or is_theirs:
                continue
            assert partition.replicas == m.replicas_after, f"{m} is at {partition.replicas}"

    def check_sent_once(self) -> None:
        sent = [c.argument for c in self.cluster.calls if c.name == "alter_reassignments"]
        assert not any(None in targets.values() for targets in sent), sent  # type: ignore[attr-defined]
        assert max(times_submitted(self.cluster).values()) == 1, sent

    def undo(self) -> None:
        """Take it back; what stays where it is is named."""
        plan, run = self.run.plan, self.run.run
        submitted = self.run.view.submitted_partitions(run.run_id)
        if not submitted or plan.goal is Goal.REPLICATION_FACTOR:
            return
        snapshot = take_snapshot(
            self.cluster, cluster=plan.cluster, snapshot_id="s", observed_at=self.run.clock()
        )
        way_back = way_back_of(self.run.ledger, run, plan, snapshot)
        assert not [why for why in way_back.left.values() if "cannot go back" in why], way_back.left
        foreign = {name for name, why in way_back.left.items() if "moved again" in why}
        assert foreign <= self.night.moved_by_others, foreign
        wanted = {move.topic_partition: move.replicas_before for move in way_back.moves}
        back = plan_of_assignment(snapshot, wanted, BalancePolicy())
        if not back.is_empty:
            self.begin(back)
            self.run.driver().open()
            self.night.is_harmless = True
            self.night.happen_until(self.cluster.now + self.expected_seconds(), HARMLESS)
            self.go_to_the_end()
            self.all_is_well()
            assert self.run.run.state is RunState.DONE, self.run.run.reason
            self.check_done()
        for m in plan.moves:
            partition = self.cluster.partitions.get(m.topic_partition)
            named = m.topic_partition in foreign or m.topic in self.night.gone
            if partition is not None and m.topic_partition in submitted and not named:
                assert partition.replicas == m.replicas_before, f"{m} is at {partition.replicas}"


def live_through(folder: Path, seed: int, *, is_harmless: bool) -> None:
    watched = Watched(folder, seed, is_harmless=is_harmless)
    try:
        watched.begin(watched.night.plan)
        with suppress(RefusedError):
            watched.run.driver().open()
        others = (*OTHERS, *OTHERS, *(STOPS if watched.chance.random() < 0.3 else ()))
        kinds = HARMLESS if is_harmless else (*HARMLESS, *others)
        watched.night.happen_until(watched.expected_seconds(), kinds)
        watched.go_to_the_end()
        watched.all_is_well()
        if watched.carry_out() and is_harmless and not watched.night.may_be_sent_again:
            watched.check_sent_once()
        if watched.chance.random() < 0.4:
            watched.undo()
    except AssertionError as error:
        night = watched.night
        lines = (night.picture, *night.plan.moves, night.limits, *night.told, *watched.run.log[-5:])
        raise AssertionError("\n".join(map(str, (f"seed {seed}: {error}", *lines)))) from error
    finally:
        watched.run.ledger.close()


@pytest.fixture(autouse=True)
def _no_real_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)


@pytest.mark.parametrize("seed", seeds(5))
def test_what_is_harmless_keeps_no_run_from_its_plan(seed: int, tmp_path: Path) -> None:
    live_through(tmp_path, seed, is_harmless=True)


@pytest.mark.parametrize("seed", seeds(5))
def test_whatever_others_do_every_run_ends_and_can_go_on(seed: int, tmp_path: Path) -> None:
    live_through(tmp_path, seed, is_harmless=False)
