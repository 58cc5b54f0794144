"""Ends a run whose cluster is gone for good: in the ledger alone, without Kafka.

    ended = end_without_cluster(installation, run_id, by=alice, why="decommissioned")
    ended.moves, ended.keys      # what may be left behind, should the cluster come back

Until its end such a run counts in the fleet's max_moves_in_flight, and nothing else may run under
the name of its cluster. Its moves and keys stay on record: where the cluster does come back, the
watch looks after them.
"""

from dataclasses import dataclass
from typing import Final

from counterpoise import access
from counterpoise.errors import RefusedError
from counterpoise.execution.leftovers import is_orphaned
from counterpoise.installation import Installation
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.person import Person
from counterpoise.model.policy import Action, ClusterPolicy
from counterpoise.model.run import UNDER_WAY_STATES, Run, RunState, TouchedKey
from counterpoise.model.typed_text import required
from counterpoise.model.words import join_names, pluralize
from counterpoise.pipeline.other_names import present_name
from counterpoise.units import format_seconds

_KEY_OUTCOME: Final = "its cluster was said to be gone: restored if it comes back"


@dataclass(frozen=True, slots=True)
class EndedWithoutCluster:
    """What a run may have left behind at a cluster that nobody has asked."""

    run: Run
    moves: tuple[TopicPartition, ...]  # that it submitted, and has not seen arrive
    keys: tuple[TouchedKey, ...]  # that it set, and has not restored

    @property
    def in_words(self) -> str:
        left = []
        if self.moves:
            may_be = pluralize(len(self.moves), "partition may be", "partitions may be")
            left.append(f"{may_be} in flight ({join_names(self.moves)})")
        if self.keys:
            are = pluralize(len(self.keys), "config key is", "config keys are")
            names = join_names(sorted({f"{t.resource.type} {t.resource.name}" for t in self.keys}))
            left.append(f"{are} not restored (of {names})")
        if not left:
            return "as far as the ledger knows, it left nothing behind"
        return (
            f"if the cluster comes back, {' and '.join(left)}: `counterpoise watch --cluster "
            f"{self.run.cluster}` looks after that"
        )


def end_without_cluster(
    installation: Installation, run_id: str, *, by: Person, why: str
) -> EndedWithoutCluster:
    """End a run under way as halted, and return what it may have left behind.

    Raises RefusedError for a run that is not under way, one that was observed not long ago, one
    whose cluster has another name now, and a person who may not operate; InputError without a
    reason; StepLockHeldError.
    """
    run, journal = installation.ledger.run(run_id), installation.ledger.journal(run_id)
    settings = installation.settings.clusters.get(run.cluster)
    policy = settings.policy if settings else ClusterPolicy()
    counting = access.check_may(policy, installation.people, by, Action.OPERATE)
    reason = f"ended by {counting.shown} without its cluster, which is gone: {required(why, 'why')}"
    _check_under_way(run)
    if name := present_name(installation, run.cluster):
        raise RefusedError(
            f"the cluster of run {run_id} is not gone, it is named {name} now: name it "
            f"{run.cluster} in clusters.yaml until `counterpoise settle {run_id}` has ended the run"
        )
    with journal.step() as step:
        run = installation.ledger.run(run_id)
        _check_under_way(run)
        if not is_orphaned(run, journal.unobserved_for(), policy.movement):
            patience = format_seconds(policy.movement.orphaned_after.total_seconds())
            raise RefusedError(
                f"run {run_id} is {run.state}, and its cluster was observed within the last "
                f"{patience} (orphaned_after): it is not gone. End the run there, with "
                f"`counterpoise settle {run_id}`"
            )
        keys = tuple(touched for touched in journal.touched() if touched.restored_at is None)
        moves = tuple(sorted(journal.unfinished_submissions()))
        ended = EndedWithoutCluster(run, moves, keys)
        with step.together():
            for touched in keys:
                step.restore_later(touched, _KEY_OUTCOME)
            if run.state is RunState.RUNNING:
                step.change_state(RunState.SETTLING, reason)
            step.change_state(RunState.HALTED, f"{reason}; {ended.in_words}")
    return ended


def _check_under_way(run: Run) -> None:
    if run.state not in UNDER_WAY_STATES:
        raise RefusedError(
            f"run {run.run_id} is {run.state}: it is not under way, so it needs no end"
        )
