"""Promises 2 to 10 under everything that may happen at once, for thousands of steps on the
simulated cluster.

Hypothesis interleaves steps of one or two processes that die or freeze anywhere, requests of
people, brokers that die, freeze and come back, lost and refused calls, and foreign changes;
`tests/support/promises.py` watches. In the end all brokers are back, and whatever happened before,
nothing of ours is left.

`COUNTERPOISE_SOAK=200` runs 200 times as many examples, drawn anew each time.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from counterpoise.errors import ClusterError, ClusterUnreachableError, RefusedError
from counterpoise.execution import Driver, ExecutionOptions, restore_pending
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.control import Control, ControlRequest
from counterpoise.model.kafka import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LIST_KEYS,
    RATE_KEYS,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
)
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import InFlight, MovementPolicy
from counterpoise.model.request import Goal
from counterpoise.model.run import (
    ENDED_STATES,
    OPEN_STATES,
    TRANSITIONS,
    UNDER_WAY_STATES,
    Run,
    RunState,
)
from tests.simulated_kafka.partition import SimulatedPartition
from tests.support.crashes import (
    MUTATING,
    Countdown,
    Crash,
    CrashingLedger,
    CrashingProxy,
    Pause,
)
from tests.support.examples import examples
from tests.support.ledger_view import (
    LedgerView,
    OwnedKey,
    let_step_locks_run_out,
)
from tests.support.pictures import cluster, simulated
from tests.support.plans import move, plan_by_hand
from tests.support.promises import Watch, lost_on_the_way
from tests.support.runs import START, at_broker, of_topic, open_ledger

BROKERS: Final = (1, 2, 3, 4, 5)
RACKS: Final = "1 2 3 4 5"
PICTURE: Final = """
orders-0: 1 2 3 size=2000000
orders-1: 2 3 1 size=3000000
orders-2: 3 1 2 size=2000000
orders-3: 1 2 3 @2 size=1000
payments-0: 1 2 size=3000000
payments-1: 1 2 3 size=1000000
__consumer_offsets-0: 1 2 3 size=1000000
other-0: 1 2 3 size=2000000
"""
MOVES: Final = (
    move("__consumer_offsets-0", "1 2 3", "5 2 3", size=1_000_000),
    move("orders-0", "1 2 3", "4 2 3", size=2_000_000),
    move("orders-1", "2 3 1", "2 4 3", size=3_000_000),
    move("orders-2", "3 1 2", "4 5 2", size=2_000_000),
    move("orders-3", "1 2 3", "1 2 3", leader=2, size=1_000),
    move("payments-0", "1 2", "5 4", size=3_000_000),
    move("payments-1", "1 2 3", "3 2 1", size=1_000_000),
)
RATE: Final = 1_000_000
GAVE_UP: Final = "the cluster refused what would end this run"
FOREIGN_RATES: Final = ("333333", "77777777")

brokers = st.sampled_from(BROKERS)
planned = st.sampled_from([m.topic_partition for m in MOVES])
steps = st.integers(1, 6)
crash_after = st.one_of(st.none(), st.integers(0, 14))


def meanwhile(**arguments: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Any]:
    """A rule for what others do; the run goes on for some steps after it, or for none."""

    def ruled(happens: Callable[..., None]) -> Any:
        def then_the_run_goes_on(machine: "Promises", then_steps: int, **drawn: Any) -> None:
            happens(machine, **drawn)
            machine.go_on(then_steps)

        then_the_run_goes_on.__name__ = happens.__name__
        return rule(**arguments, then_steps=st.integers(0, 3))(then_the_run_goes_on)

    return ruled


def _broker_ids(resources: Iterable[ConfigResource]) -> frozenset[int]:
    return frozenset(int(r.name) for r in resources if r.type is ConfigResourceType.BROKER)


class Promises(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.snapshot = cluster(PICTURE, racks=RACKS)
        self.cluster = simulated(PICTURE, racks=RACKS)
        self.watch = Watch(self.cluster)
        self.ledger = open_ledger(Path(self.folder), self.clock)
        self.limits = MovementPolicy()
        self.plan = plan_by_hand(self.snapshot, Goal.REBALANCE, *MOVES)
        self.run_id = ""

    def clock(self) -> Any:
        return START + timedelta(seconds=self.cluster.now)

    @initialize(
        on_halt=st.sampled_from(InFlight),
        at_once=st.sampled_from([1, 3, 50]),
        set_before=st.booleans(),
    )
    def begin(self, on_halt: InFlight, at_once: int, set_before: bool) -> None:
        self.limits = MovementPolicy(
            on_halt=on_halt,
            max_moves_in_flight=at_once,
            dead_broker_patience=timedelta(seconds=10),
        )
        if set_before:
            for resource, key, value in (
                (of_topic("orders"), LEADER_REPLICAS, "7:3,0:1"),
                (of_topic("payments"), FOLLOWER_REPLICAS, "*"),
                (at_broker(1), LEADER_RATE, "333333"),
                (at_broker(4), FOLLOWER_RATE, "90000000"),
            ):
                self.cluster.alter_configs(
                    [ConfigChange(resource, key, ConfigOperation.SET, value)]
                )
            self.watch = Watch(self.cluster)
        self._propose(self.plan)
        self.driver().open()

    def _propose(self, plan: RebalancePlan) -> None:
        self.plan = plan
        self.run_id = self.ledger.propose(plan, "plans/x.json", requested_by="airflow:alice").run_id
        yes = Approval(
            self.run_id,
            plan.fingerprint,
            Decision.GRANTED,
            "airflow:bob",
            "test",
            self.clock(),
            RATE,
            None,
        )
        self.ledger.record_decision(yes)
        self.watch.plans.append(plan)
        self.watch.highest_rate = max(self.watch.highest_rate, RATE)

    # -- processes

    @property
    def state(self) -> RunState:
        return self.ledger.run(self.run_id).state

    def driver(
        self,
        countdown: Countdown | None = None,
        *,
        before_a_call: Callable[[], None] | None = None,
        before_a_write: Pause | None = None,
    ) -> Driver:
        admin: Any = self.watch.ours(before_a_call)
        ledger: Any = self.ledger
        if before_a_write is not None:
            ledger = CrashingLedger(self.ledger, (), before_a_write)
        if countdown is not None:
            admin = CrashingProxy(admin, MUTATING, countdown)
            ledger = CrashingLedger(self.ledger, (), countdown)
        options = ExecutionOptions(self.run_id, self.plan, RATE, self.limits)
        return Driver(admin, ledger, options, self.clock, lambda _: None)

    def _repeat(self, step: Callable[[], float | None], times: int) -> bool:
        """Whether it is over.

        What a process raises to its caller ends it, as a task of Airflow would end.
        """
        for _ in range(times):
            is_faultless = self._is_faultless()
            was = self.state
            self.watch.unanswered.clear()
            try:
                wait = step()
            except (RefusedError, ClusterError):
                return False
            except Crash:
                self._free_the_step_lock()
                self.watch.excused |= self.watch.unanswered
                return False
            finally:
                if is_faultless:
                    self.watch.note_observation()
            if was in UNDER_WAY_STATES and self.state in ENDED_STATES:
                self._check_end()
            if wait is None:
                return True
            self.cluster.advance(wait)
            self.watch.check()
        return False

    def _is_faultless(self) -> bool:
        at = self.cluster.addressed_broker
        faults = [*self.cluster._failures.values(), *self.cluster._lost_responses.values()]
        return (
            not any(faults)
            and not self.watch.refusals
            and (at is None or self.cluster.is_responding(at))
        )

    def _check_end(self) -> None:
        if GAVE_UP in self.ledger.run(self.run_id).reason:
            return  # what is left is listed; it has to be in order in the end
        in_flight = self.watch.ours_in_flight()
        assert not in_flight, f"promise 3: {in_flight} in flight at the end of the run"
        # What earlier runs left on a broker that is back is restored after this run, by the watch.
        own = {t.resource for t in self._pending_restores(self.run_id)}
        assert not _broker_ids(own) & self.cluster.live_broker_ids
        dead = _broker_ids(t.resource for t in self._pending_restores())
        self.watch.check_settings_as_before(is_final=False, except_brokers=dead)

    def _pending_restores(self, run_id: str | None = None) -> tuple[OwnedKey, ...]:
        """Return the keys to restore of one run, or of all."""
        return LedgerView.of(self.ledger).pending_keys(run_id)

    @rule(times=steps, crash=crash_after)
    def execute(self, times: int, crash: int | None) -> None:
        """A process opens the run, goes on with it, or executes it again after a halt."""
        driver = self.driver(None if crash is None else Countdown(crash))
        with suppress(RefusedError, ClusterError):
            try:
                driver.open()
            except Crash:
                self._free_the_step_lock()
        if self.state is RunState.RUNNING:
            self._repeat(driver.step, times)

    def go_on(self, times: int) -> None:
        """A process that has nothing else to do steps after the run, whatever it needs."""
        if self.state is RunState.APPROVED:
            with suppress(RefusedError, ClusterError):
                self.driver().open()
        driver = self.driver()
        if not self._repeat(driver.step, times) or self.state is RunState.SETTLING:
            self._repeat(driver.settle_step, times if self.state is RunState.SETTLING else 0)

    @precondition(lambda self: self.state in UNDER_WAY_STATES)
    @rule(times=steps, crash=crash_after)
    def settle(self, times: int, crash: int | None) -> None:
        self._repeat(self.driver(None if crash is None else Countdown(crash)).settle_step, times)

    @precondition(lambda self: self.state in UNDER_WAY_STATES)
    @rule(
        times=steps,
        seconds=st.sampled_from([31.0, 100.0]),
        settles=st.booleans(),
        write=st.one_of(st.none(), st.integers(0, 9)),
    )
    def freeze_a_process(
        self, times: int, seconds: float, settles: bool, write: int | None
    ) -> None:
        """One process is frozen right before a call, or a write to the ledger; another one takes
        over; then the first wakes, and goes on.
        """

        def meanwhile() -> None:
            self._free_the_step_lock()
            self.cluster.advance(seconds)
            other = self.driver()
            self._repeat(other.settle_step if settles else other.step, times)

        if write is None:
            frozen = self.driver(before_a_call=meanwhile)
        else:
            frozen = self.driver(before_a_write=Pause(write, meanwhile))
        with suppress(RefusedError, ClusterError):
            frozen.step() if self.state is RunState.RUNNING else frozen.settle_step()

    def _free_the_step_lock(self) -> None:
        """As if the step lock had run out: its clock is the database's own."""
        let_step_locks_run_out(self.ledger)

    @rule()
    def clean_up(self) -> None:
        """What the throttle watch does when no run is under way."""
        if self._is_faultless() and self.state in ENDED_STATES:
            with suppress(RefusedError, ClusterError):
                self._sweep()
                self._restore_pending()

    def _sweep(self) -> None:
        """What the watch does first: it looks after what ended runs have in flight."""
        for run in self.ledger.runs():
            options = ExecutionOptions(run.run_id, self._plan_of(run), RATE, self.limits)
            admin: Any = self.watch.ours()
            sweeper = Driver(admin, self.ledger, options, self.clock, lambda _: None)
            for _ in range(20):
                wait = sweeper.sweep_step()
                if wait is None:
                    break
                self.cluster.advance(wait)
                self.watch.check()

    def _restore_pending(self) -> None:
        """What the watch does, also beside a run under way."""
        admin: Any = self.watch.ours()
        with self.ledger.step(self.plan.cluster) as step:
            restore_pending(admin, self.ledger, self.plan.cluster, step)

    def _plan_of(self, run: Run) -> RebalancePlan:
        return next(plan for plan in self.watch.plans if plan.fingerprint == run.fingerprint)

    # -- people

    @meanwhile(control=st.sampled_from(Control), number=st.integers(0, 2))
    def people_ask(self, control: Control, number: int) -> None:
        """Of the run when it is under way; of the cluster at any time."""
        if control in (Control.FREEZE, Control.UNFREEZE):
            until = self.clock() + timedelta(seconds=(5, 20, 100)[number])
            self._ask(control, run_id=None, until=until)
        elif control is Control.RATE:
            rate = (200_000, 1_500_000, 4_000_000)[number]
            self.watch.highest_rate = max(self.watch.highest_rate, rate)
            self._ask(control, rate_bytes_per_second=rate)
        elif self.state in UNDER_WAY_STATES:
            self._ask(control)

    def _ask(self, control: Control, **more: Any) -> None:
        asked = ControlRequest(
            self.plan.cluster, self.run_id, control, "airflow:carol", "because", self.clock()
        )
        self.ledger.record_request(replace(asked, **more))

    @precondition(
        lambda self: (
            self.state in ENDED_STATES and not self.watch.drifted and len(self.watch.plans) < 3
        )
    )
    @meanwhile()
    def undo(self) -> None:
        """A plan back to where everything was, from where everything is."""
        if not self._is_faultless():
            return
        back = [
            replace(
                m,
                replicas_before=p.replicas,
                replicas_after=m.replicas_before,
                leader_before=p.leader,
            )
            for m in MOVES
            if (p := self.cluster.partitions.get(m.topic_partition))
            and p.leader is not None
            and not p.is_moving
        ]
        back = [replace(m, topic_id=self.cluster.topic_ids[m.topic]) for m in back]
        self._restore_pending()
        self._propose(plan_by_hand(self.snapshot, Goal.IMPORTED, *back))

    # -- the cluster

    @meanwhile(seconds=st.sampled_from([0.5, 3.0, 12.0, 45.0, 300.0]))
    def time_passes(self, seconds: float) -> None:
        self.cluster.advance(seconds)

    @meanwhile(broker_id=brokers, how=st.sampled_from(["killed", "killed", "unnoticed", "frozen"]))
    def a_broker_is_lost(self, broker_id: int, how: str) -> None:
        self._lose(broker_id, how)

    def _lose(self, broker_id: int, how: str) -> None:
        if sum(map(self.cluster.is_responding, BROKERS)) <= 3 or not self.cluster.is_responding(
            broker_id
        ):
            return
        if how == "frozen":
            self.watch.freeze(broker_id)
        else:
            self.cluster.kill_broker(broker_id, noticed=how == "killed")

    @meanwhile(addressed=st.one_of(st.none(), brokers))
    def brokers_come_back(self, addressed: int | None) -> None:
        for broker_id in BROKERS:
            self._bring_back(broker_id)
        self.cluster.addressed_broker = addressed

    def _bring_back(self, broker_id: int) -> None:
        if self.cluster.brokers[broker_id].is_frozen:
            self.watch.thaw(broker_id)
        elif not self.cluster.is_responding(broker_id):
            self.cluster.restart_broker(broker_id)

    @meanwhile(broker_id=brokers)
    def the_broker_addressed_freezes(self, broker_id: int) -> None:
        self.cluster.addressed_broker = broker_id
        self._lose(broker_id, "frozen")

    @meanwhile(
        call=st.sampled_from((*MUTATING, "describe_topics", "describe_configs")),
        is_done=st.booleans(),
    )
    def a_call_is_lost(self, call: str, is_done: bool) -> None:
        if call not in MUTATING:
            self.cluster.fail_next(call, ClusterUnreachableError((("simulated", "no route"),)))
        elif is_done:
            self.cluster.lose_response_of_next(call)
        else:
            self.cluster.fail_next(call, lost_on_the_way())

    @meanwhile()
    def the_cluster_refuses_the_next_moves(self) -> None:
        self.watch.refusals = 1

    @meanwhile(tp=planned, lags=st.booleans())
    def leaders_and_followers_change(self, tp: TopicPartition, lags: bool) -> None:
        partition = self.cluster.partitions.get(tp)
        followers = (
            sorted(partition.isr & self.cluster.live_broker_ids - {partition.leader})
            if partition
            else []
        )
        if partition is None or partition.leader is None or not followers:
            return
        if not lags:
            partition.leader = followers[0]
        elif len(partition.isr) > 2:
            partition.isr.discard(followers[-1])
            partition.copied[followers[-1]] = partition.size_bytes / 2

    # -- foreign changes

    @meanwhile(
        tp=st.one_of(planned, st.just(TopicPartition("other", 0))), to=st.permutations([1, 2, 3, 4])
    )
    def somebody_else_moves(self, tp: TopicPartition, to: list[int]) -> None:
        partition = self.cluster.partitions.get(tp)
        if partition is not None:
            self.watch.move_as_somebody_else(tp, tuple(to[: len(partition.target)]))

    @meanwhile(
        broker_id=brokers,
        key=st.sampled_from(RATE_KEYS),
        rate=st.sampled_from((None, *FOREIGN_RATES)),
    )
    def somebody_else_sets_or_deletes_a_rate(
        self, broker_id: int, key: str, rate: str | None
    ) -> None:
        operation = ConfigOperation.SET if rate else ConfigOperation.DELETE
        self.watch.alter_as_somebody_else(
            ConfigChange(at_broker(broker_id), key, operation, rate or "")
        )

    @meanwhile(
        topic=st.sampled_from(["orders", "payments"]),
        key=st.sampled_from(LIST_KEYS),
        deletes=st.booleans(),
    )
    def somebody_else_changes_a_list(self, topic: str, key: str, deletes: bool) -> None:
        operation = ConfigOperation.DELETE if deletes else ConfigOperation.APPEND
        self.watch.alter_as_somebody_else(
            ConfigChange(of_topic(topic), key, operation, "" if deletes else "9:9")
        )

    @meanwhile(again=st.booleans())
    def somebody_else_changes_topics(self, again: bool) -> None:
        self.cluster.partitions.setdefault(
            TopicPartition("orders", 9), fresh_partition(TopicPartition("other", 0))
        )
        if "payments" in self.cluster.topic_ids:
            partitions = {
                tp: p for tp, p in self.cluster.partitions.items() if tp.topic == "payments"
            }
            self.cluster.delete_topic("payments")
            self.watch.topic_is_gone("payments")
            if again:
                self.cluster.topic_ids["payments"] = f"made-at-{self.cluster.now}"
                for tp in partitions:
                    fresh = fresh_partition(tp)
                    fresh.isr &= self.cluster.live_broker_ids
                    fresh.find_leader(self.cluster.live_broker_ids)
                    self.cluster.partitions[tp] = fresh

    # -- what has to hold

    @invariant()
    def promises_hold(self) -> None:
        self.watch.check()

    @invariant()
    def at_most_one_run_is_open(self) -> None:
        assert sum(run.state in OPEN_STATES for run in self.ledger.runs()) <= 1

    def _check_ledger(self) -> None:
        for run in self.ledger.runs():
            kinds = LedgerView.of(self.ledger).event_kinds(run.run_id)
            states = [RunState(kind) for kind in kinds if kind in set(RunState)]
            for earlier, later in pairwise(states):
                assert later in TRANSITIONS[earlier], f"promise 9: {earlier} became {later}"

    def teardown(self) -> None:
        try:
            if self.run_id:
                self._all_is_well_again()
                self._end()
                self._check_ledger()
        finally:
            self.ledger.close()
            shutil.rmtree(self.folder)

    def _all_is_well_again(self) -> None:
        self.cluster._failures.clear()
        self.cluster._lost_responses.clear()
        self.watch.refusals = 0
        self.cluster.addressed_broker = None
        for broker_id in BROKERS:
            self._bring_back(broker_id)
        self._ask(Control.UNFREEZE, run_id=None)
        self._ask(Control.RESUME)
        self.cluster.advance(100)
        self.watch.check()

    def _end(self) -> None:
        for _ in range(4):
            if self.state in UNDER_WAY_STATES:
                over = self._repeat(self.driver().settle_step, 300)
                assert over, (
                    f"promise 5: never settled: {self.ledger.journal(self.run_id).events()[-3:]}"
                )
            self._sweep()
        assert not self.watch.ours_in_flight()
        self._restore_pending()
        assert not self._pending_restores(), "promise 4: a pending restore that was possible"
        self.watch.check_settings_as_before()
        # Somebody's move that they sent back half-way never ends, and nothing may start beside it.
        is_alone = not self.cluster.list_reassignments()
        is_open = self.state in (RunState.APPROVED, RunState.HALTED)
        if is_open and is_alone and not self.watch.drifted:
            self._finish()

    def _finish(self) -> None:
        """Nobody stands in the way any more, so the plan can be carried out to its end."""
        driver = self.driver()
        driver.open()
        over = self._repeat(driver.step, 300) and self._repeat(driver.settle_step, 300)
        assert over and self.state is RunState.DONE, f"promise 5: {self.ledger.run(self.run_id)}"
        for m in self.plan.moves:
            partition = self.cluster.partitions[m.topic_partition]
            assert (partition.replicas, partition.leader) == (
                m.replicas_after,
                m.replicas_after[0],
            ), "promise 2"
        self.watch.check_settings_as_before()


def fresh_partition(tp: TopicPartition) -> SimulatedPartition:
    return simulated(PICTURE, racks=RACKS).partitions[tp]


TestPromises = Promises.TestCase
TestPromises.settings = settings(
    examples(40),
    stateful_step_count=50,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
