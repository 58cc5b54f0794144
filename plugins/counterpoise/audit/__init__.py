"""The audit: rules that tell a team what can fail in production, with evidence and the fix.

Pure: facts in, findings out. A new rule is one decorated function in a module of `audit/rules/`
(see `audit/rule.py`); `RULES` is derived from the modules named here.
"""

from typing import Final

from counterpoise.audit import unavailable_data
from counterpoise.audit.rule import Rule, rules_of
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
    replication_configs,
    rights,
    snapshots,
    waivers,
)

_MODULES: Final = (  # by area, in the order of docs/audit-rules.md
    bootstrap,
    listeners,
    certificates,
    controllers,
    replication,
    replication_configs,
    availability,
    racks,
    balance,
    partitions,
    leftovers,
    drift,
    snapshots,
    disk,
    rights,
    coexistence,
    waivers,
    unavailable_data,
)
RULES: Final[tuple[Rule, ...]] = tuple(rule for module in _MODULES for rule in rules_of(module))
