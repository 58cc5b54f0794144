"""Leading: who leads each partition, over the replica sets that were found.

    candidates = Candidates.of(placement, is_eligible, may_change, elects=True)
    leaders = choose_leaders(candidates, policy)

By number (the default):
    1. `leader_flow`: the most even counts per broker that the replica sets allow, with the fewest
       changes of leader; an exact optimum.
    2. `topic_leaders`: brokers exchange leadership, each keeping its count, until no topic can be
       led more evenly that way.
    3. `leader_traffic`, where rates are known and the goal evens traffic: exchanges that bring
       bytes-in within the tolerance, and leave counts and topics as they are.
By bytes-in: `weighed_leaders` starts from the same flow and evens out the bytes from producers per
broker, then the counts; a local optimum, since the exact one is NP-hard.

Limits: replicas that are out of sync are not chosen (`candidates`); what is promised holds for the
others. Choosing again once the chosen leaders lead changes nothing.
"""

from typing import Final

import numpy as np

from counterpoise.model.columns import Ints
from counterpoise.model.policy import BalancePolicy, LeaderWeight
from counterpoise.planning.leading.candidates import Candidates
from counterpoise.planning.leading.leader_flow import even_leaders
from counterpoise.planning.leading.leader_traffic import even_leader_traffic
from counterpoise.planning.leading.topic_leaders import even_topics
from counterpoise.planning.leading.weighed_leaders import even_bytes_in

_MAX_TURNS: Final = 20

__all__ = ["Candidates", "choose_leaders"]


def choose_leaders(
    candidates: Candidates, policy: BalancePolicy, *, evens_traffic: bool = False
) -> Ints:
    """Return the broker that is to be the first replica of each partition.

    Partitions that are not free keep their first replica, and count for the broker that leads them.
    With `evens_traffic`, leaders chosen by number bring bytes-in within the tolerance, too.
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
        if evens_traffic:
            leaders = _with_even_traffic(candidates, leaders, policy.bytes_in_tolerance_percent)
    return np.where(candidates.is_free, leaders, candidates.preferred)


def _with_even_traffic(candidates: Candidates, leaders: Ints, tolerance_percent: int) -> Ints:
    """Exchange leaders for traffic, then for topics again, until neither finds anything."""
    for _ in range(_MAX_TURNS):
        evened = even_leader_traffic(candidates, leaders, tolerance_percent)
        if (evened == leaders)[candidates.is_free].all():
            break
        leaders = even_topics(candidates, evened)
    return leaders
