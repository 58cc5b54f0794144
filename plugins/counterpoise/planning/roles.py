"""Roles: what each broker does in a plan.

roles.destinations | roles.sources      # the brokers whose replicas may change
"""

from dataclasses import dataclass

import numpy as np

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
    def unrestricted(self) -> "Roles":
        """Return the roles as if every broker that shares could give and receive: no goal does
        better.
        """
        return Roles(
            destinations=self.sharing,
            sources=self.sharing,
            leaving=self.leaving,
            staying=self.staying,
            sharing=self.sharing,
            leading=self.leading,
        )

    @property
    def is_demoted(self) -> Flags:
        """Return flags per broker, and False at the end for NOBODY: shares, but may not lead."""
        return np.append(self.sharing & ~self.leading, False)
