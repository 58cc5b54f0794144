"""Leading: who leads each partition, over the replica sets that were found.

    candidates = Candidates.of(placement, is_eligible, may_change, elects=True)
    leaders = choose_leaders(candidates, policy)

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

from counterpoise.model.columns import Ints
from counterpoise.model.policy import BalancePolicy, LeaderWeight
from counterpoise.planning.leading.candidates import Candidates
from counterpoise.planning.leading.leader_flow import even_leaders
from counterpoise.planning.leading.topic_leaders import even_topics
from counterpoise.planning.leading.weighed_leaders import even_bytes_in

__all__ = ["Candidates", "choose_leaders"]


def choose_leaders(candidates: Candidates, policy: BalancePolicy) -> Ints:
    """Return the broker that is to be the first replica of each partition.

    Partitions that are not free keep their first replica, and count for the broker that leads them.
    When no rate of bytes-in is known, leaders are chosen by number, whatever the policy says.
    """
    free_rates = candidates.bytes_in[candidates.free_partitions]
    if not len(free_rates):
        return candidates.preferred
    leaders = even_leaders(candidates)
    if policy.leader_weight is LeaderWeight.BYTES_IN and free_rates.any():
        leaders = even_bytes_in(candidates, leaders, policy.ignorable_permille)
    else:
        leaders = even_topics(candidates, leaders)
    return np.where(candidates.is_free, leaders, candidates.preferred)
