"""The main job on a real Kafka, from start to end, for people to watch.

    python -m demo [--approve] [--keep]

`steps.Demo` has the five steps; `__main__` and the end-to-end test run them one after the other.
"""
