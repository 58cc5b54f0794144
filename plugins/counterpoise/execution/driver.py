"""The hands of a run: looks at the cluster, asks `decide`, writes the intent, applies one command, records.

    driver = Driver(admin, ledger, orders, clock, log)
    driver.open()                                   # refuses on drift; harmless when the run is already open
    while (wait := driver.step()) is not None: ...  # again after `wait` seconds; None: all is moved and elected
    while (wait := driver.settle_step()) is not None: ...

It holds no state that the ledger and the cluster do not: kill it anywhere, make a new one, and it goes on.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from counterpoise.errors import ClusterError, HaltedError, StalePlanError, UnknownOutcomeError, WrongClusterError
from counterpoise.execution import decide
from counterpoise.execution.look import look
from counterpoise.execution.observation import MoveState, Observation, drifted_before_start
from counterpoise.execution.throttles import (
    ThrottleTarget,
    broker,
    missing,
    own_value,
    touches,
    wanted_throttles,
)
from counterpoise.kafka_admin.port import ClusterAdmin
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import LIST_KEYS, RATE_KEYS, CallResults, ConfigChange, ConfigResource, ConfigResourceType
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.request import Goal
from counterpoise.model.run import Progress, RunState, TouchedKey
from counterpoise.units import format_rate

if TYPE_CHECKING:
    from counterpoise.ledger import Journal, Ledger, Step

LOOK_AGAIN_SECONDS: Final = 2.0  # while partitions move
READ_BACK_SECONDS: Final = 0.3  # after something was written
_MOST_BROKERS_ASKED_AT_ONCE: Final = 16


@dataclass(frozen=True)
class Orders:
    """What is to be carried out: the plan, and how the approval says."""

    run_id: str
    plan: RebalancePlan
    rate_bytes_per_second: int
    limits: MovementPolicy


class Driver:
    def __init__(
        self,
        admin: ClusterAdmin,
        ledger: "Ledger",
        orders: Orders,
        clock: Callable[[], datetime],
        log: Callable[[str], None],
    ) -> None:
        self._admin = admin
        self._ledger = ledger
        self._journal: Journal = ledger.journal(orders.run_id)
        self._orders = orders
        self._plan = orders.plan
        self._clock = clock
        self._log = log
        self._target: ThrottleTarget = wanted_throttles(orders.plan.moves, orders.rate_bytes_per_second)
        self._last_look: Observation | None = None  # for showing only

    def open(self) -> None:
        """Makes the run RUNNING. A run that was opened before goes on.

        Raises StalePlanError on drift, WrongClusterError when another cluster answers. Nothing has changed then.
        """
        state = self._ledger.run(self._orders.run_id).state
        if state in (RunState.RUNNING, RunState.SETTLING):
            return
        seen = self._look()
        if seen.foreign_reassignments:
            names = ", ".join(map(str, seen.foreign_reassignments[:5]))
            raise StalePlanError(
                f"somebody else is reassigning partitions of this cluster ({names}); wait for their end"
            )
        drifted = drifted_before_start(self._plan.moves, seen) if state is RunState.APPROVED else self._strayed(seen)
        if drifted:
            names = ", ".join(str(move.topic_partition) for move in drifted[:5])
            raise StalePlanError(
                f"{len(drifted)} partitions changed since the plan was made ({names}); make a new plan"
            )
        self._ledger.change_state(self._orders.run_id, RunState.RUNNING)

    def step(self) -> float | None:
        """One look and what follows from it; the seconds to wait, or None when everything is moved and elected.

        Raises HaltedError when the run stops itself; it is SETTLING then.
        """
        if self._ledger.run(self._orders.run_id).state is not RunState.RUNNING:
            return None
        with self._journal.step() as step:
            seen = self._look()
            command = decide.next_command(self._plan, seen, self._target, self._orders.limits)
            if isinstance(command, decide.Finish):
                return None
            if isinstance(command, decide.Halt):
                raise self._halted(command.reason)
            try:
                return self._apply(command, seen, step)
            except ClusterError as error:
                if error.retryable:
                    raise
                raise self._halted(str(error)) from error

    def settle_step(self) -> float | None:
        """One look towards the end of a run: nothing in flight, then every config as it was. None when it is over."""
        run = self._ledger.run(self._orders.run_id)
        if run.state is RunState.RUNNING:
            self._ledger.change_state(run.run_id, RunState.SETTLING)
        elif run.state is not RunState.SETTLING:
            return None
        with self._journal.step() as step:
            seen = self._look()
            command = decide.settle_command(self._plan, seen, self._target)
            if isinstance(command, decide.Finish):
                return self._close(seen, command.owed)
            return self._apply(command, seen, step)

    def progress(self) -> Progress:
        """As of the last look."""
        seen = self._last_look or self._look()
        by_state = decide.moves_by_state(self._plan.moves, seen)
        done = by_state[MoveState.DONE]
        copied = sum(move.copied_bytes for move in done)
        copied += sum(
            min(move.copied_bytes, seen.copied_bytes.get(move.topic_partition, 0))
            for move in by_state[MoveState.MOVING]
        )
        return Progress(
            moves_done=len(done),
            moves_total=len(self._plan.moves),
            moves_in_flight=len(by_state[MoveState.MOVING]),
            copied_bytes=copied,
            total_bytes=self._plan.copied_bytes,
            elections_left=sum(not seen.is_led_as_planned(move) for move in done),
        )

    def _halted(self, reason: str) -> HaltedError:
        self._ledger.change_state(self._orders.run_id, RunState.SETTLING, reason)
        return HaltedError(f"run {self._orders.run_id} halted: {reason}")

    def _look(self) -> Observation:
        seen = look(self._admin, self._journal, self._plan, self._target, self._clock())
        if self._plan.cluster_id and seen.cluster_id != self._plan.cluster_id:
            raise WrongClusterError(
                f"the plan is for cluster id {self._plan.cluster_id}, but {seen.cluster_id} answered: nothing changed"
            )
        arrived = [
            move.topic_partition
            for move in self._plan.moves
            if seen.state_of(move) is MoveState.DONE
            and (sent := seen.submissions.get(move.topic_partition))
            and sent.done_at is None
        ]
        self._journal.done(arrived)
        self._last_look = seen
        return seen

    def _strayed(self, seen: Observation) -> tuple[Move, ...]:
        strange = (MoveState.DRIFTED, MoveState.FOREIGN, MoveState.GONE)
        return tuple(move for move in self._plan.moves if seen.state_of(move) in strange)

    def _apply(self, command: decide.Command, seen: Observation, step: "Step") -> float:
        match command:
            case decide.Wait(reason):
                self._log(reason)
                return LOOK_AGAIN_SECONDS
            case decide.Throttle(changes):
                return self._throttle(changes, seen, step)
            case decide.Submit(moves):
                return self._submit(moves, seen, step)
            case decide.Elect(moves):
                return self._elect(moves, step)
            case decide.Cancel(moves, reason):
                self._tell("cancelling", f"{_count(moves)}: {reason}")
                return self._reassign({move.topic_partition: None for move in moves}, step)
            case decide.RestoreOrder(moves):
                return self._reassign({move.topic_partition: move.replicas_before for move in moves}, step)
            case decide.Restore(keys):
                return self._restore(keys, step)
        raise AssertionError(f"{command} is not applied")

    def _throttle(self, changes: tuple[ConfigChange, ...], seen: Observation, step: "Step") -> float:
        topic_ids = {tp.topic: partition.topic_id for tp, partition in seen.partitions.items()}
        ours = touches(changes, seen.configs, topic_ids)
        known = {(touched.resource, touched.key) for touched in seen.touched if touched.restored_at is None}
        if gaps := [t for t in ours if (t.resource, t.key) in known]:
            self._journal.event("throttle gap", f"{len(gaps)} throttle keys were not as we left them; set again")
        self._journal.touching(ours)
        self._tell("throttling", f"{len(changes)} config keys, {format_rate(self._orders.rate_bytes_per_second)}")
        self._alter_configs(changes, step)
        return READ_BACK_SECONDS

    def _submit(self, moves: tuple[Move, ...], seen: Observation, step: "Step") -> float:
        copying = [move for move in moves if move.adding]
        if copying:
            if not self._is_throttled(copying, seen.live_broker_ids):
                self._log("the throttle has not reached every broker yet")
                return READ_BACK_SECONDS
            self._record_values_during(seen)
        partitions = [move.topic_partition for move in moves]
        self._journal.submitting(partitions)
        self._tell("moving", _count(moves))
        targets = {move.topic_partition: move.replicas_after for move in moves}
        wait = self._reassign(targets, step, may_resize=self._plan.goal is Goal.REPLICATION_FACTOR)
        self._journal.answered(partitions)
        return wait if copying else READ_BACK_SECONDS

    def _reassign(
        self, targets: Mapping[TopicPartition, tuple[int, ...] | None], step: "Step", *, may_resize: bool = False
    ) -> float:
        """`may_resize` lifts the cluster's guard over the number of replicas (KIP-860)."""
        step.check()
        results = self._admin.alter_reassignments(targets, may_change_replication_factor=may_resize)
        self._note_errors("reassignment", results)
        return LOOK_AGAIN_SECONDS if not results.errors else LOOK_AGAIN_SECONDS * 2

    def _elect(self, moves: tuple[Move, ...], step: "Step") -> float:
        partitions = [move.topic_partition for move in moves]
        self._journal.electing(partitions)
        self._tell("electing", _count(moves))
        step.check()
        try:
            self._note_errors("election", self._admin.elect_preferred_leaders(partitions))
        except UnknownOutcomeError as error:  # harmless: the next look sees who leads
            self._log(str(error))
        return READ_BACK_SECONDS

    def _restore(self, keys: Sequence[tuple[TouchedKey, ConfigChange]], step: "Step") -> float:
        self._tell("restoring", f"{len(keys)} config keys")
        self._alter_configs([change for _, change in keys], step)
        return READ_BACK_SECONDS

    def _alter_configs(self, changes: Sequence[ConfigChange], step: "Step") -> None:
        step.check()
        self._note_errors("config change", self._admin.alter_configs(changes))

    def _is_throttled(self, moves: Sequence[Move], live_broker_ids: frozenset[int]) -> bool:
        """Whether each broker concerned says, asked by itself, that the throttle of these moves is in force there.

        A dead broker that the moves only lead away from neither answers nor copies.
        """
        target = wanted_throttles(moves, self._orders.rate_bytes_per_second)
        concerned = {b for move in moves for b in (*move.replicas_before, *move.adding)}
        broker_ids = sorted(concerned & live_broker_ids)
        topics = [r for r in target.resources if r.type is ConfigResourceType.TOPIC]

        def is_in_force(broker_id: int) -> bool:
            configs = dict(self._admin.describe_configs(topics, LIST_KEYS, via_broker=broker_id))
            configs |= self._admin.describe_configs([broker(broker_id)], RATE_KEYS)
            own_rates = frozenset(rate for rate in target.rates if rate[0] == broker(broker_id))
            return not missing(ThrottleTarget(target.rate_bytes_per_second, own_rates, target.lists), configs)

        return all(_side_by_side(is_in_force, broker_ids))

    def _record_values_during(self, seen: Observation) -> None:
        """What the keys hold while they are ours: nothing is submitted before a look finds all of them in force."""
        unseen = [t for t in seen.touched if t.during_value is None]
        if unseen:
            self._journal.seen_during([(t, own_value(seen.configs, t.resource, t.key)) for t in unseen])

    def _close(self, seen: Observation, owed: tuple[TouchedKey, ...]) -> float | None:
        """Proves that every key is as it was, on each broker, and ends the run."""
        if not self._all_brokers_agree(seen):
            self._log("not every broker has seen the restored configs yet")
            return READ_BACK_SECONDS
        for touched in seen.touched:
            if touched.restored_at is None and touched not in owed:
                value = own_value(seen.configs, touched.resource, touched.key)
                outcome = "as before" if value == touched.before_value else "changed by somebody else; left as it is"
                self._journal.restored(touched, value, outcome)
        for touched in owed:
            self._journal.owed(touched, f"owed: broker {touched.resource.name} is dead")
        left = [m for m in self._plan.moves if seen.state_of(m) is not MoveState.DONE or not seen.is_led_as_planned(m)]
        gone = [m for m in left if seen.state_of(m) is MoveState.GONE]
        debts = f"{len(owed)} debt(s): config keys of dead brokers" if owed else ""
        if len(left) == len(gone):
            skipped = f"{len(gone)} partitions skipped: their topic is gone" if gone else ""
            self._ledger.change_state(self._orders.run_id, RunState.DONE, "; ".join(filter(None, (skipped, debts))))
        else:
            reason = self._ledger.run(self._orders.run_id).reason or "interrupted"
            why = "; ".join(
                filter(None, (reason, f"{len(left)} of {len(self._plan.moves)} partitions not as planned", debts))
            )
            self._ledger.change_state(self._orders.run_id, RunState.HALTED, why)
        return None

    def _all_brokers_agree(self, seen: Observation) -> bool:
        topics = sorted({t.resource for t in seen.touched if t.resource.type is ConfigResourceType.TOPIC})
        concerned = {b for move in self._plan.moves for b in (*move.replicas_before, *move.adding)}
        keys = [t for t in seen.touched if t.resource in topics]

        def agrees(broker_id: int) -> bool:
            configs = self._admin.describe_configs(topics, LIST_KEYS, via_broker=broker_id)
            return all(
                own_value(configs, t.resource, t.key) == own_value(seen.configs, t.resource, t.key) for t in keys
            )

        return not topics or all(_side_by_side(agrees, sorted(concerned & seen.live_broker_ids)))

    def _tell(self, kind: str, text: str) -> None:
        """What is about to be done, for the record and for whoever watches."""
        self._journal.event(kind, text)
        self._log(f"{kind}: {text}")

    def _note_errors(self, what: str, results: CallResults[TopicPartition] | CallResults[ConfigResource]) -> None:
        """Errors of single subjects are kept; the next look decides what follows from them."""
        for subject, reason in list(results.errors.items())[:20]:
            name = f"{subject.type} {subject.name}" if isinstance(subject, ConfigResource) else str(subject)
            self._journal.event(f"{what} refused", f"{name}: {reason}")
            self._log(f"{what} refused for {name}: {reason}")
        if results.errors and not results.accepted:
            subject, reason = next(iter(results.errors.items()))
            raise ClusterError(
                f"{what}: the cluster refused all {len(results.errors)}, for example {subject}: {reason}"
            )


def _side_by_side(ask: Callable[[int], bool], broker_ids: Iterable[int]) -> list[bool]:
    with ThreadPoolExecutor(_MOST_BROKERS_ASKED_AT_ONCE) as pool:
        return list(pool.map(ask, broker_ids))


def _count(moves: Sequence[Move]) -> str:
    return "1 partition" if len(moves) == 1 else f"{len(moves)} partitions"
