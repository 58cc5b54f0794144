"""The main job, one function per stage: snapshot, history, analysis, plan, validate, approve,
execute, verify, report.

    request = RebalanceRequest(Goal.ADD_BROKERS, (7,))
    run = plan(installation, "orders-eu", request, Origin(alice))
    validate(installation, run["run_id"], run["fingerprint"])

Dags and the command line call these functions; each may be repeated. What one stage hands to the
next is a run's id, the plan's URI and its fingerprint; the plan itself is read from the store each
time and has to match. This is wiring only: what is right, good enough or allowed is for the rooms.

`__init__.pyi` lists what is in which module; a module is imported when the first of its names is
used, so that no task and no command waits for the rooms of another stage.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
