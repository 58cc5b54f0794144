"""What a driver carries out, and within which limits: from the approval and the policy."""

from dataclasses import dataclass

from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import BalancePolicy, MovementPolicy
from counterpoise.model.provider import MAX_PARTITIONS_PER_CALL
from counterpoise.model.run import Execution


@dataclass(frozen=True)
class ExecutionOptions:
    """The plan to carry out, and how approval and policy allow it."""

    run_id: str
    plan: RebalancePlan
    rate_bytes_per_second: int
    limits: MovementPolicy
    disk_limit_percent: int = BalancePolicy().disk_limit_percent
    max_partitions_per_call: int = MAX_PARTITIONS_PER_CALL  # that the provider allows
    max_rate_bytes_per_second: int | None = None  # that a request may set
    sets_throttles: bool = True  # otherwise it only takes them back
    # Read before the approval was; None: the newest one when the driver is made.
    execution: Execution | None = None
