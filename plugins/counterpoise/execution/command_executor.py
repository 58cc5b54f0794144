"""Carries out the commands of a run: each becomes one change of the cluster, recorded beforehand.

    wait_seconds = CommandExecutor(admin, journal, log, may_resize=False).apply(
        command, observation, rate_bytes_per_second, step
    )

Every write says in the same transaction that the step is still ours, and no call begins after the
step's deadline: a copy that was frozen and wakes late neither calls nor writes. If it froze within
the call itself, it notes that the call was late, and the run is settled once more.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from counterpoise.errors import ClusterError, RunConflictError, UnknownOutcomeError
from counterpoise.execution.commands import (
    Cancel,
    CancelLate,
    Command,
    Elect,
    MarkRestored,
    Restore,
    RestoreOrder,
    Submit,
    Throttle,
    Wait,
)
from counterpoise.execution.observation import Observation
from counterpoise.execution.throttle_read_back import brokers_in_force, throttled_brokers
from counterpoise.execution.throttles import (
    Configs,
    dynamic_value,
    keys_touched_by,
    removed_by_others,
    wanted_throttles,
)
from counterpoise.kafka_admin.port import NO_RESPONSE, ClusterAdmin
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.grouping import grouped
from counterpoise.model.kafka import CallResults, ConfigChange, ConfigResource
from counterpoise.model.plan import Move
from counterpoise.model.run import TouchedKey
from counterpoise.model.words import pluralize
from counterpoise.units import format_rate

if TYPE_CHECKING:
    from counterpoise.ledger import Journal, Step

OBSERVE_AGAIN_SECONDS: Final = 2.0  # while partitions move
# While the last partitions move: short enough for Airflow's operator to stay in its worker.
OBSERVE_SOON_SECONDS: Final = 0.25
READ_BACK_SECONDS: Final = 0.05  # after something was written
ELECTION_PAUSE_SECONDS: Final = 1.0  # clients look up each new leader
# The topic was deleted since the observation; or a cancel without an answer was applied after all,
# so that the next one finds nothing to cancel.
_OVERTAKEN: Final = ("UNKNOWN_TOPIC_OR_PARTITION", "NO_REASSIGNMENT_IN_PROGRESS")
_MAX_ERRORS_NAMED: Final = 20

Targets = Mapping[TopicPartition, tuple[int, ...] | None]
AnyResults = CallResults[TopicPartition] | CallResults[ConfigResource]


class CommandExecutor:
    def __init__(
        self,
        admin: ClusterAdmin,
        journal: "Journal",
        log: Callable[[str], None],
        *,
        may_resize: bool,
    ) -> None:
        """Prepare for one run.

        `may_resize` lifts the cluster's guard over the number of replicas (KIP-860).
        """
        self._admin, self._journal, self._log, self._may_resize = admin, journal, log, may_resize

    def apply(self, command: Command, observation: Observation, rate: int, step: "Step") -> float:
        """Apply one command; return the seconds after which to observe again.

        Raises ClusterError when the cluster refuses everything, RunConflictError when another copy
        of the run has taken over.
        """
        match command:
            case Wait(reason, is_brief):
                self._log(reason)
                return READ_BACK_SECONDS if is_brief else OBSERVE_AGAIN_SECONDS
            case Throttle(changes):
                return self._throttle(changes, observation, rate, step)
            case Submit(moves):
                return self._submit(moves, observation, rate, step)
            case Elect(moves, is_last):
                self._elect(moves, step)
                return READ_BACK_SECONDS if is_last else ELECTION_PAUSE_SECONDS
            case Cancel(moves, reason):
                targets: Targets = {move.topic_partition: None for move in moves}
                return self._reassign("cancelling", f"{_count(moves)}: {reason}", targets, step)
            case CancelLate(reassignments):
                return self._cancel_late(reassignments, step)
            case RestoreOrder(moves):
                orders = {m.topic_partition: observation.order_to_restore(m) for m in moves}
                text = f"the replica order of {_count(moves)}"
                return self._reassign("restoring", text, orders, step)
            case Restore(keys):
                return self._restore(keys, step)
            case MarkRestored(keys):
                mark_restored(step, keys, observation.configs)
                return 0.0
        raise AssertionError(f"{command} is not applied")

    def record_event(self, kind: str, text: str, step: "Step") -> None:
        """Write what is about to be done to the ledger, and to the log."""
        step.event(kind, text)
        self._log(f"{kind}: {text}")

    def _throttle(
        self,
        changes: tuple[ConfigChange, ...],
        observation: Observation,
        rate: int,
        step: "Step",
    ) -> float:
        configs = observation.configs
        topic_ids = {
            tp.topic: partition.topic_id for tp, partition in observation.partitions.items()
        }
        touched_keys = keys_touched_by(changes, configs, topic_ids)
        with step.together():
            if removed := removed_by_others(changes, observation.touched_keys, configs):
                they_are = "it is" if len(removed) == 1 else "they are"
                step.event(
                    "throttle gap",
                    f"somebody else changed {pluralize(len(removed), 'throttle key')} of this run; "
                    f"{they_are} set again once: find out who does it, or the run halts the next "
                    "time",
                )
            step.touching(touched_keys)
            keys = pluralize(len(changes), "config key")
            self.record_event("throttling", f"{keys}, {format_rate(rate)} per broker", step)
            call = step.sending(touched_keys)
        self._alter_configs(changes, call, step)
        return READ_BACK_SECONDS

    def _submit(
        self, moves: tuple[Move, ...], observation: Observation, rate: int, step: "Step"
    ) -> float:
        ready = self._throttled(moves, observation, rate)
        if not ready:
            self._log("nothing is submitted yet: the throttle has not reached every broker")
            return READ_BACK_SECONDS
        targets = {move.topic_partition: observation.next_target(move) for move in ready}
        wait_seconds = self._reassign("moving", _count(ready), targets, step)
        is_copying = any(observation.adding_replicas(move) for move in ready)
        return wait_seconds if is_copying else READ_BACK_SECONDS

    def _throttled(
        self, moves: Sequence[Move], observation: Observation, rate: int
    ) -> tuple[Move, ...]:
        """Return the moves whose live brokers all report the throttle, and those that copy nothing.

        A dead broker that a move only leads away from neither responds nor copies.
        """
        live_broker_ids = observation.live_broker_ids
        copying_moves = [move for move in moves if observation.adding_replicas(move)]
        in_force = brokers_in_force(
            self._admin,
            wanted_throttles(copying_moves, rate),
            observation.touched_keys,
            throttled_brokers(*copying_moves) & live_broker_ids,
        )

        def is_throttled(move: Move) -> bool:
            live_brokers = throttled_brokers(move) & live_broker_ids
            return live_brokers <= in_force

        unthrottled = {move.topic_partition for move in copying_moves if not is_throttled(move)}
        return tuple(move for move in moves if move.topic_partition not in unthrottled)

    def _reassign(self, kind: str, text: str, targets: Targets, step: "Step") -> float:
        """Submit or cancel reassignments in one call; return the seconds to wait.

        Without an answer they may be applied now or much later: which broker was asked is kept.
        """
        with step.together():
            self.record_event(kind, text, step)
            step.submitting(targets)
        try:
            results = self._admin.alter_reassignments(
                targets, may_change_replication_factor=self._may_resize, deadline=step.deadline
            )
        except UnknownOutcomeError as error:
            with self._noting_a_late_call("reassignment"), step.together():
                step.unanswered(targets, error.broker_id)
                self.record_event("no answer", str(error), step)
            return OBSERVE_AGAIN_SECONDS
        with self._noting_a_late_call("reassignment"), step.together():
            step.answered(targets)
            self._record_errors("reassignment", results, step)
        _raise_if_refused("reassignment", results, harmless=_OVERTAKEN)
        return OBSERVE_AGAIN_SECONDS if not results.errors else OBSERVE_AGAIN_SECONDS * 2

    def _cancel_late(self, reassignments: Mapping[TopicPartition, str], step: "Step") -> float:
        """Cancel what earlier runs left; after this run the watch settles them once more."""
        for run_id, partitions in grouped((r, tp) for tp, r in reassignments.items()).items():
            text = (
                f"{pluralize(len(partitions), 'reassignment')} of run {run_id} came after its end"
            )
            self.record_event("cancelling", text, step)
            step.of_run(run_id).submitting(dict.fromkeys(partitions))
            step.of_run(run_id).note_late_call("reassignment")
        try:
            results = self._admin.alter_reassignments(
                dict.fromkeys(reassignments), deadline=step.deadline
            )
        except UnknownOutcomeError as error:  # the next observation shows what became of it
            self.record_event("no answer", str(error), step)
            return OBSERVE_AGAIN_SECONDS
        self._record_errors("reassignment", results, step)
        _raise_if_refused("reassignment", results, harmless=_OVERTAKEN)
        return OBSERVE_AGAIN_SECONDS

    def _elect(self, moves: tuple[Move, ...], step: "Step") -> None:
        partitions = [move.topic_partition for move in moves]
        leaders = "leader" if len(moves) == 1 else "leaders"
        with step.together():
            step.electing(partitions)
            self.record_event("electing", f"the preferred {leaders} of {_count(moves)}", step)
        try:
            results = self._admin.elect_preferred_leaders(partitions, deadline=step.deadline)
        except UnknownOutcomeError as error:  # harmless: the next observation shows who leads
            self._log(str(error))
            return
        self._record_errors("election", results, step)
        _raise_if_refused("election", results)

    def _restore(self, keys: Sequence[tuple[TouchedKey, ConfigChange]], step: "Step") -> float:
        with step.together():
            self.record_event("restoring", pluralize(len(keys), "config key"), step)
            call = step.sending([touched for touched, _ in keys])
        self._alter_configs([change for _, change in keys], call, step)
        return READ_BACK_SECONDS

    def _alter_configs(self, changes: Sequence[ConfigChange], call: str, step: "Step") -> None:
        """Change configs in one call; the call stays on record until each broker has answered it.

        No answer is harmless: the next observation reads every key, and what a broker that does not
        respond may apply later, when it wakes, is looked for then.
        """
        try:
            results = self._admin.alter_configs(changes, deadline=step.deadline)
        except UnknownOutcomeError as error:
            unanswered = {change.resource for change in changes if change.resource.is_topic}
            with self._noting_a_late_call("config change"), step.together():
                step.answer_received(call, except_for=unanswered)
                self.record_event("no answer", str(error), step)
            return
        unanswered = {r for r, reason in results.errors.items() if reason.startswith(NO_RESPONSE)}
        with self._noting_a_late_call("config change"), step.together():
            step.answer_received(call, except_for=unanswered)
            self._record_errors("config change", results, step)
        _raise_if_refused("config change", results, harmless=(NO_RESPONSE, *_OVERTAKEN))

    @contextmanager
    def _noting_a_late_call(self, call: str) -> Iterator[None]:
        """Note the call where the step turns out to have gone to another copy of the run."""
        try:
            yield
        except RunConflictError:
            self._journal.note_late_call(call)
            raise

    def _record_errors(self, what: str, results: AnyResults, step: "Step") -> None:
        """Record errors of single partitions or resources; the next observation shows the rest."""
        if not results.errors:
            return
        with step.together():
            for subject, reason in list(results.errors.items())[:_MAX_ERRORS_NAMED]:
                self.record_event(f"{what} refused", f"{_name(subject)}: {reason}", step)


def _raise_if_refused(what: str, results: AnyResults, *, harmless: tuple[str, ...] = ()) -> None:
    """Raise ClusterError where the cluster refused everything, with a reason that is not harmless:
    the run cannot go on by itself.
    """
    errors = list(results.errors.items())
    is_harmless = all(reason.startswith(harmless) for _, reason in errors)
    if errors and not results.accepted and not is_harmless:
        subject, reason = errors[0]
        all_of_them = f"all {len(errors)}, for example " if len(errors) > 1 else ""
        raise ClusterError(
            f"{what}: the cluster refused {all_of_them}{_name(subject)}: {reason}; correct the "
            "cause, then execute the plan again"
        )


def mark_restored(step: "Step", keys: Iterable[TouchedKey], configs: Configs) -> None:
    """Record the values that these keys have now; nothing of ours is in them any more."""
    for touched in keys:
        value = dynamic_value(configs, *touched.resource_key)
        is_as_before = value == touched.before_value
        outcome = "as before" if is_as_before else "changed by somebody else; left as it is"
        step.restored(touched, value, outcome)


def _name(subject: object) -> str:
    if isinstance(subject, ConfigResource):
        return f"{subject.type} {subject.name}"
    return str(subject)


def _count(moves: Sequence[Move]) -> str:
    return pluralize(len(moves), "partition")
