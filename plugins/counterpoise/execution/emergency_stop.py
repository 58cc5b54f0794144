"""What a plan alone tells of the settings to bring back, for the stop that needs neither ledger nor
Airflow.

keys = keys_to_restore(plan, configs)

Limits: without the ledger nobody knows which rate was ours. Every rate on a broker that the plan
copies from or to goes back to what the plan's photograph found there; of the lists, only the plan's
own entries go.
"""

from counterpoise.execution.throttles import Configs, own_value, wanted_throttles
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.run import TouchedKey


def keys_to_restore(plan: RebalancePlan, configs: Configs) -> tuple[TouchedKey, ...]:
    """The keys that hold something else than before the plan, as far as the plan may have put it
    there.
    """
    before = {(s.resource, s.key): s.value for s in plan.settings_before}
    target = wanted_throttles(plan.moves, rate_bytes_per_second=0)
    topic_ids = {move.topic: move.topic_id for move in plan.moves}
    found = []
    for resource, key in sorted(target.rates):
        now = own_value(configs, resource, key)
        if now is not None and now != before.get((resource, key)):
            found.append(TouchedKey(resource, key, "", before.get((resource, key)), ours=now))
    for (resource, key), entries in target.lists.items():
        earlier = before.get((resource, key))
        added = [entry for entry in entries if entry not in (earlier or "").split(",")]
        if own_value(configs, resource, key) not in (None, earlier):
            found.append(
                TouchedKey(resource, key, topic_ids[resource.name], earlier, ours=",".join(added))
            )
    return tuple(found)
