"""Replication factors: replicas added where they are missing, or taken away where there are too many."""

from counterpoise.planning.placement import Placement
from counterpoise.planning.roles import Roles


def set_replication_factor(placement: Placement, roles: Roles, factor: int) -> None:
    raise NotImplementedError
