"""Config changes of a run: recorded before they are sent, and until each broker has answered.

    calls = RecordedCalls(admin, journal, log)
    results = calls.restore(keys, step)             # keys of the run, each with its change
    results = calls.alter_configs(changes, step.touching(keys), step)

Whoever was stopped for longer than a step holds sends nothing; a call that sets keys, of whoever
was stopped within the call itself, stays on record as unanswered.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from counterpoise.errors import UnknownOutcomeError
from counterpoise.execution.commands import KeyChange
from counterpoise.execution.throttling.restore import restoring_change, subtracted_from
from counterpoise.kafka_admin.combined_reads import read_throttle_keys
from counterpoise.kafka_admin.config_requests import without_answer
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import CallResults, ConfigChange, ConfigResource
from counterpoise.model.words import pluralize

if TYPE_CHECKING:
    from counterpoise.kafka_admin.cluster_admin import ClusterAdmin
    from counterpoise.ledger import Journal, Step
    from counterpoise.ledger.rows import UnansweredKeys

_MAX_ERRORS_NAMED: Final = 20

AnyResults = CallResults[TopicPartition] | CallResults[ConfigResource]


class RecordedCalls:
    def __init__(
        self,
        admin: "ClusterAdmin",
        journal: "Journal",
        log: Callable[[str], None] = lambda _: None,
        *,
        is_repeated: bool = False,
    ) -> None:
        """Prepare for one run. `is_repeated` says that the same is tried again until it succeeds:
        an event that the run has is not written once more.
        """
        self._admin, self._journal, self._log = admin, journal, log
        # Read now: while something is written, nothing else is read.
        events = journal.events() if is_repeated else ()
        self._not_again = {(event.kind, event.text) for event in events}

    def restore(self, keys: Sequence[KeyChange], step: "Step") -> CallResults[ConfigResource]:
        """Restore keys in one call, and read them back.

        Raises StepExpiredError where what was read of them may be old.
        """
        with step.together(is_current=True):
            self.record_event("restoring", pluralize(len(keys), "config key"), step)
            before = step.touching(subtracted_from(keys))
        results = self.alter_configs([change for _, change in keys], before, step)
        self.read_back(keys, results, step)
        return results

    def read_back(
        self, keys: Iterable[KeyChange], results: CallResults[ConfigResource], step: "Step"
    ) -> None:
        """Record which keys are restored: the change was answered, and nothing of ours shows."""
        accepted = [key for key, _ in keys if key.resource in results.accepted]
        if not accepted:
            return
        configs = read_throttle_keys(self._admin, {key.resource for key in accepted})
        step.keys_done(
            key
            for key in accepted
            if key.resource in configs and restoring_change(key, configs) is None
        )

    def alter_configs(
        self, changes: Sequence[ConfigChange], before: "UnansweredKeys", step: "Step"
    ) -> CallResults[ConfigResource]:
        """Change configs in one call; `before` is what the intent to set keys returned.

        Returns nothing accepted where the answer was lost. That is harmless: the next observation
        reads every key, and what a broker that does not respond may apply later, when it wakes, is
        looked for then.
        """
        try:
            results = self._admin.alter_configs(changes, deadline=step.deadline)
        except UnknownOutcomeError as error:
            resources = {change.resource for change in changes}
            unanswered = resources & error.subjects or {r for r in resources if r.is_topic}
            with step.together():
                step.keys_answered(before, except_for=unanswered)
                self.record_event("no answer", str(error), step)
            return CallResults((), {})
        with step.together():
            step.keys_answered(before, except_for=without_answer(results.errors))
            self.record_errors("config change", results, step)
        return results

    def record_event(self, kind: str, text: str, step: "Step") -> None:
        """Write what is about to be done to the ledger, and to the log."""
        if (kind, text) in self._not_again:
            return
        step.event(kind, text)
        self._log(f"{kind}: {text}")

    def record_errors(self, what: str, results: AnyResults, step: "Step") -> None:
        """Record errors of single partitions or resources; the next observation shows the rest."""
        if not results.errors:
            return
        with step.together():
            for subject, reason in list(results.errors.items())[:_MAX_ERRORS_NAMED]:
                self.record_event(f"{what} refused", f"{name_of(subject)}: {reason}", step)


def name_of(subject: object) -> str:
    """Return `broker 4`, `topic orders` or `orders-0`."""
    if isinstance(subject, ConfigResource):
        return f"{subject.type} {subject.name}"
    return str(subject)
