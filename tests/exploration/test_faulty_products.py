"""The explorer finds what it is for: the product with a defect put back breaks a promise within the
bounds of `make test`.
"""

from collections.abc import Sequence
from typing import Any

import pytest

from counterpoise.execution import Driver, command_executor
from counterpoise.execution.command_executor import CommandExecutor
from counterpoise.execution.commands import Throttle
from counterpoise.execution.observation import MoveState, Observation
from counterpoise.execution.throttling import pending_restores
from counterpoise.execution.throttling.restore import keys_to_own
from counterpoise.ledger import rows as run_states
from counterpoise.model.plan import Move
from counterpoise.model.run import TRANSITIONS, UNDER_WAY_STATES, OwnedKey, Run, RunState
from tests.exploration.explorer import explore
from tests.exploration.paths import Budget, Scenario
from tests.exploration.scenarios import (
    EXECUTOR_AND_A_MOVE_TAKEN_BACK,
    EXECUTOR_AND_A_STUCK_FOREIGN_REASSIGNMENT,
    EXECUTOR_AND_CANCEL,
    RESUME_BESIDE_PENDING_RESTORES,
)
from tests.support.ledger_view import change_state_without_the_lock, without_the_lock

NOTHING = Budget()
A_FAULT = Budget(faults=1)


def _finds(scenario: Scenario, budget: Budget, promise: str) -> None:
    found = explore(scenario, budget, max_broken=1, is_earliest_first=True)
    print(found)  # noqa: T201 - `pytest -s` shows how soon
    assert any(promise in complaint for complaint, _ in found.broken.values()), found.tests()


def test_finds_a_watch_that_restores_beside_a_run_what_its_moves_in_flight_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And a run that does not take over what an ended one may have set there."""

    def of_this_run_alone(
        changes: Any, configs: Any, owned_keys: Sequence[OwnedKey], run_id: str
    ) -> list[OwnedKey]:
        own = [key for key in owned_keys if key.run_id == run_id]
        return keys_to_own(changes, configs, own, run_id)

    monkeypatch.setattr(command_executor, "keys_to_own", of_this_run_alone)
    monkeypatch.setattr(pending_restores, "keys_in_use", lambda *_: frozenset())

    _finds(RESUME_BESIDE_PENDING_RESTORES, A_FAULT, "promise 3")


def test_finds_a_driver_that_reads_the_state_before_it_takes_the_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step = Driver.step

    def step_on_what_was_read(self: Driver) -> float | None:
        run = self._run()
        monkeypatch.setattr(self, "_run", lambda: run)
        return step(self)

    monkeypatch.setattr(Driver, "step", step_on_what_was_read)

    _finds(EXECUTOR_AND_CANCEL, A_FAULT, "promise 9")


def test_finds_an_opening_without_the_lock_that_revives_a_cancelled_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The table of states forbids it, too: here it allows it."""
    from_cancelled = TRANSITIONS[RunState.CANCELLED] | {RunState.RUNNING}
    changed = {**TRANSITIONS, RunState.CANCELLED: from_cancelled}
    monkeypatch.setattr(run_states, "TRANSITIONS", changed)

    def open_without_the_lock(self: Driver, seen: Run | None = None) -> None:
        if self._run().state in UNDER_WAY_STATES:
            return
        self._observe(None)
        run_id = self._options.run_id
        change_state_without_the_lock(self._ledger, run_id, RunState.RUNNING, self._clock())

    monkeypatch.setattr(Driver, "open", open_without_the_lock)

    _finds(EXECUTOR_AND_CANCEL, A_FAULT, "promise 10")


def test_finds_earlier_values_that_are_written_before_the_lock_is_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    throttle = CommandExecutor._throttle

    def touch_first(
        self: CommandExecutor, command: Throttle, seen: Observation, rate: int, step: Any
    ) -> float:
        with without_the_lock(step):
            step.touching(keys_to_own(command.changes, seen.configs, (), seen.run_id))
        return throttle(self, command, seen, rate, step)

    monkeypatch.setattr(CommandExecutor, "_throttle", touch_first)

    _finds(EXECUTOR_AND_CANCEL, A_FAULT, "promise 4")


def test_finds_a_move_that_is_done_again_after_somebody_took_it_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find_state = Observation._find_state

    def as_if_it_had_never_arrived(self: Observation, move: Move) -> MoveState:
        present = self.partitions[move.topic_partition].description.replicas
        is_back = present == move.replicas_before
        return MoveState.PENDING if is_back else find_state(self, move)

    monkeypatch.setattr(Observation, "_find_state", as_if_it_had_never_arrived)

    _finds(EXECUTOR_AND_A_MOVE_TAKEN_BACK, NOTHING, "promise 7")


def test_finds_that_the_stuck_reassignment_of_somebody_else_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find_state = Observation._find_state

    def as_if_it_was_ours(self: Observation, move: Move) -> MoveState:
        moving = self.partitions[move.topic_partition].reassignment
        is_stuck = moving is not None and moving.never_ends
        return MoveState.MOVING if is_stuck else find_state(self, move)

    monkeypatch.setattr(Observation, "_find_state", as_if_it_was_ours)

    _finds(EXECUTOR_AND_A_STUCK_FOREIGN_REASSIGNMENT, NOTHING, "promise 7")
