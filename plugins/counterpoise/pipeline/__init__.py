"""The main job, one function per stage: snapshot, history, analysis, plan, validate, approve,
execute, verify, report.

    run = plan(site, "orders-eu", Wish(Goal.ADD_BROKERS, (7,)), requested_by="alice")
    validate(site, run["run_id"], run["fingerprint"])

Dags and the command line call these; each may be repeated. What a stage hands on is a run's id,
where its plan lies and the plan's fingerprint; the plan itself is read from the store each time and
has to match.

What is here, and in which module, is told by `__init__.pyi`; a module is imported when the first of
its names is used: no task and no command waits for the rooms of another stage.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
