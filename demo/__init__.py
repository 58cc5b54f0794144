"""The main job on a real Kafka, start to finish, for people to watch: `python -m demo [--approve]
[--keep]`.

`steps.Demo` has the five steps; `__main__` runs them one after the other, and the end-to-end test
does the same.
"""
