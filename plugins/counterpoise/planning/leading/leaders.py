"""Leaders: how many each broker leads first, exactly; then how many of each topic; with few changes
of leader.

    is_free = free_to_lead(placement, eligible, may_change)
    first = choose_leaders(placement, eligible, is_free, policy, elects=True)        # a broker per partition

By count: a flow finds the most even counts per broker that the replica sets allow, with the fewest
changes of leader (`leader_flow`, an exact optimum). Then leadership goes round between brokers,
each keeping its count, until no topic can be led more evenly that way (`topic_leaders`). By
bytes-in: bytes from producers per broker first, counts second (`weighed_leaders`, a local optimum,
since the exact one is NP-hard).

Replicas that lag behind are not chosen, see `candidates`; what is promised holds over those that
remain. Choosing again once the leaders are as chosen here changes nothing.
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
    placement: Placement, eligible: Flags, is_free: Flags, policy: BalancePolicy, *, elects: bool
) -> Ints:
    """The broker that is to be the first replica of each partition; as it is where the partition is
    not free.

    `eligible` brokers may lead. Partitions that are not free count for the broker that leads them.
    `elects` says whether the goal has leaders elected where nothing else changes; if not, such
    partitions count as led by their preferred leader. Without any rate of bytes in, leaders are
    chosen by count whatever the policy says.
    """
    candidates = Candidates.of(placement, eligible, is_free, elects=elects)
    free = candidates.free
    if not len(free):
        leads = candidates.present
    elif policy.leader_weight is LeaderWeight.BYTES_IN and candidates.bytes_in[free].any():
        leads = even_bytes_in(candidates, policy.ignorable_permille)
    else:
        leads = even_topics(candidates, even_leaders(candidates))
    return np.where(candidates.is_free, leads, placement.replicas[:, 0])
