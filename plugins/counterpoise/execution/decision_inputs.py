"""All that a decision depends on: the plan, one observation, the progress, the policy. Pure.

inputs.pending, inputs.moving        # the plan's moves, by their state in the observation
inputs.missing_changes(throttles)    # (): these throttles are in force
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Final

from counterpoise.execution.cancelled_moves import seem_cancelled
from counterpoise.execution.conditions import dead_brokers
from counterpoise.execution.observation import MovesByState, MoveState, Observation
from counterpoise.execution.throttling.targets import (
    WantedThrottles,
    missing_changes,
    wanted_throttles,
)
from counterpoise.execution.waits import (
    CANCELS_SENT,
    DECIDED,
    NO_EFFECT,
    NO_RUN_PROGRESS,
    WaitReason,
    WithoutEffect,
    is_wanted,
)
from counterpoise.execution.waits_for_cluster import (
    IN_SYNC_AGAIN,
    CancelledByOthers,
    is_catching_up,
)
from counterpoise.model.kafka import ConfigChange
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.provider import MAX_PARTITIONS_PER_CALL
from counterpoise.model.run import TouchedKey
from counterpoise.model.run_progress import RunProgress

# A call without an answer may be applied when a frozen broker wakes. Kafka's broker session ends
# after 9 s by default.
QUIET_SECONDS: Final = 30.0
_TO_COME: Final = (MoveState.PENDING, MoveState.CANCELLED)
# Of one change after another, without a wait.
_OF_CHANGES: Final = (f"{DECIDED}{NO_EFFECT}", CANCELS_SENT)


def without_changes(lasting: Mapping[str, datetime]) -> dict[str, datetime]:
    """Return what lasts, without since when changes have no effect."""
    return {name: at for name, at in lasting.items() if name not in _OF_CHANGES}


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

    def with_touched_keys(self, touched_keys: tuple[TouchedKey, ...]) -> "DecisionInputs":
        """Return the same with other keys of ours; what was found of moves stays found."""
        inputs = copy(self)  # `replace` would leave that out
        vars(inputs)["observation"] = self.observation.with_touched_keys(touched_keys)
        return inputs

    def is_over(self, reason: WaitReason) -> bool:
        """Return whether a reason to wait has lasted for longer than its patience."""
        return bool(self.names_over(reason))

    def names_over(self, reason: WaitReason) -> tuple[str, ...]:
        """Return which of the reason's names have lasted for longer than its patience."""
        patience = reason.patience(self.limits)
        if patience is None:
            return ()
        lasting, now = self.run_progress.conditions_since, self.observation.observed_at
        names = [name for name in reason.kept_names if name in lasting]
        return tuple(name for name in names if now - lasting[name] >= patience)

    def conditions_after(self, reason: WaitReason | None) -> dict[str, datetime]:
        """Return what the ledger keeps after a decision to wait for this reason.

        As long as the run makes no progress, other reasons go on lasting: a run that waits for one
        thing and another in turn has an end, too. While somebody wants it to wait, and nothing is
        in flight, it need not make any, and needs no broker: only what is wanted goes on lasting,
        and the calm of the back-off; the time that brokers have to catch up begins anew.
        """
        lasting, now = self.run_progress.conditions_since, self.observation.observed_at
        kept = without_changes(lasting)
        if NO_RUN_PROGRESS not in lasting:
            kept = {name: at for name, at in kept.items() if not name.startswith(DECIDED)}
        if reason is None:
            return kept
        if isinstance(reason, WithoutEffect):  # of cancels, and of what is sent between them
            kept |= {name: lasting[name] for name in _OF_CHANGES if name in lasting}
        if reason.is_wanted and not self.moving:
            catching_up = dict.fromkeys(filter(is_catching_up, kept), now)
            kept = catching_up | {
                name: at for name, at in kept.items() if is_wanted(name) or name == IN_SYNC_AGAIN
            }
        return kept | {name: lasting.get(name, now) for name in reason.kept_names}

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
        return list(filter(self.has_unknown_outcome, self._submitted(self._not_under_way)))

    @cached_property
    def not_shown_yet(self) -> list[Move]:
        """Return the moves that were submitted just now, and do not seem to be under way."""
        return list(filter(self.observation.may_not_show_yet, self._submitted(self.pending)))

    @cached_property
    def dead_broker_ids(self) -> tuple[int, ...]:
        """Return the brokers that the rest of the plan needs, and that are not live."""
        return tuple(sorted(dead_brokers(self.by_state, self.observation)))

    @cached_property
    def seem_cancelled(self) -> CancelledByOthers | None:
        """Return which moves seem to be cancelled by somebody else, or a broker is only behind:
        nothing new is submitted meanwhile.
        """
        return seem_cancelled(self.run_progress)

    @property
    def may_be_in_flight(self) -> list[Move]:
        """Return the moves that do not seem to be under way, and may be, or come to be."""
        answered = [m for m in self.not_shown_yet if not self.has_unknown_outcome(m)]
        return [*self.unknown_outcomes, *answered]

    @cached_property
    def _not_under_way(self) -> list[Move]:
        return self.moves_in(*_TO_COME, MoveState.DRIFTED, MoveState.FOREIGN)

    def _submitted(self, moves: Iterable[Move]) -> list[Move]:
        """Return those of which a submission is known, which are few."""
        submissions = self.observation.submissions
        return [move for move in moves if move.topic_partition in submissions]

    def has_unknown_outcome(self, move: Move) -> bool:
        return self.observation.has_unknown_outcome(move, QUIET_SECONDS)

    @cached_property
    def listed_moves(self) -> list[Move]:
        """Return the moves that the throttled lists have to name, whatever is submitted next.

        Those that do not seem to be under way stay listed where a call may still start them, or has
        just done so, or a step is done.
        """
        between_steps = filter(self.observation.is_between_steps, self.by_state[MoveState.PENDING])
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
        return missing_changes(throttles, observation.configs, observation.touched_keys)
