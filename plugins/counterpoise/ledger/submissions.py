"""Which partitions the runs of a cluster have submitted, within a transaction of the caller."""

from collections.abc import Mapping
from datetime import datetime

import sqlalchemy as sa

from counterpoise.ledger.schema import moves, runs
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.run import LOOKED_AFTER_STATES, LOST_AFTER


def read_moved_after(
    connection: sa.Connection, cluster: str, opened_at: datetime
) -> dict[TopicPartition, str]:
    """Return the partitions submitted by runs that were opened later, each with the oldest run."""
    query = (
        sa.select(moves.c.topic, moves.c.partition, moves.c.run_id)
        .join(runs, runs.c.run_id == moves.c.run_id)
        .where(runs.c.cluster == cluster, runs.c.opened_at > opened_at)
        .order_by(runs.c.opened_at.desc())
    )
    return {
        TopicPartition(row.topic, row.partition): row.run_id for row in connection.execute(query)
    }


def read_submitted_by_ended_runs(
    connection: sa.Connection,
    cluster: str,
    targets: Mapping[TopicPartition, tuple[int, ...]],
    now: datetime,
) -> dict[TopicPartition, str]:
    """Return the id of the ended run that last submitted each partition with this target.

    Without partitions that no ended run submitted so, that had arrived there, or whose call is
    taken for lost.
    """
    has_no_answer = moves.c.answered_at.is_(None) | moves.c.asked_broker_id.is_not(None)
    query = (
        sa.select(moves.c.run_id, moves.c.topic, moves.c.partition, moves.c.target)
        .join(runs, runs.c.run_id == moves.c.run_id)
        .where(
            runs.c.cluster == cluster,
            runs.c.state.in_(LOOKED_AFTER_STATES),
            moves.c.topic.in_({tp.topic for tp in targets}),
            moves.c.done_at.is_(None),
            sa.not_(has_no_answer & (moves.c.submitted_at <= now - LOST_AFTER)),
        )
        .order_by(moves.c.submitted_at)
    )
    wanted = {tp: ",".join(map(str, target)) for tp, target in targets.items()}
    rows = [
        (TopicPartition(row.topic, row.partition), row.target, row.run_id)
        for row in connection.execute(query)
    ]
    return {tp: run_id for tp, target, run_id in rows if target and wanted.get(tp) == target}
