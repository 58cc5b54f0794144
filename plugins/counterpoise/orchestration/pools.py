"""Airflow's pool for each purpose, so that one purpose never takes the slots of another.

    @task(pool=pool_for("SNAPSHOT"))       # COUNTERPOISE_SNAPSHOT_POOL, else Airflow's default_pool

Limits: Airflow starts no task of a pool that it does not have; `airflow pools set` makes one.
"""

import os
from typing import Final

DEFAULT_POOL: Final = "default_pool"


def pool_for(purpose: str) -> str:
    """Return the pool that `COUNTERPOISE_<purpose>_POOL` names: SNAPSHOT, AUDIT, WATCH, RUN."""
    return os.environ.get(f"COUNTERPOISE_{purpose}_POOL") or DEFAULT_POOL
