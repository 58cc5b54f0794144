"""Planning: which replicas move and who leads, as even as can be with the least data.

    from counterpoise.planning import make_plan

    plan = make_plan(snapshot, PlanRequest(Goal.ADD_BROKERS, (4,)))

Pure: no I/O, no clock, no chance. `planner.py` has the order of work, `goals/` what each goal may
do.
"""

from counterpoise.planning.imported import plan_to_reach
from counterpoise.planning.planner import ComparedPlan, compare, make_plan, plan_from

__all__ = ["ComparedPlan", "compare", "make_plan", "plan_from", "plan_to_reach"]
