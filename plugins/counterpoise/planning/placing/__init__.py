"""Placing: how replicas find their brokers; `goals/` has the steps of each goal.

The steps change a `Placement`, which is the one mutable thing, and know nothing of leaders.

    replica_choice, small       small clusters are solved, and racks and counts of larger ones
    transfers, spread           brokers above their target count give replicas to those below it
    exchanges, traffic          two brokers exchange replicas: for bytes, for a topic, for traffic
    new_replicas, lowering      replicas are drained or added, or dropped
    free_replicas               what these two leave uneven
"""
