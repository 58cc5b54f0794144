"""Carries out the commands of a run: each becomes one change of the cluster, recorded beforehand.

    wait_seconds = CommandExecutor(admin, ledger, run_id, plan, log).apply(
        command, observation, rate_bytes_per_second, step
    )

Every write says in the same transaction that the step is still ours, and no call begins after the
step's deadline: a copy that was frozen and wakes late neither calls nor writes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from counterpoise.errors import ClusterError, UnknownOutcomeError
from counterpoise.execution.commands import (
    Cancel,
    Command,
    Elect,
    KeyChange,
    Restore,
    RestoreOrder,
    Submit,
    Throttle,
    Wait,
)
from counterpoise.execution.conditions import in_words
from counterpoise.execution.observation import Observation
from counterpoise.execution.observe import changed_moves
from counterpoise.execution.recorded_calls import AnyResults, RecordedCalls, name_of
from counterpoise.execution.throttling.read_back import throttled_moves
from counterpoise.execution.throttling.restore import keys_to_own, subtracted_from
from counterpoise.execution.throttling.targets import (
    default_rate,
    list_entries,
)
from counterpoise.kafka_admin.config_requests import NO_RESPONSE, NOT_SENT, without_answer
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import CallResults, ConfigResource, Targets
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.request import Goal
from counterpoise.model.run import OwnedKey
from counterpoise.model.words import pluralize
from counterpoise.units import format_rate

if TYPE_CHECKING:
    from counterpoise.kafka_admin.cluster_admin import ClusterAdmin
    from counterpoise.ledger import Ledger, Step
    from counterpoise.ledger.rows import Unanswered

OBSERVE_AGAIN_SECONDS: Final = 2.0  # while partitions move
# While the last partitions move: short enough for Airflow's operator to stay in its worker.
OBSERVE_SOON_SECONDS: Final = 0.25
READ_BACK_SECONDS: Final = 0.05  # after something was written
ELECTION_PAUSE_SECONDS: Final = 1.0  # clients look up each new leader
# The topic was deleted since the observation; or a cancel without an answer was applied after all,
# so that the next one finds nothing to cancel.
_OVERTAKEN: Final = ("UNKNOWN_TOPIC_OR_PARTITION", "NO_REASSIGNMENT_IN_PROGRESS")
# Or a broker stopped since the observation: the next one shows it, and knows how long to wait.
_PASSES: Final = (NO_RESPONSE, NOT_SENT, *_OVERTAKEN)
_NOT_ELECTABLE: Final = "PREFERRED_LEADER_NOT_AVAILABLE"


class CommandExecutor:
    def __init__(
        self,
        admin: "ClusterAdmin",
        ledger: "Ledger",
        run_id: str,
        plan: RebalancePlan,
        log: Callable[[str], None],
    ) -> None:
        """Prepare for one run."""
        self._admin, self._ledger, self._log = admin, ledger, log
        self._journal = journal = ledger.journal(run_id)
        # Lifts the cluster's guard over the number of replicas (KIP-860).
        self._may_resize = plan.goal is Goal.REPLICATION_FACTOR
        self._calls = RecordedCalls(admin, journal, log)

    def apply(self, command: Command, observation: Observation, rate: int, step: "Step") -> float:
        """Apply one command; return the seconds after which to observe again.

        Raises ClusterError when the cluster refuses everything, RunConflictError when another copy
        of the run has taken over.
        """
        match command:
            case Wait():
                self._log(in_words(command.activity))
                return READ_BACK_SECONDS if command.is_brief else OBSERVE_AGAIN_SECONDS
            case Throttle():
                return self._throttle(command, observation, rate, step)
            case Submit():
                return self._submit(command, observation, rate, step)
            case Elect(moves):
                self._elect(moves, step)
                return ELECTION_PAUSE_SECONDS
            case Cancel(moves, reason):
                unchanged = self._unchanged(moves, observation)
                return self._cancel(unchanged, reason, observation, step)
            case RestoreOrder(moves):
                # Of replicas that are still there: others would be copied.
                unchanged = self._unchanged(moves, observation)
                orders = {
                    move.topic_partition: order
                    for move in unchanged
                    if (order := observation.order_to_restore(move))
                }
                text = f"the replica order of {_count(unchanged)}"
                return self._reassign("restoring", text, orders, step)
            case Restore(keys):
                return self._restore(keys, step)
        raise AssertionError(f"{command} is not applied")

    def record_event(self, kind: str, text: str, step: "Step") -> None:
        """Write what is about to be done to the ledger, and to the log."""
        self._calls.record_event(kind, text, step)

    def record_once(self, kind: str, text: str, step: "Step") -> None:
        """Record an event unless this run has recorded the same before."""
        events = self._journal.events()
        if not any(event.kind == kind and event.text == text for event in events):
            self.record_event(kind, text, step)

    def _throttle(
        self, command: Throttle, observation: Observation, rate: int, step: "Step"
    ) -> float:
        own = keys_to_own(
            command.changes, observation.configs, observation.owned_keys, observation.run_id
        )
        taken_back = [*command.taken_back, *command.restored]
        with step.together(is_current=True):
            before = step.touching([*own, *subtracted_from(taken_back, own)])
            self._record_throttle(command, rate, default_rate(observation.configs), step)
        # Taken back first: a list may have no room for the new entries beside the old ones.
        changes = [*(change for _, change in taken_back), *command.changes]
        results = self._calls.alter_configs(changes, before, step)
        self._calls.read_back(command.restored, results, step)
        step.keys_done(_refused_at_first(before, observation, results))
        _raise_if_refused("config change", results, harmless=_PASSES)
        # What was set is read back before anything is submitted; what was taken back is no hurry.
        has_to_be_read_back = command.changes or not observation.is_anything_moving
        return READ_BACK_SECONDS if has_to_be_read_back else OBSERVE_AGAIN_SECONDS

    def _record_throttle(
        self, command: Throttle, rate: int, default: int | None, step: "Step"
    ) -> None:
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
        kind = "throttling" if command.changes else "restoring"
        self.record_event(kind, "; ".join(texts), step)

    def _submit(self, command: Submit, observation: Observation, rate: int, step: "Step") -> float:
        ready = throttled_moves(self._admin, command.moves, observation, rate)
        if not ready:
            self._log("nothing is submitted yet: the throttle has not reached every broker")
            return READ_BACK_SECONDS
        step.check()
        if len(self._unchanged(ready, observation)) < len(ready):
            return READ_BACK_SECONDS
        targets = {move.topic_partition: observation.next_target(move) for move in ready}
        wait_seconds = self._reassign("moving", _count(ready), targets, step)
        is_copying = any(observation.adding_replicas(move) for move in ready)
        return wait_seconds if is_copying else READ_BACK_SECONDS

    def _unchanged(self, moves: Sequence[Move], observation: Observation) -> list[Move]:
        """Return the moves whose partitions are still as observed: somebody else may have moved
        some of the others meanwhile.
        """
        changed = changed_moves(self._admin, moves, observation)
        if changed:
            self._log(f"{_count(changed)} changed meanwhile: observing again")
        changed_partitions = {move.topic_partition for move in changed}
        return [move for move in moves if move.topic_partition not in changed_partitions]

    def _reassign(
        self,
        kind: str,
        text: str,
        targets: Mapping[TopicPartition, tuple[int, ...]],
        step: "Step",
    ) -> float:
        """Submit reassignments in one call, if there are any; return the seconds to wait.

        Without an answer they may be applied now or much later: they stay on record as unanswered.
        Raises StepExpiredError where the process was stopped since the step's last write.
        """
        if not targets:
            return READ_BACK_SECONDS
        with step.together(is_current=True):
            self.record_event(kind, text, step)
            before = step.submitting(targets.items())
        return self._send(targets, before, self._calls, step)

    def _cancel(
        self, moves: Sequence[Move], reason: str, observation: Observation, step: "Step"
    ) -> float:
        """Cancel reassignments in one call, if there are any; return the seconds to wait.

        The replicas before are the run's again with that: a cancel may leave them in another order.
        """
        if not moves:
            return READ_BACK_SECONDS
        before: dict[tuple[TopicPartition, tuple[int, ...]], datetime | None] = {}
        for move in moves:
            row = observation.row_in_flight(move)
            if row is not None:
                before[row.topic_partition, row.target] = row.unanswered_at
        replicas_before = [
            (move.topic_partition, replicas)
            for move in moves
            if (replicas := observation.replicas_before_reassignment(move))
        ]
        # A cancel that Kafka refuses is tried again for as long as its patience.
        calls = RecordedCalls(self._admin, self._journal, self._log, is_repeated=True)
        with step.together(is_current=True):
            calls.record_event("cancelling", f"{_count(moves)}: {reason}", step)
            step.owning((*before, *replicas_before))
        return self._send({move.topic_partition: None for move in moves}, before, calls, step)

    def _send(
        self, targets: Targets, before: "Unanswered", calls: RecordedCalls, step: "Step"
    ) -> float:
        try:
            results = self._admin.alter_reassignments(
                targets, may_change_replication_factor=self._may_resize, deadline=step.deadline
            )
        except UnknownOutcomeError as error:
            calls.record_event("no answer", str(error), step)
            return OBSERVE_AGAIN_SECONDS
        refused = results.errors.keys() if None not in targets.values() else ()
        with step.together():
            step.answered(before, refused)
            calls.record_errors("reassignment", results, step)
        _raise_if_refused("reassignment", results, harmless=_OVERTAKEN)
        return OBSERVE_AGAIN_SECONDS if not results.errors else OBSERVE_AGAIN_SECONDS * 2

    def _elect(self, moves: tuple[Move, ...], step: "Step") -> None:
        partitions = [move.topic_partition for move in moves]
        leaders = "leader" if len(moves) == 1 else "leaders"
        with step.together():
            self.record_event("electing", f"the preferred {leaders} of {_count(moves)}", step)
        try:
            results = self._admin.elect_preferred_leaders(partitions, deadline=step.deadline)
        except UnknownOutcomeError as error:  # harmless: the next observation shows who leads
            self._log(str(error))
            return
        self._calls.record_errors("election", results, step)
        _raise_if_refused("election", results, harmless=(_NOT_ELECTABLE, *_OVERTAKEN))

    def _restore(self, keys: Sequence[KeyChange], step: "Step") -> float:
        results = self._calls.restore(keys, step)
        _raise_if_refused("config change", results, harmless=_PASSES)
        return READ_BACK_SECONDS


def _refused_at_first(
    keys: Iterable[OwnedKey], observation: Observation, results: CallResults[ConfigResource]
) -> list[OwnedKey]:
    """Return the keys that the cluster refused to write, with nothing of ours in them before."""
    refused = results.errors.keys() - without_answer(results.errors)
    ours_before = {key.resource_key for key in observation.owned_keys}
    return [k for k in keys if k.resource in refused and k.resource_key not in ours_before]


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
            f"{what}: the cluster refused {all_of_them}{name_of(subject)}: {reason}; correct the "
            "cause, then execute the plan again"
        )


def _count(moves: Sequence[Move]) -> str:
    return pluralize(len(moves), "partition")
