"""Emergency stop: cancels a plan's moves and restores configs, with neither Airflow nor ledger.

    with installation.operator_without_ledger("orders-eu") as admin:
        stop_from_plan(admin, plan, print)

Limits: a process that still executes the plan has to be stopped first, or it goes on.
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from counterpoise.execution import Driver, ExecutionOptions, keys_to_restore, moves_in_flight
from counterpoise.execution.throttling.targets import throttles_of_plan
from counterpoise.installation import now_utc
from counterpoise.kafka_admin.combined_reads import read_throttle_keys
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.policy import InFlight, MovementPolicy
from counterpoise.model.provider import Provider, profile_of
from counterpoise.model.reassignment import reassignment_targets
from counterpoise.model.run import OwnedKey, RunState

if TYPE_CHECKING:
    from counterpoise.kafka_admin.cluster_admin import ClusterAdmin
    from counterpoise.ledger import Journal, Ledger

# With brokers that do not respond: a person waits for the end.
_PATIENCE: Final = timedelta(minutes=2)
_NO_RATE: Final = 1  # bytes per second: a run has one, and this one sets none


@dataclass(frozen=True, slots=True)
class Stopped:
    """The config keys, with what became of them, and the moves that Kafka did not let cancel."""

    keys: tuple[OwnedKey, ...]
    in_flight: tuple[Move, ...]

    @property
    def pending_keys(self) -> tuple[OwnedKey, ...]:
        return tuple(key for key in self.keys if key.done_at is None)


def stop_from_plan(
    admin: "ClusterAdmin",
    plan: RebalancePlan,
    log: Callable[[str], None],
    provider: Provider | None = None,
) -> Stopped:
    """Cancel the plan's moves under way, restore replica order and configs; return what became of
    them.

    This settles a run, driven from a temporary ledger, which only takes throttles back: what it set
    would be somebody else's to the ledger of the run. The order is restored of what this cancels,
    and of what stands in the order in which Kafka's cancel of a planned move leaves replicas.
    Raises WrongClusterError.
    """
    from counterpoise.ledger import Ledger

    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.open(f"sqlite:///{Path(folder) / 'stop.db'}", now_utc)
        try:
            run_id = _settling_run(ledger, plan)
            limits = MovementPolicy(on_halt=InFlight.CANCEL, dead_broker_patience=_PATIENCE)
            options = ExecutionOptions(
                run_id,
                plan,
                _NO_RATE,
                limits,
                max_partitions_per_call=profile_of(provider).max_partitions_per_call,
                sets_throttles=False,
            )
            driver = Driver(admin, ledger, options, now_utc, log)
            driver.check_cluster()
            journal = ledger.journal(run_id)
            _record_possible_changes(admin, journal, plan)
            while (wait_seconds := driver.settle_step()) is not None:
                time.sleep(wait_seconds)
            open_rows = journal.submitted(only_open=True)
            in_flight = moves_in_flight(plan, admin.list_reassignments(), open_rows)
            return Stopped(tuple(journal.owned_keys()), in_flight)
        finally:
            ledger.close()


def _record_possible_changes(
    admin: "ClusterAdmin", journal: "Journal", plan: RebalancePlan
) -> None:
    """Record all that a run of the plan may have changed.

    Without the ledger nobody knows what was submitted: each move, and its way back where a
    partition is on it now, may have been.
    """
    configs = read_throttle_keys(admin, throttles_of_plan(plan).resources)
    reassignments = admin.list_reassignments()
    with journal.step() as step, step.together():
        keys = keys_to_restore(plan, configs, journal.run_id)
        step.keys_answered(step.touching(keys))
        for move in plan.moves:
            tp = move.topic_partition
            targets = {*reassignment_targets(move)}
            if tp in reassignments:
                targets.add(move.replicas_before)
            step.owning((tp, target) for target in targets)


def _settling_run(ledger: "Ledger", plan: RebalancePlan) -> str:
    """Propose, approve and start a run of the plan in the temporary ledger; it only settles."""
    run_id = ledger.propose(plan, "", requested_by="stop --from-plan").run_id
    now = now_utc()
    approval = Approval(
        run_id=run_id,
        fingerprint=plan.fingerprint,
        decision=Decision.GRANTED,
        by="stop",
        reason="emergency stop",
        at=now,
        rate_bytes_per_second=_NO_RATE,
        expires_at=now + timedelta(hours=1),
    )
    ledger.record_decision(approval)
    with ledger.journal(run_id).step() as step:
        step.change_state(RunState.RUNNING)
        step.change_state(RunState.SETTLING, "stopped by hand")
    return run_id
