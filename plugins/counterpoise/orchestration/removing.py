"""After brokers were emptied: if topics came meanwhile, what is asked for next.

    repeat_removal(site, run["run_id"], outlet_events[REBALANCE_WANTED])

Nothing but a cordoned log dir (KIP-1066) keeps Kafka from placing new topics on a broker that is
being emptied, so a removal is repeated until there is nothing left.
"""

from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from counterpoise.model.plan import RebalancePlan
from counterpoise.model.request import Goal
from counterpoise.model.run import RunState

if TYPE_CHECKING:
    from counterpoise.installation import Installation


def repeat_removal(installation: "Installation", run_id: str, wanted: Any) -> None:
    """Tells the asset event `wanted` that the same brokers are to be emptied once more.

    Raises AirflowSkipException unless the plan was carried out and partitions came to the brokers
    that its photograph does not show: what an asked-for limit or the policy left there is not asked
    for again.
    """
    from counterpoise import queries

    plan = queries.plan_of(installation, run_id)
    is_over = (
        plan.goal is Goal.REMOVE_BROKERS and installation.ledger.run(run_id).state is RunState.DONE
    )
    came = _came_since(installation, plan) if is_over else []
    if not came:
        raise AirflowSkipException("nothing has to be repeated")
    wanted.add_partitions(plan.cluster)
    wanted.extra = {
        "cluster": plan.cluster,
        "goal": str(plan.goal),
        "broker_ids": list(plan.broker_ids),
        "reason": f"{len(came)} partitions came while they were emptied, first {came[0]}",
        "requested_by": f"run {run_id}",
    }


def _came_since(installation: "Installation", plan: RebalancePlan) -> list[str]:
    from counterpoise import pipeline

    left = pipeline.removal_verdict(installation, plan).replicas_left
    if not left:
        return []
    partitions = installation.archive.read_snapshot(plan.cluster, plan.snapshot_id).partitions
    photographed = zip(
        partitions["topic"].to_pylist(), partitions["partition"].to_pylist(), strict=True
    )
    return sorted(set(left) - {f"{topic}-{number}" for topic, number in photographed})
