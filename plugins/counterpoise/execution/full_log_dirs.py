"""Which brokers' full log dirs a move would fill further. Pure.

    brokers_filled_by(move, observation)    # (4,): it copies, or will copy, into a full log dir

A replica that is in sync has nothing left to copy, and one that is known to lie in another log dir
of its broker fills that one. Where a new replica will come is not known before it is there.
"""

from counterpoise.execution.observation import Observation
from counterpoise.model.plan import Move


def brokers_filled_by(move: Move, observation: Observation) -> tuple[int, ...]:
    """Return the brokers with a full log dir into which the move copies, as far as is known."""
    partition, name = observation.partitions[move.topic_partition], str(move.topic_partition)
    return tuple(
        broker_id
        for broker_id in observation.adding_replicas(move)
        if broker_id in observation.conditions.full_log_dirs
        and broker_id not in partition.description.isr
        and name not in observation.log_dirs[broker_id].beside_full
    )
