"""Statements of the ledger that each step of a run executes, most of them built once: to build one
takes longer than to execute it.

    connection.execute(RUN, {"this_run": run_id}).first()

Those of the step's lock are in `step_lock.py`, those of what a run owns in `owned.py` and
`submitted.py`.
"""

from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa

from counterpoise.ledger.schema import plans, pulses, requests, runs

_THIS_RUN: Final = sa.bindparam("this_run", type_=sa.Text)


def select_runs() -> sa.Select[Any]:
    return sa.select(runs, plans.c.plan_uri).join(plans, runs.c.fingerprint == plans.c.fingerprint)


RUN: Final = select_runs().where(runs.c.run_id == _THIS_RUN)
REQUESTS: Final = (
    sa.select(requests)
    .where(requests.c.cluster == sa.bindparam("this_cluster"))
    .where(requests.c.run_id.is_(None) | (requests.c.run_id == _THIS_RUN))
    .order_by(requests.c.id)
)
PROGRESS: Final = sa.select(pulses.c.body).where(pulses.c.run_id == _THIS_RUN)
OBSERVED_AT: Final = (
    sa.select(sa.func.coalesce(pulses.c.at, runs.c.opened_at))
    .select_from(runs.outerjoin(pulses, pulses.c.run_id == runs.c.run_id))
    .where(runs.c.run_id == _THIS_RUN)
)
UPDATE_OF_PROGRESS: Final = (
    pulses.update()
    .where(pulses.c.run_id == _THIS_RUN)
    .values(
        at=sa.bindparam("new_at"),
        body=sa.bindparam("new_body"),
    )
)


def named(key: Mapping[str, object]) -> dict[str, object]:
    """Return the key's columns as parameters of a where clause."""
    return {f"this_{name}": value for name, value in key.items()}
