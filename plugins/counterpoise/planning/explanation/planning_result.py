"""A request, what it found and what came of it: what warnings, reasons and figures are told from.

situation.best_counts, situation.out_of_band
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from counterpoise.model.columns import Flags, Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.model.plan import Left
from counterpoise.model.request import PlanRequest
from counterpoise.planning.arrays import ClusterArrays
from counterpoise.planning.explanation.final_assignment import FinalAssignment
from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.targets import byte_band, count_targets
from counterpoise.planning.roles import Roles


@dataclass(frozen=True, eq=False)
class PlanningResult:
    request: PlanRequest
    cluster: ClusterArrays
    roles: Roles
    before: Placement
    after: Placement
    outcome: FinalAssignment
    left: Left = field(default_factory=Left)  # by the budget

    @cached_property
    def best_counts(self) -> Ints:
        """Replicas per broker, if every one that shares could give and take: the most even the
        racks allow.
        """
        return count_targets(self.after, self.roles.anyone)

    @cached_property
    def band(self) -> ByteBand:
        return byte_band(self.after, self.roles, self.request.policy.bytes_tolerance_percent)

    @cached_property
    def out_of_band(self) -> Ints:
        """Positions of the brokers whose bytes are outside the tolerated band in the end."""
        band, held = self.band, self.after.bytes_held
        return np.flatnonzero(self.roles.sharing & (band.bytes_outside(held) > 0))

    @cached_property
    def led(self) -> Ints:
        """Partitions that each broker leads in the end."""
        return self.cluster.led(self.outcome.leaders)

    @property
    def sharing(self) -> Flags:
        return self.roles.sharing


def is_worse(reached: Ints, best: Ints) -> bool:
    """Are counts per broker clearly less even than the best possible? A hundredth of the mean more
    does not matter.
    """
    return int(np.ptp(reached)) > max(1, int(np.ptp(best))) + int(reached.mean()) // 100
