"""An outage: brokers and disks that are down, and the findings that only show it.

    causes_of(facts, rows)      # ("broker 2",): each of these partitions lacks a replica there

Causes are subjects of the rules `model.finding.CAUSE_RULES`; `auditing.compare` keeps those that
are open findings of the same audit.

Limits: a broker with an offline log dir counts as down for the replicas of it that are out of sync,
whichever of its disks they are on.
"""

from collections.abc import Iterable

import numpy as np

from counterpoise.audit.facts import AuditFacts
from counterpoise.model import subjects
from counterpoise.model.columns import NOBODY, Ints, missing_from


def causes_of(facts: AuditFacts, rows: Ints) -> tuple[str, ...]:
    """Return the brokers that are down and missing in these rows of `facts.partitions`.

    Nothing where a row misses none of them: then the outage alone does not explain the rows.
    """
    if not facts.brokers_down:
        return ()
    partitions = facts.partitions
    replicas = partitions.replicas[rows]
    is_down = np.isin(replicas, list(facts.brokers_down))
    has_no_leader = partitions.leaders[rows] == NOBODY  # its last in-sync replica stays in the ISR
    is_missing = missing_from(partitions.isr[rows], replicas) | has_no_leader[:, None]
    is_lost = is_down & is_missing
    if not is_lost.any(axis=1).all():
        return ()
    return tuple(map(subjects.broker, np.unique(replicas[is_lost]).tolist()))


def causes_among(facts: AuditFacts, node_ids: Iterable[int]) -> tuple[str, ...]:
    """Return these nodes as causes, if all of them are brokers that are down; else nothing.

    Voters that are stopped explain themselves where the quorum has no leader: nobody fences them.
    """
    node_ids = sorted(node_ids)
    quorum = facts.endpoints.quorum
    if node_ids and quorum is not None and quorum.stopped_voters.issuperset(node_ids):
        return (subjects.QUORUM,)
    if not facts.brokers_down.issuperset(node_ids):
        return ()
    return tuple(map(subjects.broker, node_ids))
