"""How a run ends: done or halted, and what is left to do. Pure.

end_state(plan, observation, reason, finish)    # (RunState.HALTED, "cancelled by bob; ...")
"""

from counterpoise.execution.commands import Finish
from counterpoise.execution.observation import MoveState, Observation
from counterpoise.execution.throttling.pending_restores import pending_in_words
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.run import RunState
from counterpoise.model.words import pluralize, verb


def end_state(
    plan: RebalancePlan, observation: Observation, reason: str, finish: Finish
) -> tuple[RunState, str]:
    """Return the state that a run ends in, and why; `reason` is why it halted."""

    def is_as_planned(move: Move) -> bool:
        is_done = observation.state_of(move) is MoveState.DONE
        return is_done and observation.has_planned_leader(move)

    unfinished = [move for move in plan.moves if not is_as_planned(move)]
    gone = [move for move in unfinished if observation.state_of(move) is MoveState.GONE]
    pending = pending_in_words(finish.pending_restores, observation.live_broker_ids, plan.cluster)
    if len(unfinished) == len(gone):
        partitions, whose = pluralize(len(gone), "partition"), verb(len(gone), "its", "their")
        skipped = f"{partitions} skipped: {whose} topic is gone" if gone else ""
        return RunState.DONE, "; ".join(filter(None, (skipped, pending, finish.gave_up)))
    undone = f"{len(unfinished)} of {pluralize(len(plan.moves), 'partition')} not as planned"
    parts = (reason or "interrupted", undone, pending, finish.gave_up)
    return RunState.HALTED, "; ".join(filter(None, parts))
