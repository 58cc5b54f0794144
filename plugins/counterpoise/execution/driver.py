"""The driver of a run: observes the cluster, updates the progress, decides, applies one command.

    driver = Driver(admin, ledger, options, clock, log)
    driver.open()                                   # refuses on drift; harmless when already open
    while (wait := driver.step()) is not None: ...  # None: everything is moved and elected
    while (wait := driver.settle_step()) is not None: ...   # None: the run has ended

`wait` are the seconds until the next step. The driver keeps nothing that the ledger and the cluster
do not have: kill it anywhere, make a new one, and it goes on.
"""

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from counterpoise.errors import (
    CancelledError,
    ClusterError,
    HaltedError,
    RunConflictError,
    StepExpiredError,
    WrongClusterError,
)
from counterpoise.execution.command_executor import (
    OBSERVE_AGAIN_SECONDS,
    OBSERVE_SOON_SECONDS,
    READ_BACK_SECONDS,
    CommandExecutor,
)
from counterpoise.execution.commands import Command, Elect, Finish, Halt, Wait
from counterpoise.execution.conditions import (
    MAX_SUBJECTS,
    TABLE,
    in_words,
    kept_subjects,
    of,
    patience_of,
    when_over,
)
from counterpoise.execution.copies import limit_in_words, limit_of_others, stall_advice
from counterpoise.execution.decide import (
    activity_of,
    check_drift,
    check_health,
    keys_removed_by_others,
    next_command,
    settle_command,
    sweep_command,
)
from counterpoise.execution.decision_inputs import DecisionInputs, without_changes
from counterpoise.execution.observation import MoveState, Observation, moves_by_state
from counterpoise.execution.observe import STALE_READ_PAUSES, ObservationScope, observe
from counterpoise.execution.progress_update import ends_soon, update_progress
from counterpoise.execution.throttling.pending_restores import pending_in_words, record_as_theirs
from counterpoise.execution.throttling.read_back import (
    brokers_that_disagree,
    throttled_brokers,
)
from counterpoise.execution.throttling.targets import is_last_rate_shown, throttles_of_plan
from counterpoise.model.approval import Decision
from counterpoise.model.control import Control
from counterpoise.model.plan import Move, RebalancePlan, collecting_no_garbage
from counterpoise.model.policy import BalancePolicy, MovementPolicy
from counterpoise.model.provider import MAX_PARTITIONS_PER_CALL
from counterpoise.model.run import LOOKED_AFTER_STATES, UNDER_WAY_STATES, Run, RunState
from counterpoise.model.run_progress import (
    Activity,
    BestProgress,
    Condition,
    Conditions,
    RunProgress,
)
from counterpoise.model.words import join_names, pluralize, verb
from counterpoise.units import format_rate, format_seconds

if TYPE_CHECKING:
    from counterpoise.kafka_admin.cluster_admin import ClusterAdmin
    from counterpoise.ledger import Journal, Ledger, Step

_LONGEST_PAUSE_SECONDS = 30.0  # between two observations of a run that settles


@dataclass(frozen=True)
class ExecutionOptions:
    """The plan to carry out, and how approval and policy allow it."""

    run_id: str
    plan: RebalancePlan
    rate_bytes_per_second: int
    limits: MovementPolicy
    disk_limit_percent: int = BalancePolicy().disk_limit_percent
    max_partitions_per_call: int = MAX_PARTITIONS_PER_CALL  # that the provider allows
    max_rate_bytes_per_second: int | None = None  # that a request may set
    sets_throttles: bool = True  # otherwise it only takes them back


class Driver:
    def __init__(
        self,
        admin: "ClusterAdmin",
        ledger: "Ledger",
        options: ExecutionOptions,
        clock: Callable[[], datetime],
        log: Callable[[str], None],
    ) -> None:
        plan = options.plan
        throttles = throttles_of_plan(plan)
        self._admin = admin
        self._ledger = ledger
        self._journal: Journal = ledger.journal(options.run_id)
        self._options = options
        self._plan = plan
        self._clock = clock
        self._log = log
        self._scope = ObservationScope(
            options.run_id, plan, throttles.resources, options.disk_limit_percent
        )
        self._executor = CommandExecutor(admin, ledger, options.run_id, plan, log)

    def open(self, seen: Run | None = None) -> None:
        """Make the run RUNNING. A run that was opened before goes on.

        `seen` is the run as it was when it was checked that it may start. Raises StalePlanError on
        drift, WrongClusterError when another cluster answers, RefusedError when the cluster is in
        no state to move anything, RunConflictError when the run has ended since it was seen.
        Nothing has changed then.
        """
        seen = seen or self._run()
        with self._journal.step() as step:
            run = self._run()
            if run.state in UNDER_WAY_STATES:
                return
            if (run.state, run.closed_at) != (seen.state, seen.closed_at):
                raise RunConflictError(
                    f"run {run.run_id} became {run.state} while this process was about to start "
                    f"it ({run.reason}): nothing was changed; execute it again if it should go on"
                )
            observation = self._observe(None)
            check_drift(self._plan, run.state, observation)
            check_health(self._plan, observation)
            run_progress = self._inputs(None, observation).run_progress
            with step.together():
                step.change_state(RunState.RUNNING)
                step.update_progress(run_progress)

    def step(self) -> float | None:
        """Observe once, and do what follows; return the seconds to wait.

        None when everything is moved and elected. Raises HaltedError when the run stops itself; it
        is SETTLING then; CancelledError when a person has cancelled it, here or in another process.
        """
        with self._journal.step() as step:
            run = self._run()
            if run.state is not RunState.RUNNING:
                if run.state is RunState.CANCELLED or self._is_cancelled(run.reason):
                    raise CancelledError(f"run {run.run_id} is cancelled: {run.reason}")
                return None
            inputs, command = self._decide(next_command, step)
            if isinstance(command, Finish):
                return None
            if isinstance(command, Halt):
                raise self._halt(command, inputs, step)
            try:
                wait_seconds = self._apply(command, inputs, step)
            except StepExpiredError as error:
                return self._observe_again(error)
            except ClusterError as error:
                if error.retryable:
                    step.check()  # nothing is sent after the deadline of a step that was lost
                    raise
                raise self._halt(Halt(str(error)), inputs, step) from error
            activity = activity_of(command)
            is_wanted = activity is not None and TABLE[activity.condition].is_wanted
            if ends_soon(inputs.run_progress) and not is_wanted:
                return min(wait_seconds, OBSERVE_SOON_SECONDS)
            return wait_seconds

    def settle_step(self, *, may_halt: Callable[[Run], bool] = lambda _: True) -> float | None:
        """Go one step towards the end of a run; return the seconds to wait, None when it has ended.

        First nothing of ours is in flight any more, then every throttle key is as it was. A run
        that is RUNNING goes on where `may_halt` says so: None as well. Nobody executes it between
        that judgement and the step.
        """
        with self._journal.step() as step:
            run = self._run()
            is_running = run.state is RunState.RUNNING
            if run.state not in UNDER_WAY_STATES or (is_running and not may_halt(run)):
                return None
            if is_running:
                self._begin_to_settle(step)
            inputs, command = self._decide(settle_command, step)
            if over := inputs.observation.rows_over(self._plan.moves):
                step.over(over)
            if isinstance(command, Finish):
                return self._close(inputs, command, step)
            try:
                return self._apply(command, inputs, step)
            except StepExpiredError as error:
                return self._observe_again(error)
            except ClusterError as error:
                if error.retryable:
                    step.check()
                    raise
                self._log(str(error))
                return _seconds_until_sent_again(inputs, command)

    def sweep_step(self) -> float | None:
        """Look after what a run that has ended has in flight; return the seconds to wait, None when
        there is nothing to do now: what came late is throttled and cancelled, whatever else is in
        flight ends under its throttle, and the order that a cancel has left is restored.
        """
        with self._journal.step() as step:
            if self._run().state not in LOOKED_AFTER_STATES:
                return None
            inputs = self._confirmed_inputs(self._journal.run_progress())
            command = sweep_command(inputs)
            if isinstance(command, Finish):
                step.over(inputs.observation.rows_over(self._plan.moves))
                return None
            try:
                return self._apply(command, inputs, step)
            except StepExpiredError as error:
                return self._observe_again(error)

    def _observe_again(self, error: StepExpiredError) -> float:
        self._log(f"{error}: nothing was sent; observing again")
        return OBSERVE_SOON_SECONDS

    def _begin_to_settle(self, step: "Step") -> None:
        """Go over to SETTLING; that changes of the run had no effect yet says nothing of those that
        settling makes.
        """
        progress = self._journal.run_progress()
        with step.together():
            step.change_state(RunState.SETTLING)
            if progress is not None:
                conditions = without_changes(progress.conditions)
                step.update_progress(replace(progress, conditions=conditions))

    def check_cluster(self) -> None:
        """Raise WrongClusterError when another cluster answers than the plan is for."""
        self._observe(None)

    def _run(self) -> Run:
        return self._ledger.run(self._options.run_id)

    # -- observing and deciding

    @collecting_no_garbage()
    def _decide(
        self, decide: Callable[[DecisionInputs], Command], step: "Step"
    ) -> tuple[DecisionInputs, Command]:
        """Observe, keep the progress, and return the command that follows."""
        previous = self._journal.run_progress()
        inputs = self._confirmed_inputs(previous)
        self._record(inputs.observation, step)
        command = decide(inputs)
        with step.together():
            self._keep_progress(previous, inputs, command, step, settles=decide is settle_command)
        return inputs, command

    def _confirmed_inputs(self, previous: RunProgress | None) -> DecisionInputs:
        """Observe, and again where the cluster seems to have gone back since the last observation.

        A broker whose metadata is behind reports keys, replicas and leaders as they were before our
        changes: what it shows would pass for somebody's doing.
        """
        inputs = self._inputs(previous, self._observe(previous))
        for pause_seconds in STALE_READ_PAUSES[:3]:
            if not previous or not inputs.run_progress.has_gone_back_since(previous):
                break
            time.sleep(pause_seconds)
            inputs = self._inputs(previous, self._observe(previous))
        return inputs

    def _inputs(self, previous: RunProgress | None, observation: Observation) -> DecisionInputs:
        options = self._options
        by_state = moves_by_state(self._plan.moves, observation)
        run_progress = update_progress(
            previous,
            observation,
            by_state,
            self._plan,
            options.limits,
            self._approved_rate(),
            options.max_rate_bytes_per_second,
        )
        return DecisionInputs(
            plan=self._plan,
            observation=observation,
            by_state=by_state,
            run_progress=run_progress,
            limits=options.limits,
            max_partitions_per_call=options.max_partitions_per_call,
            sets_throttles=options.sets_throttles,
        )

    def _approved_rate(self) -> int:
        """Return the rate of the last yes: a run that halted may be approved anew at another one
        while this process is late.
        """
        approvals = self._ledger.approvals_of(self._options.run_id)
        rates = [a.rate_bytes_per_second for a in approvals if a.decision is Decision.GRANTED]
        return (rates[-1] if rates else None) or self._options.rate_bytes_per_second

    def _observe(self, previous: RunProgress | None) -> Observation:
        observation = observe(self._admin, self._ledger, self._scope, self._clock(), previous)
        planned_id = self._plan.cluster_id
        if planned_id and observation.cluster_id != planned_id:
            raise WrongClusterError(
                f"the plan is for cluster id {planned_id}, but {observation.cluster_id} answered: "
                "nothing changed; check the bootstrap addresses"
            )
        return observation

    def _record(self, observation: Observation, step: "Step") -> None:
        """Record what is taken over from earlier runs, calls without an answer that show, and rates
        that their brokers show.
        """
        rows = itertools.chain.from_iterable(observation.submitted.values())
        if of_others := [row for row in rows if row.run_id != self._options.run_id]:
            step.taking_over(of_others)
        if seen := observation.calls_seen():
            step.answered(seen)
        configs = observation.configs
        if shown := [key for key in observation.own_keys if is_last_rate_shown(key, configs)]:
            step.rates_shown(shown)
        if unknown := unreadable_text(observation):
            self._executor.record_once("not readable", unknown, step)

    def _keep_progress(
        self,
        previous: RunProgress | None,
        inputs: DecisionInputs,
        command: Command,
        step: "Step",
        *,
        settles: bool,
    ) -> None:
        """Keep the progress in the ledger, and record gaps, a changed back-off and new stalls."""
        run_progress = inputs.run_progress
        activity, conditions = self._activity(command, inputs)
        rate = run_progress.rate_bytes_per_second
        limit = limit_of_others(inputs.moving, inputs.observation, rate)
        is_at_work = activity is not None and TABLE[activity.condition].is_doing
        cancels = isinstance(command, Halt) and command.cancels
        is_cancelled = inputs.observation.active_requests.cancelled is not None
        attempts = dict(run_progress.election_attempts)
        for move in command.moves if isinstance(command, Elect) else ():
            name = str(move.topic_partition)
            attempts[name] = attempts.get(name, 0) + 1
        step.update_progress(
            replace(
                run_progress,
                election_attempts=attempts,
                activity=activity,
                conditions=conditions,
                limit=limit,
                seconds_left=run_progress.seconds_left if is_at_work else None,
                is_cancelling=run_progress.is_cancelling or cancels or is_cancelled,
            )
        )
        if previous is None:
            return
        if run_progress.throttle_gaps > previous.throttle_gaps:
            gap = throttle_gap_event(keys_removed_by_others(inputs), settles=settles)
            self._executor.record_event(*gap, step)
        if previous.back_off_level != run_progress.back_off_level:
            self._executor.record_event("brake", back_off_text(previous, run_progress), step)
        if limit is not None and limit != previous.limit:
            self._executor.record_event("lower rate", limit_in_words(limit), step)
        if new_stalls := _new_stalls_text(previous, inputs):
            self._executor.record_event("stall", new_stalls, step)

    def _activity(
        self, command: Command, inputs: DecisionInputs
    ) -> tuple[Activity | None, Conditions]:
        """Return what the run does now, since when, and what the ledger keeps of conditions."""
        activity, before = activity_of(command), inputs.run_progress.activity
        conditions = inputs.conditions_after(activity)
        if activity is None:
            return None, conditions
        condition, limits = activity.condition, self._options.limits
        lasting = conditions.get(condition, {})
        since = [lasting[name] for name in kept_subjects(activity) if name in lasting]
        began_at = min(since, default=inputs.observation.observed_at)
        patience = None if activity.ends_at else patience_of(condition, limits)
        halts_at = began_at + patience if patience and not TABLE[condition].is_doing else None
        if before is not None and before.condition is condition and before.since:
            began_at = min(began_at, before.since)
        subjects = activity.subjects[:MAX_SUBJECTS]
        told = replace(activity, subjects=subjects, since=began_at, halts_at=halts_at)
        return told, conditions

    # -- acting

    def _apply(self, command: Command, inputs: DecisionInputs, step: "Step") -> float:
        rate = inputs.run_progress.rate_bytes_per_second
        return self._executor.apply(command, inputs.observation, rate, step)

    def _halt(self, halt: Halt, inputs: DecisionInputs, step: "Step") -> HaltedError:
        cancel = inputs.observation.active_requests.cancelled
        step.change_state(RunState.SETTLING, halt.reason, done=cancel)
        if cancel is not None and halt.reason == str(cancel):
            return CancelledError(f"run {self._options.run_id} is cancelled: {halt.reason}")
        return HaltedError(f"run {self._options.run_id} halted: {halt.reason}")

    def _is_cancelled(self, reason: str) -> bool:
        """Return whether a person's cancel is what a run settles for, and no trouble before it."""
        requests = self._ledger.requests(self._plan.cluster, self._options.run_id)
        is_cancel = (Control.CANCEL, Control.UNDO)
        return reason in [str(one) for one in requests if one.control in is_cancel]

    # -- closing

    def _close(self, inputs: DecisionInputs, finish: Finish, step: "Step") -> float | None:
        """End the run when every broker that responds reports each key as it was.

        One that does not respond has none of our rates any more, and reads the metadata log before
        it serves again. One that keeps reporting other values is waited for, but not for ever.
        """
        observation = inputs.observation
        responding = observation.live_broker_ids - observation.unresponsive_broker_ids
        concerned = throttled_brokers(*self._plan.moves) & responding
        keys, configs = self._journal.owned_keys(), observation.configs
        stale = brokers_that_disagree(self._admin, keys, configs, concerned)
        if stale and not finish.gave_up:
            behind = of(Condition.UNREPORTED, stale)
            if not inputs.is_over(behind):
                self._log(in_words(behind))
                activity, conditions = self._activity(Wait(behind), inputs)
                step.update_progress(
                    replace(inputs.run_progress, activity=activity, conditions=conditions)
                )
                return READ_BACK_SECONDS
            finish = replace(finish, gave_up=when_over(behind, self._options.limits))
        cancel = observation.active_requests.cancelled  # the executor may have died before it
        reason = self._run().reason or (str(cancel) if cancel else "")
        state, reason = end_state(
            self._plan,
            observation,
            reason,
            finish,
            inputs.run_progress.best,
            is_cancelled=self._is_cancelled(reason),
        )
        with step.together():
            left = [key for key in observation.own_keys if key not in finish.pending_restores]
            record_as_theirs(step, left, configs)
            # A cancel that came while it settled is done with it.
            step.change_state(state, reason, done=cancel)
            if state is RunState.DONE:
                kept_empty = observation.active_requests.kept_empty.keys()
                refilled = kept_empty & self._plan.receiving_broker_ids
                step.keep_empty(self._plan.emptied_broker_ids, sorted(refilled))
        return None


def _seconds_until_sent_again(inputs: DecisionInputs, command: Command) -> float:
    """Return when to send again what the cluster refused: after as long as it has been refused."""
    activity, now = activity_of(command), inputs.observation.observed_at
    since = inputs.run_progress.since(activity.condition) if activity else None
    refused_seconds = (now - (since or now)).total_seconds()
    return min(max(OBSERVE_AGAIN_SECONDS, refused_seconds), _LONGEST_PAUSE_SECONDS)


def throttle_gap_event(keys: Sequence[str], *, settles: bool) -> tuple[str, str]:
    """Return what is said, before they are set again, of keys that somebody else has removed.

    A run that settles has halted already: it sets them for as long as anything is in flight.
    """
    removed = len(keys)
    text = (
        f"somebody else changed {pluralize(removed, 'throttle key')} of this run "
        f"({join_names(keys)}); "
    )
    if settles:
        are = verb(removed, "it is", "they are")
        text += f"{are} set again whenever {are} missing while copies go on: find out who does it"
    else:
        text += (
            f"{verb(removed, 'it is', 'they are')} set again once: find out who does it, or the "
            "run halts the next time"
        )
    return "throttle gap", text


def back_off_text(previous: RunProgress, run_progress: RunProgress) -> str:
    """Return whether copies got slower or faster, and why."""
    rate = f"at most {format_rate(run_progress.rate_bytes_per_second)} per broker"
    if run_progress.back_off_level > previous.back_off_level:
        return f"slower, {rate}: partitions outside the plan lost in-sync replicas"
    return f"faster, {rate}: partitions outside the plan have their replicas in sync again"


def unreadable_text(observation: Observation) -> str:
    """Return what of the cluster outside the plan may not be read; "" when nothing is missed."""
    topics = observation.conditions.unreadable_topics
    if not topics:
        return ""
    return (
        f"min.insync.replicas of {join_names(topics)}, outside the plan: whether under-replicated "
        "partitions there take writes is not known, and this run does not halt for them; "
        "`counterpoise preflight RUN` names the permission that is missing"
    )


def _new_stalls_text(previous: RunProgress, inputs: DecisionInputs) -> str:
    """Return the copies that have come no nearer for half their patience since this observation,
    and what to do; "" for none.
    """
    patience = patience_of(Condition.STALLED, inputs.limits)
    if patience is None:
        return ""
    now, before = inputs.observation.observed_at, previous.conditions.get(Condition.STALLED, {})
    lasting = inputs.run_progress.conditions.get(Condition.STALLED, {})
    new = [
        name
        for name, since in sorted(lasting.items())
        if now - since >= patience / 2
        and previous.observed_at - before.get(name, previous.observed_at) < patience / 2
    ]
    if not new:
        return ""
    rate = inputs.run_progress.rate_bytes_per_second
    advice = stall_advice(new, inputs.moving, inputs.observation, rate)
    lasted = format_seconds((patience / 2).total_seconds())
    return f"{in_words(of(Condition.STALLED, new))}, for {lasted}: {advice}"


def end_state(
    plan: RebalancePlan,
    observation: Observation,
    reason: str,
    finish: Finish,
    best: BestProgress,
    *,
    is_cancelled: bool = False,
) -> tuple[RunState, str]:
    """Return the state that a run ends in, and why; `reason` is why it halted, or who cancelled it
    where it `is_cancelled`.

    One is done, too, that had elected all leaders at one time, and had nothing to halt for: a
    broker that restarts before it is settled has lost its lead since.
    """
    done = [move for move in plan.moves if observation.state_of(move) is MoveState.DONE]
    led_by_others = [move for move in done if not observation.has_planned_leader(move)]
    gone = [move for move in plan.moves if observation.state_of(move) is MoveState.GONE]
    unfinished = len(plan.moves) - len(done) + len(led_by_others)
    had_elected_all = not reason and best.leaders_elected >= len(plan.moves)
    lost_their_leader = led_by_others if had_elected_all else []
    pending = pending_in_words(
        finish.pending_restores,
        observation.live_broker_ids,
        plan.cluster,
        waits_for_moves=bool(finish.gave_up),
    )
    if unfinished == len(gone) + len(lost_their_leader):
        partitions, whose = pluralize(len(gone), "partition"), verb(len(gone), "its", "their")
        skipped = f"{partitions} skipped: {whose} topic is gone" if gone else ""
        led = _led_by_others_in_words(lost_their_leader)
        return RunState.DONE, "; ".join(filter(None, (skipped, led, pending, finish.gave_up)))
    undone = f"{unfinished} of {pluralize(len(plan.moves), 'partition')} not as planned"
    parts = (reason or "interrupted", undone, pending, finish.gave_up)
    state = RunState.CANCELLED if is_cancelled else RunState.HALTED
    return state, "; ".join(filter(None, parts))


def _led_by_others_in_words(moves: Sequence[Move]) -> str:
    if not moves:
        return ""
    partitions, are = pluralize(len(moves), "partition"), verb(len(moves), "is", "are")
    return (
        f"{partitions} {are} led by another broker again since all leaders were elected: "
        f"{join_names([move.topic_partition for move in moves])}"
    )
