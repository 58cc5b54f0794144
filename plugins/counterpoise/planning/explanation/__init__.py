"""Explanation: what the plan document says of a result; `planner.explain` puts it together.

Moves with reasons (or why there are none), figures per broker, lower bounds and warnings: all of
them are written from one `PlanningResult`.
"""
