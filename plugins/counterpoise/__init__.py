"""Counterpoise keeps Apache Kafka clusters in balance, on a schedule, from the outside.

The rooms in this package have the names of the stages of the main job:
snapshot -> history -> analysis -> plan -> validate -> approve -> execute -> verify -> report.
`docs/architecture.md` has the map.
"""

__version__ = "0.1.0"
