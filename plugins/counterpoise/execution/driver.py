"""The driver of a run: observes the cluster, updates the progress, decides, applies one command.

    driver = Driver(admin, ledger, options, clock, log)
    driver.open()                                   # refuses on drift; harmless when already open
    while (wait := driver.step()) is not None: ...  # None: everything is moved and elected
    while (wait := driver.settle_step()) is not None: ...   # None: the run has ended

`wait` are the seconds until the next step. The driver keeps nothing that the ledger and the cluster
do not have: kill it anywhere, make a new one, and it goes on.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from counterpoise.errors import (
    ClusterError,
    HaltedError,
    RefusedError,
    StalePlanError,
    WrongClusterError,
)
from counterpoise.execution.command_executor import (
    OBSERVE_SOON_SECONDS,
    READ_BACK_SECONDS,
    CommandExecutor,
    mark_restored,
)
from counterpoise.execution.commands import Command, Finish, Halt, MarkRestored, Wait
from counterpoise.execution.decide import next_command, settle_command
from counterpoise.execution.decision_inputs import DecisionInputs
from counterpoise.execution.halting import different_versions, stall_text
from counterpoise.execution.observation import (
    MoveState,
    Observation,
    drifted_before_start,
    moves_by_state,
)
from counterpoise.execution.observe import ObservationScope, observe
from counterpoise.execution.progress_update import (
    dead_brokers,
    ends_soon,
    stalled_links,
    update_progress,
)
from counterpoise.execution.throttle_read_back import brokers_that_disagree, throttled_brokers
from counterpoise.execution.throttles import dynamic_value, is_in_force, wanted_throttles
from counterpoise.kafka_admin.port import ClusterAdmin
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.policy import BalancePolicy, MovementPolicy
from counterpoise.model.request import Goal
from counterpoise.model.run import UNDER_WAY_STATES, RunState, TouchedKey
from counterpoise.model.run_progress import RunProgress
from counterpoise.model.words import join_ids, join_names, pluralize
from counterpoise.units import format_rate

if TYPE_CHECKING:
    from counterpoise.ledger import Journal, Ledger, StepLock

# Their plans are what brings unavailable partitions back.
_GOALS_FOR_UNAVAILABLE_PARTITIONS: Final = (Goal.REPAIR, Goal.REMOVE_BROKERS)


@dataclass(frozen=True)
class ExecutionOptions:
    """The plan to carry out, and how approval and policy allow it."""

    run_id: str
    plan: RebalancePlan
    rate_bytes_per_second: int
    limits: MovementPolicy
    disk_limit_percent: int = BalancePolicy().disk_limit_percent
    fleet_max_moves_in_flight: int | None = None
    approved_at: datetime | None = None  # None: whenever that was, it was before all requests


class Driver:
    def __init__(
        self,
        admin: ClusterAdmin,
        ledger: "Ledger",
        options: ExecutionOptions,
        clock: Callable[[], datetime],
        log: Callable[[str], None],
    ) -> None:
        plan = options.plan
        throttles = wanted_throttles(plan.moves, options.rate_bytes_per_second)
        self._admin = admin
        self._ledger = ledger
        self._journal: Journal = ledger.journal(options.run_id)
        self._options = options
        self._plan = plan
        self._clock = clock
        self._log = log
        disk_limit, approved_at = options.disk_limit_percent, options.approved_at
        self._scope = ObservationScope(
            options.run_id, plan, throttles.resources, disk_limit, approved_at
        )
        self._executor = CommandExecutor(
            admin, self._journal, log, may_resize=plan.goal is Goal.REPLICATION_FACTOR
        )

    def open(self) -> None:
        """Make the run RUNNING. A run that was opened before goes on.

        Raises StalePlanError on drift, WrongClusterError when another cluster answers, RefusedError
        when the cluster is in no state to move anything. Nothing has changed then.
        """
        state = self._ledger.run(self._options.run_id).state
        if state in UNDER_WAY_STATES:
            return
        observation = self._observe()
        self._check_drift(state, observation)
        self._check_health(observation)
        self._ledger.change_state(self._options.run_id, RunState.RUNNING)
        self._journal.update_progress(self._inputs(None, observation).run_progress)

    def step(self) -> float | None:
        """Observe once, and do what follows; return the seconds to wait.

        None when everything is moved and elected. Raises HaltedError when the run stops itself; it
        is SETTLING then.
        """
        if self._ledger.run(self._options.run_id).state is not RunState.RUNNING:
            return None
        with self._journal.step_lock() as lock:
            inputs, command = self._decide(next_command, lock)
            if isinstance(command, Finish):
                return None
            if isinstance(command, Halt):
                raise self._halt(command, inputs, lock)
            try:
                wait_seconds = self._apply(command, inputs, lock)
            except ClusterError as error:
                if error.retryable:
                    raise
                raise self._halt(Halt(str(error)), inputs, lock) from error
            if ends_soon(inputs.run_progress):
                return min(wait_seconds, OBSERVE_SOON_SECONDS)
            return wait_seconds

    def settle_step(self) -> float | None:
        """Go one step towards the end of a run; return the seconds to wait, None when it has ended.

        First nothing of ours is in flight any more, then every throttle key is as it was.
        """
        run = self._ledger.run(self._options.run_id)
        if run.state is RunState.RUNNING:
            self._ledger.change_state(run.run_id, RunState.SETTLING)
        elif run.state is not RunState.SETTLING:
            return None
        with self._journal.step_lock() as lock:
            inputs, command = self._decide(settle_command, lock)
            if isinstance(command, Finish):
                return self._close(inputs.observation, command.pending_restores, lock)
            return self._apply(command, inputs, lock)

    def check_cluster(self) -> None:
        """Raise WrongClusterError when another cluster answers than the plan is for."""
        self._observe()

    # -- observing and deciding

    def _decide(
        self, decide: Callable[[DecisionInputs], Command], lock: "StepLock"
    ) -> tuple[DecisionInputs, Command]:
        """Observe, keep the progress, and return the command that follows.

        Keys that turn out to be as before are recorded as restored on the way.
        """
        previous = self._journal.run_progress()
        inputs = self._inputs(previous, self._observe())
        command = decide(inputs)
        lock.check()
        while isinstance(command, MarkRestored):
            self._apply(command, inputs, lock)
            observation = replace(inputs.observation, touched_keys=self._journal.touched())
            inputs = replace(inputs, observation=observation)
            command = decide(inputs)
        self._keep_progress(previous, inputs, command)
        return inputs, command

    def _inputs(self, previous: RunProgress | None, observation: Observation) -> DecisionInputs:
        options = self._options
        by_state = moves_by_state(self._plan.moves, observation)
        run_progress = update_progress(
            previous,
            observation,
            by_state,
            self._plan,
            options.limits,
            options.rate_bytes_per_second,
        )
        return DecisionInputs(
            plan=self._plan,
            observation=observation,
            by_state=by_state,
            run_progress=run_progress,
            limits=options.limits,
            fleet_max_moves_in_flight=options.fleet_max_moves_in_flight,
        )

    def _observe(self) -> Observation:
        observation = observe(self._admin, self._ledger, self._scope, self._clock())
        planned_id = self._plan.cluster_id
        if planned_id and observation.cluster_id != planned_id:
            raise WrongClusterError(
                f"the plan is for cluster id {planned_id}, but {observation.cluster_id} answered: "
                "nothing changed; check the bootstrap addresses"
            )
        self._record(observation)
        return observation

    def _record(self, observation: Observation) -> None:
        """Record moves that have arrived, and keys that are read back for the first time."""

        def has_arrived(move: Move) -> bool:
            submission = observation.submissions.get(move.topic_partition)
            if submission is None or submission.done_at is not None:
                return False
            return observation.state_of(move) is MoveState.DONE

        arrived = [move.topic_partition for move in self._plan.moves if has_arrived(move)]
        if arrived:
            self._journal.done(arrived)
        configs = observation.configs
        read_back = [
            (touched, dynamic_value(configs, *touched.resource_key))
            for touched in observation.touched_keys
            if touched.during_value is None
            and touched.restored_at is None
            and is_in_force(touched, configs)
        ]
        if read_back:
            self._journal.read_back(read_back)

    def _keep_progress(
        self, previous: RunProgress | None, inputs: DecisionInputs, command: Command
    ) -> None:
        """Keep the progress in the ledger, and record a changed back-off and new stalls."""
        run_progress = inputs.run_progress
        reason = command.reason if isinstance(command, (Wait, Halt)) else ""
        cancels = isinstance(command, Halt) and command.cancels
        self._journal.update_progress(
            replace(
                run_progress,
                waits_for=reason,
                is_cancelling=run_progress.is_cancelling or cancels,
            )
        )
        if previous is None:
            return
        if previous.back_off_level != run_progress.back_off_level:
            self._executor.record_event("brake", _back_off_text(previous, run_progress))
        known = {link.name for link in stalled_links(previous, inputs.limits)}
        stalled = stalled_links(run_progress, inputs.limits)
        new = [stall_text(link, run_progress) for link in stalled if link.name not in known]
        if new:
            self._executor.record_event(
                "stall",
                f"{join_names(new)}: check network and disk there, or raise the throttle "
                "with `counterpoise rate`",
            )

    # -- acting

    def _apply(self, command: Command, inputs: DecisionInputs, lock: "StepLock") -> float:
        rate = inputs.run_progress.rate_bytes_per_second
        return self._executor.apply(command, inputs.observation, rate, lock)

    def _halt(self, halt: Halt, inputs: DecisionInputs, lock: "StepLock") -> HaltedError:
        lock.check()
        self._ledger.change_state(self._options.run_id, RunState.SETTLING, halt.reason)
        if cancel := inputs.observation.active_requests.cancelled:
            self._ledger.mark_request_done(cancel)
        return HaltedError(f"run {self._options.run_id} halted: {halt.reason}")

    def _check_drift(self, state: RunState, observation: Observation) -> None:
        foreign = observation.conditions.foreign_reassignments
        if foreign:
            raise StalePlanError(
                "somebody else is reassigning partitions of this cluster "
                f"({join_names(foreign)}); wait for their end"
            )
        if state is RunState.APPROVED:
            drifted = drifted_before_start(self._plan.moves, observation)
        else:
            drifted = self._drifted_since_start(observation)
        if drifted:
            names = join_names([move.topic_partition for move in drifted])
            raise StalePlanError(
                f"{pluralize(len(drifted), 'partition')} changed since the plan was made "
                f"({names}); make a new plan"
            )

    def _drifted_since_start(self, observation: Observation) -> tuple[Move, ...]:
        drifted_states = (MoveState.DRIFTED, MoveState.FOREIGN, MoveState.GONE)
        return tuple(
            move for move in self._plan.moves if observation.state_of(move) in drifted_states
        )

    def _check_health(self, observation: Observation) -> None:
        if freeze := observation.active_requests.frozen:
            raise RefusedError(
                f"cluster {self._plan.cluster} is {freeze.frozen_in_words}; nothing may start "
                "before `counterpoise unfreeze` or the end of the freeze"
            )
        if upgrade := different_versions(observation):
            raise RefusedError(upgrade)
        by_state = moves_by_state(self._plan.moves, observation)
        if dead := sorted(dead_brokers(by_state, observation)):
            raise RefusedError(
                f"brokers of the plan are dead: {', '.join(map(str, dead))}; bring them back, or "
                "make a new plan"
            )
        unavailable = observation.conditions.unavailable_partitions
        if unavailable and self._plan.goal not in _GOALS_FOR_UNAVAILABLE_PARTITIONS:
            affected = pluralize(
                len(unavailable),
                "partition outside the plan takes",
                "partitions outside the plan take",
            )
            them = "it" if len(unavailable) == 1 else "them"
            raise RefusedError(
                f"{affected} no writes ({join_names(unavailable)}): repair {them} first, for "
                "example with a plan of the goal repair"
            )

    # -- closing

    def _close(
        self,
        observation: Observation,
        pending_restores: tuple[TouchedKey, ...],
        lock: "StepLock",
    ) -> float | None:
        """End the run when every broker that responds reports each key as it was.

        One that does not respond has none of our rates any more, and reads the metadata log before
        it serves again.
        """
        responding = observation.live_broker_ids - observation.unresponsive_broker_ids
        concerned = throttled_brokers(*self._plan.moves) & responding
        touched_keys, configs = observation.touched_keys, observation.configs
        if stale := brokers_that_disagree(self._admin, touched_keys, configs, concerned):
            ids = join_ids(stale)
            brokers = f"broker {ids} does" if len(stale) == 1 else f"brokers {ids} do"
            self._log(f"waiting: {brokers} not report the restored configs yet")
            return READ_BACK_SECONDS
        lock.check()
        restored = [t for t in touched_keys if t.restored_at is None and t not in pending_restores]
        mark_restored(self._journal, restored, configs)
        if cancel := observation.active_requests.cancelled:  # came while it settled
            self._ledger.mark_request_done(cancel)
        for touched in pending_restores:
            self._journal.restore_later(
                touched, f"broker {touched.resource.name} is dead: restored when it returns"
            )
        state, reason = self._end_state(observation, pending_restores)
        self._ledger.change_state(self._options.run_id, state, reason)
        return None

    def _end_state(
        self, observation: Observation, pending_restores: tuple[TouchedKey, ...]
    ) -> tuple[RunState, str]:
        def is_as_planned(move: Move) -> bool:
            is_done = observation.state_of(move) is MoveState.DONE
            return is_done and observation.has_planned_leader(move)

        unfinished = [move for move in self._plan.moves if not is_as_planned(move)]
        gone = [move for move in unfinished if observation.state_of(move) is MoveState.GONE]
        pending = ""
        if pending_restores:
            keys = pluralize(len(pending_restores), "config key")
            pending = (
                f"{keys} of dead brokers to restore: restored by `counterpoise watch --cluster "
                f"{self._plan.cluster}`, or by kafka_throttle_watch, when they return"
            )
        if len(unfinished) == len(gone):
            whose = "its" if len(gone) == 1 else "their"
            skipped = (
                f"{pluralize(len(gone), 'partition')} skipped: {whose} topic is gone"
                if gone
                else ""
            )
            return RunState.DONE, "; ".join(filter(None, (skipped, pending)))
        reason = self._ledger.run(self._options.run_id).reason or "interrupted"
        undone = (
            f"{len(unfinished)} of {pluralize(len(self._plan.moves), 'partition')} not as planned"
        )
        return RunState.HALTED, "; ".join(filter(None, (reason, undone, pending)))


def _back_off_text(previous: RunProgress, run_progress: RunProgress) -> str:
    rate = f"at most {format_rate(run_progress.rate_bytes_per_second)} per broker"
    if run_progress.back_off_level > previous.back_off_level:
        return f"slower, {rate}: partitions outside the plan lost in-sync replicas"
    return f"faster, {rate}: partitions outside the plan have their replicas in sync again"
