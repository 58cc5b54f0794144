"""A run and its plan, as every stage after planning looks them up."""

from counterpoise.errors import StalePlanError
from counterpoise.installation import Installation
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.run import Run


def run_and_plan(
    installation: Installation, run_id: str, fingerprint: str | None = None
) -> tuple[Run, RebalancePlan]:
    """Raises StalePlanError where the run, or what the store holds, is another plan than this one;
    LedgerError.
    """
    run = installation.ledger.run(run_id)
    if fingerprint is not None and run.fingerprint != fingerprint:
        raise StalePlanError(
            f"run {run_id} is for plan {run.fingerprint}, not for {fingerprint}; nothing was changed"
        )
    return run, installation.archive.read_plan(run.plan_uri, run.fingerprint)
