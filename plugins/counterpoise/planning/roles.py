"""Who does what in a plan: which brokers may receive replicas, give some away, lead, or have to end
up empty.

roles.takers | roles.givers
"""

from dataclasses import dataclass

from counterpoise.model.columns import Flags


@dataclass(frozen=True, slots=True, eq=False)
class Roles:
    """One flag per broker in each field."""

    destinations: Flags  # may receive replicas
    sources: Flags  # may lose replicas
    leaving: Flags  # have to end up empty
    staying: Flags  # in the cluster when the plan is done: live and not leaving
    sharing: Flags  # of these, the ones that are to be even: all that the request does not exclude
    leading: Flags  # of these, the ones that may lead

    @property
    def anyone(self) -> "Roles":
        """As if every broker that shares could give and take: what no goal can do better than."""
        return Roles(
            self.sharing, self.sharing, self.leaving, self.staying, self.sharing, self.leading
        )
