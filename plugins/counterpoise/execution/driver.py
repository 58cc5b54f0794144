"""The driver of a run: looks at the cluster, takes the pulse, asks `decide`, and lets `hands` apply
one command.

    driver = Driver(admin, ledger, orders, clock, log)
    driver.open()                                   # refuses on drift; harmless when the run is already open
    while (wait := driver.step()) is not None: ...  # again after `wait` seconds; None: all is moved and elected
    while (wait := driver.settle_step()) is not None: ...

It holds no state that the ledger and the cluster do not: kill it anywhere, make a new one, and it
goes on.
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
    LOOK_SOON_SECONDS,
    READ_BACK_SECONDS,
    CommandExecutor,
    outcome_of,
)
from counterpoise.execution.commands import Command, Finish, Halt, Release, Wait
from counterpoise.execution.decide import PlanningResult, next_command, settle_command
from counterpoise.execution.halting import different_versions
from counterpoise.execution.observation import (
    MoveState,
    Observation,
    States,
    drifted_before_start,
    moves_by_state,
)
from counterpoise.execution.observe import View, look
from counterpoise.execution.progress_update import (
    dead_brokers,
    ends_soon,
    stalled_links,
    update_progress,
)
from counterpoise.execution.throttle_read_back import brokers_of, brokers_that_disagree
from counterpoise.execution.throttles import is_in_force, own_value, wanted_throttles
from counterpoise.kafka_admin.port import ClusterAdmin
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.policy import BalancePolicy, MovementPolicy
from counterpoise.model.request import Goal
from counterpoise.model.run import UNDER_WAY_STATES, RunState, TouchedKey
from counterpoise.model.run_progress import RunProgress
from counterpoise.model.words import join_names
from counterpoise.units import format_rate

if TYPE_CHECKING:
    from counterpoise.ledger import Journal, Ledger, Step

_GOALS_FOR_SICK_CLUSTERS: Final = (Goal.REPAIR, Goal.REMOVE_BROKERS)


@dataclass(frozen=True)
class ExecutionOptions:
    """What is to be carried out: the plan, and how approval and policy say."""

    run_id: str
    plan: RebalancePlan
    rate_bytes_per_second: int
    limits: MovementPolicy
    disk_limit_percent: int = BalancePolicy().disk_limit_percent
    fleet_max_moves_in_flight: int | None = None


class Driver:
    def __init__(
        self,
        admin: ClusterAdmin,
        ledger: "Ledger",
        options: ExecutionOptions,
        clock: Callable[[], datetime],
        log: Callable[[str], None],
    ) -> None:
        self._admin = admin
        self._ledger = ledger
        self._journal: Journal = ledger.journal(options.run_id)
        self._options = options
        self._plan = options.plan
        self._clock = clock
        self._log = log
        self._resources = wanted_throttles(
            options.plan.moves, options.rate_bytes_per_second
        ).resources
        self._command_executor = CommandExecutor(
            admin, self._journal, log, may_resize=options.plan.goal is Goal.REPLICATION_FACTOR
        )

    def open(self) -> None:
        """Makes the run RUNNING. A run that was opened before goes on.

        Raises StalePlanError on drift, WrongClusterError when another cluster answers, RefusedError
        when the cluster is in no state to move anything. Nothing has changed then.
        """
        state = self._ledger.run(self._options.run_id).state
        if state in UNDER_WAY_STATES:
            return
        seen = self._look()
        drifted = (
            drifted_before_start(self._plan.moves, seen)
            if state is RunState.APPROVED
            else self._strayed(seen)
        )
        if seen.around.reassignments:
            raise StalePlanError(
                "somebody else is reassigning partitions of this cluster "
                f"({join_names([str(tp) for tp in seen.around.reassignments])}); wait for their end"
            )
        if drifted:
            names = join_names([str(move.topic_partition) for move in drifted])
            raise StalePlanError(
                f"{len(drifted)} partitions changed since the plan was made ({names}); make a new plan"
            )
        by_state = moves_by_state(self._plan.moves, seen)
        self._check_health(seen, by_state)
        self._ledger.change_state(self._options.run_id, RunState.RUNNING)
        self._journal.update_progress(self._run_progress(None, seen, by_state))

    def step(self) -> float | None:
        """One look and what follows from it; the seconds to wait, or None when everything is moved
        and elected.

        Raises HaltedError when the run stops itself; it is SETTLING then.
        """
        if self._ledger.run(self._options.run_id).state is not RunState.RUNNING:
            return None
        with self._journal.step() as step:
            planning_result, command = self._decided(next_command, step)
            if isinstance(command, Finish):
                return None
            if isinstance(command, Halt):
                raise self._halted(command, planning_result, step)
            try:
                wait = self._apply(command, planning_result, step)
            except ClusterError as error:
                if error.retryable:
                    raise
                raise self._halted(Halt(str(error)), planning_result, step) from error
            return min(wait, LOOK_SOON_SECONDS) if ends_soon(planning_result.run_progress) else wait

    def settle_step(self) -> float | None:
        """One look towards the end of a run: nothing in flight, then every config as it was.

        None when it is over.
        """
        run = self._ledger.run(self._options.run_id)
        if run.state is RunState.RUNNING:
            self._ledger.change_state(run.run_id, RunState.SETTLING)
        elif run.state is not RunState.SETTLING:
            return None
        with self._journal.step() as step:
            planning_result, command = self._decided(settle_command, step)
            if isinstance(command, Finish):
                return self._close(planning_result.seen, command.owed, step)
            return self._apply(command, planning_result, step)

    def check_cluster(self) -> None:
        """Raises WrongClusterError when another cluster answers than the plan is for."""
        self._look()

    # -- looking

    def _decided(
        self, decide: Callable[[PlanningResult], Command], step: "Step"
    ) -> tuple[PlanningResult, Command]:
        """One look, its pulse kept, and the command that follows; keys that turn out to be as
        before are noted.
        """
        seen = self._look()
        by_state = moves_by_state(self._plan.moves, seen)
        previous = self._journal.run_progress()
        planning_result = PlanningResult(
            plan=self._plan,
            seen=seen,
            by_state=by_state,
            run_progress=self._run_progress(previous, seen, by_state),
            limits=self._options.limits,
            fleet_limit=self._options.fleet_max_moves_in_flight,
        )
        command = decide(planning_result)
        step.check()
        while isinstance(command, Release):
            self._apply(command, planning_result, step)
            planning_result = replace(
                planning_result, seen=replace(seen, touched=self._journal.touched())
            )
            command = decide(planning_result)
        self._note(previous, planning_result, command)
        return planning_result, command

    def _run_progress(
        self, previous: RunProgress | None, seen: Observation, by_state: States
    ) -> RunProgress:
        return update_progress(
            previous,
            seen,
            by_state,
            self._plan,
            self._options.limits,
            self._options.rate_bytes_per_second,
        )

    def _look(self) -> Observation:
        plan = self._plan
        view = View(self._options.run_id, plan, self._resources, self._options.disk_limit_percent)
        seen = look(self._admin, self._ledger, view, self._clock())
        if plan.cluster_id and seen.cluster_id != plan.cluster_id:
            raise WrongClusterError(
                f"the plan is for cluster id {plan.cluster_id}, but {seen.cluster_id} answered: nothing changed"
            )
        self._record(seen)
        return seen

    def _record(self, seen: Observation) -> None:
        """What this look proves: moves that arrived, and keys that hold what is ours."""
        arrived = [
            move.topic_partition
            for move in self._plan.moves
            if (sent := seen.submissions.get(move.topic_partition))
            and sent.done_at is None
            and seen.state_of(move) is MoveState.DONE
        ]
        if arrived:
            self._journal.done(arrived)
        unseen = [t for t in seen.touched if t.during_value is None and t.restored_at is None]
        if in_force := [t for t in unseen if is_in_force(t, seen.configs)]:
            self._journal.seen_during(
                [(t, own_value(seen.configs, t.resource, t.key)) for t in in_force]
            )

    def _note(
        self, previous: RunProgress | None, planning_result: PlanningResult, command: Command
    ) -> None:
        """Keeps the pulse, and says what is worth a word beside the command itself."""
        run_progress = planning_result.run_progress
        saying = command.reason if isinstance(command, (Wait, Halt)) else ""
        is_cancelling = run_progress.is_cancelling or (
            isinstance(command, Halt) and command.cancels
        )
        self._journal.update_progress(
            replace(run_progress, saying=saying, is_cancelling=is_cancelling)
        )
        if previous is None:
            return
        if previous.brake != run_progress.brake:
            what = (
                "slower, clients outside the plan suffer"
                if run_progress.brake > previous.brake
                else "faster, all is calm"
            )
            self._command_executor.tell(
                "brake", f"{what}: {format_rate(run_progress.rate_bytes_per_second)}"
            )
        stalled = {link.name for link in stalled_links(run_progress, planning_result.limits)}
        if new := sorted(
            stalled - {link.name for link in stalled_links(previous, planning_result.limits)}
        ):
            self._command_executor.tell("stall", f"nothing becomes less to copy: {join_names(new)}")

    # -- acting

    def _apply(self, command: Command, planning_result: PlanningResult, step: "Step") -> float:
        return self._command_executor.apply(
            command, planning_result.seen, planning_result.run_progress.rate_bytes_per_second, step
        )

    def _halted(self, halt: Halt, planning_result: PlanningResult, step: "Step") -> HaltedError:
        step.check()
        self._ledger.change_state(self._options.run_id, RunState.SETTLING, halt.reason)
        if asked := planning_result.seen.standing.cancelled:
            self._ledger.obeyed(asked)
        return HaltedError(f"run {self._options.run_id} halted: {halt.reason}")

    def _check_health(self, seen: Observation, by_state: States) -> None:
        if frozen := seen.standing.frozen:
            raise RefusedError(
                f"cluster {self._plan.cluster} is frozen by {frozen.by}: {frozen.why}; nothing may start"
            )
        if upgrade := different_versions(seen):
            raise RefusedError(upgrade)
        if dead := sorted(dead_brokers(by_state, seen)):
            raise RefusedError(
                f"brokers of the plan are dead: {', '.join(map(str, dead))}; bring them back, or make a new plan"
            )
        if seen.around.stopped and self._plan.goal not in _GOALS_FOR_SICK_CLUSTERS:
            raise RefusedError(
                f"{len(seen.around.stopped)} partitions outside the plan take no writes "
                f"({join_names(seen.around.stopped)}): mend them first, for example with a plan of the goal repair"
            )

    def _strayed(self, seen: Observation) -> tuple[Move, ...]:
        strange = (MoveState.DRIFTED, MoveState.FOREIGN, MoveState.GONE)
        return tuple(move for move in self._plan.moves if seen.state_of(move) in strange)

    # -- closing

    def _close(self, seen: Observation, owed: tuple[TouchedKey, ...], step: "Step") -> float | None:
        """Proves that every key is as it was, on each broker that answers, and ends the run.

        One that is silent holds none of our rates any more, and reads the metadata log before it
        serves again.
        """
        answering = seen.live_broker_ids - seen.silent_broker_ids
        concerned = brokers_of(*self._plan.moves) & answering
        if late := brokers_that_disagree(self._admin, seen.touched, seen.configs, concerned):
            self._log(f"brokers {', '.join(map(str, late))} have not seen the restored configs yet")
            return READ_BACK_SECONDS
        step.check()
        for touched in seen.touched:
            if touched.restored_at is None and touched not in owed:
                value = own_value(seen.configs, touched.resource, touched.key)
                self._journal.restored(touched, value, outcome_of(touched, value))
        if asked := seen.standing.cancelled:  # while it settled already
            self._ledger.obeyed(asked)
        for touched in owed:
            self._journal.owed(touched, f"owed: broker {touched.resource.name} is dead")
        state, reason = self._outcome(seen, owed)
        self._ledger.change_state(self._options.run_id, state, reason)
        return None

    def _outcome(self, seen: Observation, owed: tuple[TouchedKey, ...]) -> tuple[RunState, str]:
        left = [
            m
            for m in self._plan.moves
            if seen.state_of(m) is not MoveState.DONE or not seen.is_led_as_planned(m)
        ]
        gone = [m for m in left if seen.state_of(m) is MoveState.GONE]
        debts = f"{len(owed)} debt(s): config keys of dead brokers" if owed else ""
        if len(left) == len(gone):
            skipped = f"{len(gone)} partitions skipped: their topic is gone" if gone else ""
            return RunState.DONE, "; ".join(filter(None, (skipped, debts)))
        reason = self._ledger.run(self._options.run_id).reason or "interrupted"
        undone = f"{len(left)} of {len(self._plan.moves)} partitions not as planned"
        return RunState.HALTED, "; ".join(filter(None, (reason, undone, debts)))
