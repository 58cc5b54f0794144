"""Break glass: stops what a plan moves and brings the settings back, with neither Airflow nor
ledger.

with site.operator_alone("orders-eu") as admin:
    stop_from_plan(admin, plan, print)

Whoever still drives the run has to be stopped first, or it goes on.
"""

import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from counterpoise.execution import Driver, ExecutionOptions, keys_to_restore
from counterpoise.execution.throttles import wanted_throttles
from counterpoise.installation import now_utc
from counterpoise.kafka_admin.port import ClusterAdmin
from counterpoise.kafka_admin.throttle_keys import read_throttle_keys
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import InFlight, MovementPolicy
from counterpoise.model.run import RunState, TouchedKey

if TYPE_CHECKING:
    from counterpoise.ledger import Ledger


def stop_from_plan(
    admin: ClusterAdmin, plan: RebalancePlan, log: Callable[[str], None]
) -> tuple[TouchedKey, ...]:
    """Cancels the moves of the plan that are under way, restores order and settings; the keys with
    what became of them.

    The end of a run, driven from a ledger that is made for it and thrown away. Raises
    WrongClusterError.
    """
    from counterpoise.ledger import Ledger

    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.open(f"sqlite:///{Path(folder) / 'stop.db'}", now_utc)
        try:
            run_id = _settling_run(ledger, plan)
            limits = MovementPolicy(on_halt=InFlight.CANCEL)
            driver = Driver(admin, ledger, ExecutionOptions(run_id, plan, 1, limits), now_utc, log)
            driver.check_cluster()
            resources = wanted_throttles(plan.moves, rate_bytes_per_second=0).resources
            ledger.journal(run_id).touching(
                keys_to_restore(plan, read_throttle_keys(admin, resources))
            )
            while (seconds := driver.settle_step()) is not None:
                time.sleep(seconds)
            return ledger.journal(run_id).touched()
        finally:
            ledger.close()


def _settling_run(ledger: "Ledger", plan: RebalancePlan) -> str:
    run_id = ledger.propose(plan, "", requested_by="stop --from-plan").run_id
    now = now_utc()
    yes = Approval(
        run_id,
        plan.fingerprint,
        Decision.GRANTED,
        "stop",
        "break glass",
        now,
        1,
        expires_at=now + timedelta(hours=1),
    )
    ledger.record_decision(yes)
    ledger.change_state(run_id, RunState.RUNNING)
    ledger.change_state(run_id, RunState.SETTLING, "stopped by hand")
    return run_id
