"""Placing: how replicas find their brokers; `goals/` has the steps of each goal.

The steps change a `Placement`, which is the one mutable thing, and know nothing of leaders.
"""
