"""The audit: rules that tell a team what will bite them, with evidence and the fix.

Pure: facts in, findings out.
"""

from typing import Final

from counterpoise.audit.rule import Rule
from counterpoise.audit.rules import (
    availability,
    balance,
    bootstrap,
    certificates,
    coexistence,
    controllers,
    disk,
    drift,
    leftovers,
    listeners,
    partitions,
    racks,
    replication,
    rights,
    snapshots,
    unavailable_data,
    waivers,
)

# By area, in the order of docs/audit-rules.md.
RULES: Final[tuple[Rule, ...]] = (
    *bootstrap.RULES,
    *listeners.RULES,
    *certificates.RULES,
    *controllers.RULES,
    *replication.RULES,
    *availability.RULES,
    *racks.RULES,
    *balance.RULES,
    *partitions.RULES,
    *leftovers.RULES,
    *drift.RULES,
    *snapshots.RULES,
    *disk.RULES,
    *rights.RULES,
    *coexistence.RULES,
    *waivers.RULES,
    *unavailable_data.RULES,
)
