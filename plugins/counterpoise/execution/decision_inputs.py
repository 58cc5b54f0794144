"""All that a decision depends on: the plan, one observation, the progress, the policy. Pure.

inputs.pending, inputs.moving        # the plan's moves, by their state in the observation
inputs.missing_changes(throttles)    # (): these throttles are in force
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from counterpoise.execution.conditions import CHANGES, TABLE, kept_subjects, patience_of
from counterpoise.execution.observation import MovesByState, MoveState, Observation
from counterpoise.execution.progress_update import dead_brokers
from counterpoise.execution.throttling.targets import (
    WantedThrottles,
    missing_changes,
    wanted_throttles,
)
from counterpoise.model.kafka import ConfigChange
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.provider import MAX_PARTITIONS_PER_CALL
from counterpoise.model.run_progress import Activity, Condition, Conditions, RunProgress

_TO_COME: Final = (MoveState.PENDING, MoveState.CANCELLED)
_KEPT_IN_WANTED_WAITS: Final = {
    *(condition for condition, row in TABLE.items() if row.is_wanted),
    Condition.IN_SYNC_AGAIN,
}
_NOT_UNDER_WAY: Final = (
    *_TO_COME,
    MoveState.TAKEN_BACK,
    MoveState.DRIFTED,
    MoveState.FOREIGN,
)


def without_changes(lasting: Conditions) -> Conditions:
    """Return what lasts, without since when changes have no effect."""
    return {c: subjects for c, subjects in lasting.items() if c not in CHANGES}


@dataclass(frozen=True)
class DecisionInputs:
    """All that a decision depends on."""

    plan: RebalancePlan
    observation: Observation
    by_state: MovesByState  # the plan's moves, by their state in the observation
    run_progress: RunProgress
    limits: MovementPolicy
    max_partitions_per_call: int = MAX_PARTITIONS_PER_CALL
    sets_throttles: bool = True  # otherwise it only takes them back

    def is_over(self, activity: Activity) -> bool:
        """Return whether what a run waits for has lasted for longer than its patience."""
        return bool(self.subjects_over(activity))

    def subjects_over(self, activity: Activity) -> tuple[str, ...]:
        """Return the brokers or partitions of which it has."""
        patience = patience_of(activity.condition, self.limits)
        if patience is None or activity.ends_at is not None:
            return ()
        lasting = self.run_progress.conditions.get(activity.condition, {})
        names, now = kept_subjects(activity), self.observation.observed_at
        return tuple(name for name in names if name in lasting and now - lasting[name] >= patience)

    def conditions_after(self, activity: Activity | None) -> Conditions:
        """Return what the ledger keeps after the decision to do this, or to wait for it.

        As long as the run makes no progress, other conditions go on lasting: a run that waits for
        one thing and another in turn has an end, too. While somebody wants it to wait, and nothing
        is in flight, it need not make any, and needs no broker: only what is wanted goes on
        lasting, and the calm of the back-off; the time that brokers have to catch up begins anew.
        """
        now, kept = self.observation.observed_at, self.run_progress.conditions
        if activity is None:
            return without_changes(kept)
        if activity.condition not in CHANGES:
            kept = without_changes(kept)
        if TABLE[activity.condition].is_wanted and not self.moving:
            catching_up = kept.get(Condition.CATCHING_UP, {})
            kept = {c: subjects for c, subjects in kept.items() if c in _KEPT_IN_WANTED_WAITS}
            kept |= {Condition.CATCHING_UP: dict.fromkeys(catching_up, now)} if catching_up else {}
        if not (subjects := kept_subjects(activity)):
            return kept
        lasting = self.run_progress.conditions.get(activity.condition, {})
        since = {subject: lasting.get(subject, now) for subject in subjects}
        return {**kept, activity.condition: {**kept.get(activity.condition, {}), **since}}

    @property
    def moving(self) -> Sequence[Move]:
        return self.by_state[MoveState.MOVING]

    @cached_property
    def pending(self) -> list[Move]:
        return self.moves_in(*_TO_COME)

    def moves_in(self, *states: MoveState) -> list[Move]:
        return [move for state in states for move in self.by_state[state]]

    @cached_property
    def unknown_outcomes(self) -> list[Move]:
        """Return the moves that do not seem to be under way, but a call about them may still be
        applied: also where somebody has moved the partition since.
        """
        return list(filter(self.observation.has_unknown_outcome, self._not_under_way))

    @cached_property
    def not_shown_yet(self) -> list[Move]:
        """Return the moves that were submitted just now, and do not seem to be under way."""
        return list(filter(self.observation.may_not_show_yet, self.pending))

    @cached_property
    def dead_broker_ids(self) -> tuple[int, ...]:
        """Return the brokers that the rest of the plan needs, and that are not live."""
        return tuple(sorted(dead_brokers(self.by_state, self.observation)))

    @property
    def may_be_in_flight(self) -> list[Move]:
        """Return the moves that do not seem to be under way, and may be, or come to be."""
        answered = [m for m in self.not_shown_yet if not self.observation.has_unknown_outcome(m)]
        return [*self.unknown_outcomes, *answered]

    @cached_property
    def _not_under_way(self) -> list[Move]:
        return self.moves_in(*_NOT_UNDER_WAY)

    @cached_property
    def listed_moves(self) -> list[Move]:
        """Return the moves that the throttled lists have to name, whatever is submitted next.

        Those that do not seem to be under way stay listed where a call may still start them, or has
        just done so, or a step is done.
        """
        pending = self.by_state[MoveState.PENDING]
        between_steps = [move for move in pending if not self.observation.is_as_before(move)]
        staying = {move.topic_partition for move in (*self.may_be_in_flight, *between_steps)}
        not_under_way = self._not_under_way if staying else ()
        return [*self.moving, *(m for m in not_under_way if m.topic_partition in staying)]

    def throttles_for(
        self, moves: Iterable[Move], remaining: Iterable[Move] = ()
    ) -> WantedThrottles:
        """Return the throttles for moves in flight, or about to be, and for those to come."""
        return wanted_throttles(moves, self.run_progress.rate_bytes_per_second, remaining)

    def missing_changes(self, throttles: WantedThrottles) -> tuple[ConfigChange, ...]:
        """Return the changes after which these throttles are in force; () when they are, or where
        none is set.
        """
        if not self.sets_throttles:
            return ()
        observation = self.observation
        return missing_changes(throttles, observation.configs, observation.owned_keys)
