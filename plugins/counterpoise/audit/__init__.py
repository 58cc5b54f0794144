"""The audit: rules that tell a team what can fail in production, with evidence and the fix.

Pure: facts in, findings out. A new rule is one decorated function in a module of `audit/rules/`
(see `audit/rule.py`); its area is that of the module here.
"""

from collections.abc import Mapping
from itertools import chain
from typing import Final

from counterpoise.audit import unavailable_data
from counterpoise.audit.rule import Rule, rules_of
from counterpoise.audit.rules import (
    access,
    availability,
    balance,
    bootstrap,
    clients,
    configs,
    controllers,
    disk,
    drift,
    leftovers,
    listeners,
    partitions,
    racks,
    replication,
    rights,
    waivers,
)

# In the order of docs/audit-rules.md, which has a chapter for each area. Of findings that are as
# bad, the earlier area comes first: what keeps clients from working now before what may do so.
_MODULES_BY_AREA: Final = {
    "advertised listeners": (listeners,),
    "bootstrap": (bootstrap,),
    "availability now": (availability,),
    "replication": (replication,),
    "controllers": (controllers,),
    "configs": (configs,),
    "access": (access,),
    "racks": (racks,),
    "balance": (balance,),
    "partitions": (partitions,),
    "clients": (clients,),
    "leftovers": (leftovers, drift),
    "disk": (disk,),
    "rights": (rights,),
    "waivers": (waivers,),
    "unavailable data": (unavailable_data,),
}
RULES_BY_AREA: Final[Mapping[str, tuple[Rule, ...]]] = {
    area: tuple(chain.from_iterable(map(rules_of, modules)))
    for area, modules in _MODULES_BY_AREA.items()
}
RULES: Final[tuple[Rule, ...]] = tuple(chain.from_iterable(RULES_BY_AREA.values()))
# What keeps clients from the cluster, and us from a snapshot of it.
CONNECTION_RULES: Final[tuple[Rule, ...]] = (
    controllers.quorum_no_leader,
    bootstrap.bootstrap_dead_address,
    bootstrap.name_with_dead_addresses,
    bootstrap.bootstrap_other_cluster,
    bootstrap.metadata_differs,
    *(rule for rule in rules_of(listeners) if rule is not listeners.listener_unencrypted),
)
# What `doctor` checks, and an audit where no snapshot can be made: these rules need connections,
# brokers and leaders alone.
RULES_WITHOUT_SNAPSHOT: Final[tuple[Rule, ...]] = (
    *CONNECTION_RULES,
    availability.partitions_offline,
    availability.broker_fenced,
)
