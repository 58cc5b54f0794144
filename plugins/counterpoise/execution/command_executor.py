"""The hands of a run: each command becomes one change of the cluster, its intent written down
before the call.

    seconds = Hands(admin, journal, orders, log).apply(command, seen, pulse, step)

Before each call the step lock is checked, and after it again before the result is recorded: a copy
that was frozen and wakes late neither calls nor writes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from counterpoise.errors import ClusterError, RunConflictError, UnknownOutcomeError
from counterpoise.execution.commands import (
    Cancel,
    Command,
    Elect,
    Release,
    Restore,
    RestoreOrder,
    Submit,
    Throttle,
    Wait,
)
from counterpoise.execution.observation import Observation
from counterpoise.execution.throttle_read_back import brokers_in_force, brokers_of
from counterpoise.execution.throttles import gaps, own_value, touches, wanted_throttles
from counterpoise.kafka_admin.port import NO_ANSWER, ClusterAdmin
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import CallResults, ConfigChange, ConfigResource
from counterpoise.model.plan import Move
from counterpoise.model.run import TouchedKey
from counterpoise.units import format_rate

if TYPE_CHECKING:
    from counterpoise.ledger import Journal, Step

LOOK_AGAIN_SECONDS: Final = 2.0  # while partitions move
LOOK_SOON_SECONDS: Final = (
    0.25  # while the last ones do: short enough for Airflow's operator to stay in its worker
)
READ_BACK_SECONDS: Final = 0.05  # after something was written
ELECTION_PAUSE_SECONDS: Final = 1.0  # clients look up each new leader
# The topic was deleted since the look; a cancel without an answer came after all, so that the next
# finds nothing.
_OVERTAKEN: Final = ("UNKNOWN_TOPIC_OR_PARTITION", "NO_REASSIGNMENT_IN_PROGRESS")
_MOST_ERRORS_NAMED: Final = 20

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
        """`may_resize` lifts the cluster's guard over the number of replicas (KIP-860)."""
        self._admin, self._journal, self._log, self._may_resize = admin, journal, log, may_resize

    def apply(self, command: Command, seen: Observation, rate: int, step: "Step") -> float:
        """Seconds after which to look again.

        Raises ClusterError when the cluster refuses everything.
        """
        match command:
            case Wait(reason, is_brief):
                self._log(reason)
                return READ_BACK_SECONDS if is_brief else LOOK_AGAIN_SECONDS
            case Throttle(changes):
                return self._throttle(changes, seen, rate, step)
            case Submit(moves):
                return self._submit(moves, seen, rate, step)
            case Elect(moves, is_last):
                self._elect(moves, step)
                return READ_BACK_SECONDS if is_last else ELECTION_PAUSE_SECONDS
            case Cancel(moves, reason):
                self.tell("cancelling", f"{_count(moves)}: {reason}")
                return self._reassign({move.topic_partition: None for move in moves}, step)
            case RestoreOrder(moves):
                self.tell("restoring", f"the replica order of {_count(moves)}")
                return self._reassign(
                    {m.topic_partition: seen.resting_order(m) for m in moves}, step
                )
            case Restore(keys):
                return self._restore(keys, step)
            case Release(keys):
                return self._release(keys, seen, step)
        raise AssertionError(f"{command} is not applied")

    def tell(self, kind: str, text: str) -> None:
        """What is about to be done, for the record and for whoever watches."""
        self._journal.event(kind, text)
        self._log(f"{kind}: {text}")

    def _throttle(
        self, changes: tuple[ConfigChange, ...], seen: Observation, rate: int, step: "Step"
    ) -> float:
        topic_ids = {tp.topic: partition.topic_id for tp, partition in seen.partitions.items()}
        if lost := gaps(changes, seen.touched, seen.configs):
            self._journal.event(
                "throttle gap", f"{len(lost)} throttle keys were not as we left them; set again"
            )
        touched = touches(changes, seen.configs, topic_ids)
        self._journal.touching(touched)
        self.tell("throttling", f"{len(changes)} config keys, {format_rate(rate)}")
        self._alter_configs(changes, touched, step)
        try:
            step.check()
        except RunConflictError:
            self._journal.touching(
                touched
            )  # frozen before the call: another copy may have restored them already
            raise
        return READ_BACK_SECONDS

    def _submit(self, moves: tuple[Move, ...], seen: Observation, rate: int, step: "Step") -> float:
        ready = self._proven(moves, seen, rate)
        if not ready:
            self._log("the throttle has not reached every broker yet")
            return READ_BACK_SECONDS
        self.tell("moving", _count(ready))
        wait = self._reassign(
            {move.topic_partition: seen.next_target(move) for move in ready}, step
        )
        return wait if any(seen.arriving(move) for move in ready) else READ_BACK_SECONDS

    def _proven(self, moves: Sequence[Move], seen: Observation, rate: int) -> tuple[Move, ...]:
        """The moves that copy nothing, and those whose brokers all say, each asked by itself, that
        they are throttled.

        A dead broker that a move only leads away from neither answers nor copies.
        """
        copying = [move for move in moves if seen.arriving(move)]
        concerned = brokers_of(*copying) & seen.live_broker_ids
        in_force = brokers_in_force(
            self._admin, wanted_throttles(copying, rate), seen.touched, concerned
        )
        late = {
            m.topic_partition
            for m in copying
            if not brokers_of(m) & seen.live_broker_ids <= in_force
        }
        return tuple(move for move in moves if move.topic_partition not in late)

    def _reassign(self, targets: Targets, step: "Step") -> float:
        """One call.

        Without an answer it may be applied now or much later: who was asked is kept.
        """
        partitions = list(targets)
        step.check()
        self._journal.submitting(partitions)
        try:
            results = self._admin.alter_reassignments(
                targets, may_change_replication_factor=self._may_resize
            )
        except UnknownOutcomeError as error:
            step.check()
            self._journal.unanswered(partitions, error.broker_id)
            self.tell("no answer", str(error))
            return LOOK_AGAIN_SECONDS
        step.check()
        self._journal.answered(partitions)
        self._note_errors("reassignment", results, harmless=_OVERTAKEN)
        return LOOK_AGAIN_SECONDS if not results.errors else LOOK_AGAIN_SECONDS * 2

    def _elect(self, moves: tuple[Move, ...], step: "Step") -> None:
        partitions = [move.topic_partition for move in moves]
        self._journal.electing(partitions)
        self.tell("electing", _count(moves))
        step.check()
        try:
            self._note_errors("election", self._admin.elect_preferred_leaders(partitions))
        except UnknownOutcomeError as error:  # harmless: the next look sees who leads
            self._log(str(error))

    def _restore(self, keys: Sequence[tuple[TouchedKey, ConfigChange]], step: "Step") -> float:
        self.tell("restoring", f"{len(keys)} config keys")
        self._alter_configs([change for _, change in keys], [touched for touched, _ in keys], step)
        return READ_BACK_SECONDS

    def _release(self, keys: Sequence[TouchedKey], seen: Observation, step: "Step") -> float:
        step.check()
        for touched in keys:
            value = own_value(seen.configs, touched.resource, touched.key)
            self._journal.restored(touched, value, outcome_of(touched, value))
        return 0.0

    def _alter_configs(
        self, changes: Sequence[ConfigChange], keys: Sequence[TouchedKey], step: "Step"
    ) -> None:
        """Harmless without an answer: the next look reads every key, and a broker that is silent
        keeps its debt.

        What may come later still, when a frozen broker wakes, is on record, so that it is looked
        for even then.
        """
        call = self._journal.sending(keys)
        step.check()
        try:
            results = self._admin.alter_configs(changes)
        except UnknownOutcomeError as error:
            self._journal.heard(call, {c.resource for c in changes if c.resource.is_topic})
            self.tell("no answer", str(error))
            return
        self._journal.heard(
            call, {r for r, reason in results.errors.items() if reason.startswith(NO_ANSWER)}
        )
        self._note_errors("config change", results, harmless=(NO_ANSWER, *_OVERTAKEN))

    def _note_errors(
        self,
        what: str,
        results: CallResults[TopicPartition] | CallResults[ConfigResource],
        *,
        harmless: tuple[str, ...] = (),
    ) -> None:
        """Errors of single subjects are kept; the next look decides what follows from them.

        Where the cluster refuses everything, with reasons that are not harmless, the run cannot go
        on by itself.
        """
        for subject, reason in list(results.errors.items())[:_MOST_ERRORS_NAMED]:
            name = (
                f"{subject.type} {subject.name}"
                if isinstance(subject, ConfigResource)
                else str(subject)
            )
            self.tell(f"{what} refused", f"{name}: {reason}")
        is_harmless = all(reason.startswith(harmless) for reason in results.errors.values())
        if results.errors and not results.accepted and not is_harmless:
            subject, reason = next(iter(results.errors.items()))
            raise ClusterError(
                f"{what}: the cluster refused all {len(results.errors)}, for example {subject}: {reason}"
            )


def outcome_of(touched: TouchedKey, value: str | None) -> str:
    return (
        "as before" if value == touched.before_value else "changed by somebody else; left as it is"
    )


def _count(moves: Sequence[Move]) -> str:
    return "1 partition" if len(moves) == 1 else f"{len(moves)} partitions"
