"""All that a decision depends on: the plan, one observation, the progress, the policy. Pure.

inputs.pending, inputs.moving        # the plan's moves, by their state in the observation
inputs.missing_changes(throttles)    # (): these throttles are in force
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from counterpoise.execution.observation import MovesByState, MoveState, Observation
from counterpoise.execution.throttling.targets import (
    WantedThrottles,
    missing_changes,
    wanted_throttles,
)
from counterpoise.model.kafka import ConfigChange
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.run_progress import RunProgress

# A call without an answer may be applied when a frozen broker wakes. Kafka's broker session ends
# after 9 s by default.
QUIET_SECONDS: Final = 30.0


@dataclass(frozen=True)
class DecisionInputs:
    """All that a decision depends on."""

    plan: RebalancePlan
    observation: Observation
    by_state: MovesByState  # the plan's moves, by their state in the observation
    run_progress: RunProgress
    limits: MovementPolicy
    fleet_max_moves_in_flight: int | None = None

    @property
    def moving(self) -> Sequence[Move]:
        return self.by_state[MoveState.MOVING]

    @property
    def pending(self) -> list[Move]:
        return self.moves_in(MoveState.PENDING, MoveState.CANCELLED)

    def moves_in(self, *states: MoveState) -> list[Move]:
        return [move for state in states for move in self.by_state[state]]

    @cached_property
    def unknown_outcomes(self) -> list[Move]:
        """Return the moves that do not seem to be under way, but a call about them may still be
        applied.
        """
        return [move for move in self.pending if self.has_unknown_outcome(move)]

    def has_unknown_outcome(self, move: Move) -> bool:
        return self.observation.has_unknown_outcome(move, QUIET_SECONDS)

    def throttles_for(
        self, moves: Iterable[Move], remaining: Iterable[Move] = ()
    ) -> WantedThrottles:
        return wanted_throttles(moves, self.run_progress.rate_bytes_per_second, remaining)

    def missing_changes(self, throttles: WantedThrottles) -> tuple[ConfigChange, ...]:
        """Return the changes after which these throttles are in force; () when they are."""
        observation = self.observation
        return missing_changes(throttles, observation.configs, observation.touched_keys)
