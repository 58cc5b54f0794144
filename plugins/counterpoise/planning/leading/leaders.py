"""The way in: chooses how many partitions each broker leads, then how many of each topic.

    is_free = free_to_lead(placement, is_eligible, may_change)
    first = choose_leaders(placement, is_eligible, is_free, policy, elects=True)

By number (the default):
    1. `leader_flow`: the most even counts per broker that the replica sets allow, with the fewest
       changes of leader; an exact optimum.
    2. `topic_leaders`: brokers exchange leadership, each keeping its count, until no topic can be
       led more evenly that way.
By bytes-in: `weighed_leaders` starts from the same flow and evens out the bytes from producers per
broker, then the counts; a local optimum, since the exact one is NP-hard.

Limits: replicas that are out of sync are not chosen (`candidates`); what is promised holds for the
others. Choosing again once the chosen leaders lead changes nothing.
"""

import numpy as np

from counterpoise.model.columns import Flags, Ints
from counterpoise.model.policy import BalancePolicy, LeaderWeight
from counterpoise.planning.leading.candidates import Candidates, free_to_lead
from counterpoise.planning.leading.leader_flow import even_leaders
from counterpoise.planning.leading.topic_leaders import even_topics
from counterpoise.planning.leading.weighed_leaders import even_bytes_in
from counterpoise.planning.placement import Placement

__all__ = ["choose_leaders", "free_to_lead"]


def choose_leaders(
    placement: Placement, is_eligible: Flags, is_free: Flags, policy: BalancePolicy, *, elects: bool
) -> Ints:
    """Return the broker that is to be the first replica of each partition.

    Eligible brokers may lead. Partitions that are not free keep their first replica, and count for
    the broker that leads them. `elects` says whether the goal has leaders elected where nothing
    else changes; if not, such partitions count as led by their preferred leader. When no rate of
    bytes-in is known, leaders are chosen by number, whatever the policy says.
    """
    candidates = Candidates.of(placement, is_eligible, is_free, elects=elects)
    free_rates = candidates.bytes_in[candidates.free_partitions]
    if not len(free_rates):
        return placement.replicas[:, 0]
    leaders = even_leaders(candidates)
    if policy.leader_weight is LeaderWeight.BYTES_IN and free_rates.any():
        leaders = even_bytes_in(candidates, leaders, policy.ignorable_permille)
    else:
        leaders = even_topics(candidates, leaders)
    return np.where(candidates.is_free, leaders, placement.replicas[:, 0])
