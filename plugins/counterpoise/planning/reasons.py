"""Why an empty plan is empty: an answer, not an error.

reason_for_nothing(situation)    # "already balanced: leaders 4 to 5, replicas 12 to 13 per broker, ..."
"""

import numpy as np

from counterpoise.model.request import Goal
from counterpoise.planning.situation import Situation, is_worse


def reason_for_nothing(situation: Situation) -> str:
    """One sentence for the person who asked."""
    cluster, goal = situation.cluster, situation.request.goal
    if not cluster.partition_count:
        return "already balanced: the cluster has no partitions"
    led = situation.led[situation.roles.leading]
    if goal is Goal.LEADERS:
        return f"already balanced: each broker leads {_span(led)} partitions, as even as the replica sets allow"
    if goal is Goal.REMOVE_BROKERS:
        return f"already done: nothing is left to move off, and leaders are as even as they can be ({_span(led)})"
    counts, best = situation.after.counts[situation.sharing], situation.best_counts[situation.sharing]
    percent = situation.request.policy.bytes_tolerance_percent
    facts = f"leaders {_span(led)} and replicas {_span(counts)} per broker"
    if is_worse(counts, best) or len(situation.out_of_band):
        return f"nothing that this goal allows would make the cluster more even: {facts}; see the warnings"
    return f"already balanced: {facts}, bytes within {percent} % of the fair share"


def _span(values: "np.typing.NDArray[np.int64]") -> str:
    low, high = int(values.min()), int(values.max())
    return str(low) if low == high else f"{low} to {high}"
