"""Runs that a Kafka cluster has under another name: one that it had before in clusters.yaml, or the
one that `--bootstrap` gave it while no file named it.

check_other_names(installation, plan)      # raises RefusedError: one is under way, say
present_name(installation, "old-eu")       # "orders-eu": so the file names this cluster now
"""

from counterpoise.errors import RefusedError
from counterpoise.execution.throttling.targets import throttles_of_plan
from counterpoise.installation import Installation
from counterpoise.model.control import find_active_requests
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.run import UNDER_WAY_STATES


def check_other_names(installation: Installation, plan: RebalancePlan) -> None:
    """Raise RefusedError where the plan's cluster is frozen under another name, or a run of it is
    under way, or has left config keys that the plan needs: their values would pass for somebody's
    of before.
    """
    ledger, needed = installation.ledger, throttles_of_plan(plan).keys
    for name, cluster_id in sorted(ledger.pinned_clusters().items()):
        if cluster_id != plan.cluster_id or name == plan.cluster:
            continue
        if freeze := find_active_requests(ledger.requests(name), ledger.clock()).frozen:
            raise RefusedError(
                f"this Kafka cluster, under the name {name}, is {freeze.frozen_in_words}; wait for "
                f"the end, or name the cluster {name} in clusters.yaml for `counterpoise unfreeze`"
            )
        runs = ledger.runs(cluster=name, were_started=True)
        if under_way := [run for run in runs if run.state in UNDER_WAY_STATES]:
            run_id = under_way[0].run_id
            raise RefusedError(
                f"run {run_id} of this Kafka cluster, under the name {name}, is "
                f"{under_way[0].state}: name the cluster {name} in clusters.yaml until "
                f"`counterpoise settle {run_id}` has ended it"
            )
        pending = ledger.journal(runs[0].run_id).pending_restores() if runs else ()
        if any(t.restored_at is None and t.resource_key in needed for t in pending):
            raise RefusedError(
                f"a run of this Kafka cluster, under the name {name}, has left config keys that "
                f"this plan needs: name the cluster {name} in clusters.yaml until `counterpoise "
                f"watch --cluster {name}` has restored them"
            )


def present_name(installation: Installation, name: str) -> str:
    """Return the other name under which clusters.yaml lists a cluster now; "" where it does not."""
    pinned = installation.ledger.pinned_clusters()
    listed = installation.settings.named(pinned.get(name, ""), pinned)
    return listed.name if listed and listed.name != name else ""
