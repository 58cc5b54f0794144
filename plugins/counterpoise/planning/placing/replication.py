"""Replication factors: replicas added where they are missing, or taken away where there are too
many.

    set_replication_factor(placement, roles, 3)

No replica moves: what a partition keeps stays where it is. Partitions that may not change are left
as they are, and so are those without a leader, since there is nobody to copy from. Where no broker
may take a replica (each has one, is out of scope, or has no room) a partition stays short of the
factor; `shortfalls.py` names it.
"""

from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.lowering import drop_surplus
from counterpoise.planning.placing.raising import add_missing
from counterpoise.planning.roles import Roles


def set_replication_factor(placement: Placement, roles: Roles, factor: int) -> None:
    """Gives every partition that may change `factor` replicas, as far as brokers in scope can give
    or take them.
    """
    drop_surplus(
        placement, roles, factor
    )  # first, so that it counts where the brokers stand when others are added
    add_missing(placement, roles, factor)
