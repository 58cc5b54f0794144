"""Whether a run comes nearer to its end, measured against the farthest that it has come. Pure.

    best = best_progress(before, by_state, observation, progress)
    partitions_nearer(before, best)    # {"orders-0"}: fewer bytes are left there than ever
    has_progressed(before, best)       # that, or more moves are done, or more leaders elected

Never against the observation before: bytes that producers write arrive without an end, and so do
leaders that are elected, lost and elected again.

Example: of orders-0 50 MB are left at 12:00:00, 60 MB at 12:00:10, 55 MB at 12:00:20: no progress,
until fewer than 50 MB are left.
"""

from counterpoise.execution.observation import MovesByState, MoveState, Observation
from counterpoise.model.plan import Move
from counterpoise.model.run import Progress
from counterpoise.model.run_progress import BestProgress


def best_progress(
    before: BestProgress, by_state: MovesByState, observation: Observation, progress: Progress
) -> BestProgress:
    """Return the farthest that a run has come, this observation included.

    Where it is not known what has arrived, the fewest bytes left stay as they were; so they do
    where somebody cancelled a move, which is submitted again.
    """
    done = {str(move.topic_partition) for move in by_state[MoveState.DONE]}
    elected = progress.moves_done - progress.elections_left + len(by_state[MoveState.GONE])
    bytes_left = {name: left for name, left in before.bytes_left.items() if name not in done}
    for move in by_state[MoveState.MOVING]:
        name = str(move.topic_partition)
        known_bytes_left = (before.bytes_left.get(name), _bytes_left(move, observation))
        is_known = [size_bytes for size_bytes in known_bytes_left if size_bytes is not None]
        bytes_left[name] = min(is_known, default=move.copied_bytes)
    return BestProgress(
        moves_done=max(before.moves_done, progress.moves_done),
        leaders_elected=max(before.leaders_elected, elected),
        bytes_left=bytes_left,
    )


def _bytes_left(move: Move, observation: Observation) -> int | None:
    """Return what the replicas that are added still have to copy; None where that is not known.

    A replica in the ISR has copied all, however much producers write.
    """
    if observation.leader_of(move) is None or not observation.is_measured(move):
        return None
    isr = observation.partitions[move.topic_partition].description.isr
    return sum(
        observation.bytes_to_copy(move, broker_id)
        for broker_id in observation.adding_replicas(move)
        if broker_id not in isr
    )


def partitions_nearer(before: BestProgress, best: BestProgress) -> set[str]:
    """Return the partitions whose move has begun, or has fewer bytes left than ever."""
    return {
        name
        for name, size_bytes in best.bytes_left.items()
        if name not in before.bytes_left or size_bytes < before.bytes_left[name]
    }


def has_progressed(before: BestProgress, best: BestProgress) -> bool:
    """Return whether a move began, came nearer to its end or ended, or a leader was elected."""
    return (
        best.moves_done > before.moves_done
        or best.leaders_elected > before.leaders_elected
        or bool(partitions_nearer(before, best))
    )
