"""What is deleted with the old events of a run: the many rows about its partitions and keys.

deleted = delete_rows_of_forgotten_runs(connection, "demo")
"""

import sqlalchemy as sa

from counterpoise.ledger.schema import elections, events, late_calls, moves, runs, touched_keys
from counterpoise.model.run import LOOKED_AFTER_STATES


def delete_rows_of_forgotten_runs(connection: sa.Connection, cluster: str) -> int:
    """Delete the rows of ended runs of which no event is left, and return how many.

    What may still matter stays, however old: moves that were never observed done, keys that are not
    restored or that a call may still change, and calls that are not settled. So do runs and their
    last progress.
    """
    has_events = sa.exists().where(events.c.run_id == runs.c.run_id)
    forgotten = sa.select(runs.c.run_id).where(
        runs.c.cluster == cluster, runs.c.state.in_(LOOKED_AFTER_STATES), ~has_events
    )
    no_longer_needed = (
        (moves, moves.c.done_at.is_not(None)),
        (elections, sa.true()),
        (late_calls, late_calls.c.settled_at.is_not(None)),
        (
            touched_keys,
            touched_keys.c.restored_at.is_not(None) & touched_keys.c.unanswered_call.is_(None),
        ),
    )
    return sum(
        connection.execute(table.delete().where(table.c.run_id.in_(forgotten), condition)).rowcount
        for table, condition in no_longer_needed
    )
