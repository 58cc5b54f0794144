"""Who does what in a plan: which brokers may receive replicas, give some away, or have to end up empty.

roles.takers | roles.givers
"""

from dataclasses import dataclass

from counterpoise.planning.arrays import Flags


@dataclass(frozen=True, slots=True, eq=False)
class Roles:
    """One flag per broker in each field."""

    takers: Flags  # may receive replicas
    givers: Flags  # may lose replicas
    leaving: Flags  # have to end up empty
    staying: Flags  # share the load when the plan is done: live and not leaving
