"""What a run report shows: plain values that a service gathers from the ledger, the plan and two
snapshots.

RunReport(run=run, plan=plan, approval=approval, before=..., after=..., copied_bytes=..., ...)
"""

from dataclasses import dataclass

from counterpoise.model.approval import Approval
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.run import Event, Run
from counterpoise.model.run_progress import BrokerLoad


@dataclass(frozen=True, slots=True)
class ThrottleKey:
    """One config key that the run touched; None means "was not set"."""

    resource: str  # as people say it: "broker 4", "topic orders"
    key: str
    before: str | None
    during: str | None
    after: str | None
    is_pending: bool = False  # the broker is dead, so that the key could not be restored yet

    @property
    def is_restored(self) -> bool:
        return not self.is_pending and self.before == self.after


@dataclass(frozen=True, slots=True)
class RunReport:
    """Everything that a run report says.

    `after` is empty when the cluster could not be observed afterwards.
    """

    run: Run
    plan: RebalancePlan
    approval: Approval | None
    before: tuple[BrokerLoad, ...]  # by broker id
    after: tuple[BrokerLoad, ...]
    copied_bytes: int  # of the moves that are done
    moves_done: int
    throttle_keys: tuple[ThrottleKey, ...]
    events: tuple[Event, ...]  # oldest first
    problems: tuple[str, ...] = ()  # what verification found; empty when all is as planned
