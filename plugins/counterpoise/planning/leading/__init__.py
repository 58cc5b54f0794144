"""Leading: who leads each partition, over the replica sets that were found; `leaders.py` is the way
in.
"""
