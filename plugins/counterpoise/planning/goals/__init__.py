"""Goals: what each may do, and what it says of a plan; `goal.py` has what they have in common.

evening.py has those about evenness, emptying.py those that empty brokers, leaders.py those that
move no byte, replication_factor.py the one that adds and drops replicas. A new goal is a name in
`model/request.py`, with its sentence for people, its class here, and its line in `planner.py`.
"""
