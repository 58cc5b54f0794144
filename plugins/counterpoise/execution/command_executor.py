"""Carries out the commands of a run: each becomes one change of the cluster, recorded beforehand.

    wait_seconds = CommandExecutor(admin, journal, log, may_resize=False).apply(
        command, observation, rate_bytes_per_second, lock
    )

Before each call the step lock is checked, and after it again before the result is recorded: a copy
that was frozen and wakes late neither calls nor writes.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Final

from counterpoise.errors import ClusterError, RunConflictError, UnknownOutcomeError
from counterpoise.execution.commands import (
    Cancel,
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
from counterpoise.execution.throttling.pending_restores import mark_restored
from counterpoise.execution.throttling.read_back import throttled_moves
from counterpoise.execution.throttling.targets import default_rate, keys_touched_by, list_entries
from counterpoise.kafka_admin.port import NO_RESPONSE, ClusterAdmin
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import CallResults, ConfigChange, ConfigResource
from counterpoise.model.plan import Move
from counterpoise.model.run import TouchedKey
from counterpoise.model.words import pluralize
from counterpoise.units import format_rate

if TYPE_CHECKING:
    from counterpoise.ledger import Journal, StepLock

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

    def apply(
        self, command: Command, observation: Observation, rate: int, lock: "StepLock"
    ) -> float:
        """Apply one command; return the seconds after which to observe again.

        Raises ClusterError when the cluster refuses everything, RunConflictError when another copy
        of the run has taken over.
        """
        match command:
            case Wait(reason, is_brief):
                self._log(reason)
                return READ_BACK_SECONDS if is_brief else OBSERVE_AGAIN_SECONDS
            case Throttle():
                return self._throttle(command, observation, rate, lock)
            case Submit(moves):
                return self._submit(moves, observation, rate, lock)
            case Elect(moves, is_last):
                self._elect(moves, lock)
                return READ_BACK_SECONDS if is_last else ELECTION_PAUSE_SECONDS
            case Cancel(moves, reason):
                self.record_event("cancelling", f"{_count(moves)}: {reason}")
                return self._reassign({move.topic_partition: None for move in moves}, lock)
            case RestoreOrder(moves):
                self.record_event("restoring", f"the replica order of {_count(moves)}")
                orders = {m.topic_partition: observation.order_to_restore(m) for m in moves}
                return self._reassign(orders, lock)
            case Restore(keys):
                return self._restore(keys, lock)
            case MarkRestored(keys):
                lock.check()
                mark_restored(self._journal, keys, observation.configs, observation.topic_ids)
                return 0.0
        raise AssertionError(f"{command} is not applied")

    def record_event(self, kind: str, text: str) -> None:
        """Write what is about to be done to the ledger, and to the log."""
        self._journal.event(kind, text)
        self._log(f"{kind}: {text}")

    def record_once(self, kind: str, text: str) -> None:
        """Record an event unless this run has recorded the same before."""
        events = self._journal.events()
        if not any(event.kind == kind and event.text == text for event in events):
            self.record_event(kind, text)

    def _throttle(
        self, command: Throttle, observation: Observation, rate: int, lock: "StepLock"
    ) -> float:
        if removed := command.removed_by_others:
            they_are = "it is" if len(removed) == 1 else "they are"
            self._journal.event(
                "throttle gap",
                f"somebody else changed {pluralize(len(removed), 'throttle key')} of this run; "
                f"{they_are} set again once: find out who does it, or the run halts the next time",
            )
        touched_keys = keys_touched_by(command.changes, observation.configs, observation.topic_ids)
        if command.changes:
            self._journal.touching(touched_keys)
        self._record_throttle(command, rate, default_rate(observation.configs))
        taken_back = [*command.taken_back, *command.restored]
        accepted = self._alter_configs(
            [*command.changes, *(change for _, change in taken_back)],
            [*touched_keys, *(touched for touched, _ in taken_back)],
            lock,
        )
        try:
            lock.check()
        except RunConflictError:
            # This copy was frozen before the call: another one may have restored the keys already.
            self._journal.touching(touched_keys)
            raise
        self._journal.taken_back(
            (touched, change.value)
            for touched, change in command.taken_back
            if touched.resource in accepted and not touched.has_unanswered_call
        )
        return READ_BACK_SECONDS

    def _record_throttle(self, command: Throttle, rate: int, default: int | None) -> None:
        """Record what is about to be set and taken back."""
        texts = []
        if command.changes:
            config_keys = pluralize(len(command.changes), "config key")
            is_limited = default is not None and default <= rate
            why = ", the default of all brokers, which is kept" if is_limited else ""
            texts.append(f"{config_keys}, {format_rate(rate)} per broker{why}")
        if command.taken_back:
            entries = sum(len(list_entries(change.value)) for _, change in command.taken_back)
            are = "entry that nothing needs any more", "entries that nothing needs any more"
            texts.append(f"{pluralize(entries, *are)} taken back")
        if command.restored:
            texts.append(f"{pluralize(len(command.restored), 'config key')} restored")
        self.record_event("throttling" if command.changes else "restoring", "; ".join(texts))

    def _submit(
        self, moves: tuple[Move, ...], observation: Observation, rate: int, lock: "StepLock"
    ) -> float:
        ready = throttled_moves(self._admin, moves, observation, rate)
        if not ready:
            self._log("nothing is submitted yet: the throttle has not reached every broker")
            return READ_BACK_SECONDS
        self.record_event("moving", _count(ready))
        targets = {move.topic_partition: observation.next_target(move) for move in ready}
        wait_seconds = self._reassign(targets, lock)
        is_copying = any(observation.adding_replicas(move) for move in ready)
        return wait_seconds if is_copying else READ_BACK_SECONDS

    def _reassign(self, targets: Targets, lock: "StepLock") -> float:
        """Submit or cancel reassignments in one call; return the seconds to wait.

        Without an answer they may be applied now or much later: which broker was asked is kept.
        """
        partitions = list(targets)
        lock.check()
        self._journal.submitting(partitions)
        try:
            results = self._admin.alter_reassignments(
                targets, may_change_replication_factor=self._may_resize
            )
        except UnknownOutcomeError as error:
            lock.check()
            self._journal.unanswered(partitions, error.broker_id)
            self.record_event("no answer", str(error))
            return OBSERVE_AGAIN_SECONDS
        lock.check()
        self._journal.answered(partitions)
        self._record_errors("reassignment", results, harmless=_OVERTAKEN)
        return OBSERVE_AGAIN_SECONDS if not results.errors else OBSERVE_AGAIN_SECONDS * 2

    def _elect(self, moves: tuple[Move, ...], lock: "StepLock") -> None:
        partitions = [move.topic_partition for move in moves]
        self._journal.electing(partitions)
        leaders = "leader" if len(moves) == 1 else "leaders"
        self.record_event("electing", f"the preferred {leaders} of {_count(moves)}")
        lock.check()
        try:
            self._record_errors("election", self._admin.elect_preferred_leaders(partitions))
        except UnknownOutcomeError as error:  # harmless: the next observation shows who leads
            self._log(str(error))

    def _restore(self, keys: Sequence[tuple[TouchedKey, ConfigChange]], lock: "StepLock") -> float:
        self.record_event("restoring", pluralize(len(keys), "config key"))
        touched_keys = [touched for touched, _ in keys]
        self._alter_configs([change for _, change in keys], touched_keys, lock)
        return READ_BACK_SECONDS

    def _alter_configs(
        self, changes: Sequence[ConfigChange], keys: Sequence[TouchedKey], lock: "StepLock"
    ) -> Set[ConfigResource]:
        """Change configs in one call; the call stays on record until each broker has answered it.

        Returns the resources that were certainly changed. No answer is harmless: the next
        observation reads every key, and what a broker that does not respond may apply later, when
        it wakes, is looked for then.
        """
        call = self._journal.sending(keys)
        lock.check()
        try:
            results = self._admin.alter_configs(changes)
        except UnknownOutcomeError as error:
            unanswered = {change.resource for change in changes if change.resource.is_topic}
            self._journal.answer_received(call, except_for=unanswered)
            self.record_event("no answer", str(error))
            return frozenset()
        unanswered = {r for r, reason in results.errors.items() if reason.startswith(NO_RESPONSE)}
        self._journal.answer_received(call, except_for=unanswered)
        self._record_errors("config change", results, harmless=(NO_RESPONSE, *_OVERTAKEN))
        return frozenset(results.accepted)

    def _record_errors(
        self,
        what: str,
        results: CallResults[TopicPartition] | CallResults[ConfigResource],
        *,
        harmless: tuple[str, ...] = (),
    ) -> None:
        """Record errors of single partitions or resources; the next observation shows the rest.

        Raises ClusterError where the cluster refuses everything, with a reason that is not
        harmless: the run cannot go on by itself.
        """
        errors = list(results.errors.items())
        for subject, reason in errors[:_MAX_ERRORS_NAMED]:
            self.record_event(f"{what} refused", f"{_name(subject)}: {reason}")
        is_harmless = all(reason.startswith(harmless) for _, reason in errors)
        if errors and not results.accepted and not is_harmless:
            subject, reason = errors[0]
            all_of_them = f"all {len(errors)}, for example " if len(errors) > 1 else ""
            raise ClusterError(
                f"{what}: the cluster refused {all_of_them}{_name(subject)}: {reason}; correct the "
                "cause, then execute the plan again"
            )


def _name(subject: object) -> str:
    if isinstance(subject, ConfigResource):
        return f"{subject.type} {subject.name}"
    return str(subject)


def _count(moves: Sequence[Move]) -> str:
    return pluralize(len(moves), "partition")
