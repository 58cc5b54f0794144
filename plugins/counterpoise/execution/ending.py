"""How a run ends, and what of it is said then. Pure.

end_state(plan, observation, reason, finish, best)    # (RunState.HALTED, "interrupted; ...")
"""

from collections.abc import Sequence

from counterpoise.execution.commands import Finish
from counterpoise.execution.observation import MoveState, Observation
from counterpoise.execution.throttling.pending_restores import pending_in_words
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.run import RunState
from counterpoise.model.run_progress import BestProgress
from counterpoise.model.words import join_names, pluralize, verb


def end_state(
    plan: RebalancePlan,
    observation: Observation,
    reason: str,
    finish: Finish,
    best: BestProgress,
    *,
    is_cancelled: bool = False,
) -> tuple[RunState, str]:
    """Return the state that a run ends in, and why; `reason` is why it halted, or who cancelled it
    where it `is_cancelled`.

    One is done, too, that had elected all leaders at one time, and had nothing to halt for: a
    broker that restarts before it is settled has lost its lead since.
    """
    done = [move for move in plan.moves if observation.state_of(move) is MoveState.DONE]
    led_by_others = [move for move in done if not observation.has_planned_leader(move)]
    gone = [move for move in plan.moves if observation.state_of(move) is MoveState.GONE]
    unfinished = len(plan.moves) - len(done) + len(led_by_others)
    had_elected_all = not reason and best.leaders_elected >= len(plan.moves)
    lost_their_leader = led_by_others if had_elected_all else []
    pending = pending_in_words(
        finish.pending_restores,
        observation.live_broker_ids,
        plan.cluster,
        waits_for_moves=bool(finish.gave_up),
    )
    if unfinished == len(gone) + len(lost_their_leader):
        partitions, whose = pluralize(len(gone), "partition"), verb(len(gone), "its", "their")
        skipped = f"{partitions} skipped: {whose} topic is gone" if gone else ""
        led = _led_by_others_in_words(lost_their_leader)
        return RunState.DONE, "; ".join(filter(None, (skipped, led, pending, finish.gave_up)))
    undone = f"{unfinished} of {pluralize(len(plan.moves), 'partition')} not as planned"
    parts = (reason or "interrupted", undone, pending, finish.gave_up)
    state = RunState.CANCELLED if is_cancelled else RunState.HALTED
    return state, "; ".join(filter(None, parts))


def _led_by_others_in_words(moves: Sequence[Move]) -> str:
    if not moves:
        return ""
    partitions, are = pluralize(len(moves), "partition"), verb(len(moves), "is", "are")
    return (
        f"{partitions} {are} led by another broker again since all leaders were elected: "
        f"{join_names([move.topic_partition for move in moves])}"
    )
