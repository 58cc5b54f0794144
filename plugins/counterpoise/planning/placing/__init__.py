"""Placing: how replicas find their brokers; `goals/` has the steps of each goal.

The steps change a `Placement`, which is the one mutable thing, and know nothing of leaders.

    replica_choice, small       small clusters are solved, and racks and counts of larger ones
    transfers, spread           brokers above their target count give replicas to those below it
    local_search                what is left of counts; then bytes, traffic and copies
    rack_program                a linear_program says what to copy instead
    several_new                 new replicas of one partition are shared out to others
    within_budget               the best that so many bytes buy
    new_replicas, lowering      replicas are drained, added or dropped; `local_search` evens them
"""
