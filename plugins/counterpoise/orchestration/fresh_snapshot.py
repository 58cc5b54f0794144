"""A snapshot of a cluster after a run has ended there, by the Dag `kafka_snapshot`.

    FreshSnapshot(task_id="fresh_snapshot", trigger_rule="all_done")

Without it fleet, audit and balance report would show the cluster as it was before the run, until
the next round. Nothing waits for that Dag run, and nothing follows from it for this one.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import Param
from airflow.sdk.exceptions import AirflowSkipException

from counterpoise.orchestration.form import listed_clusters
from counterpoise.orchestration.handover import run_to_tell
from counterpoise.orchestration.installation import airflow_installation

SNAPSHOT_DAG: Final = "kafka_snapshot"
_CLUSTERS: Final = "clusters"  # the field of its form


class FreshSnapshot(TriggerDagRunOperator):
    """Triggers `kafka_snapshot` for the cluster of this run; skipped where nothing moved."""

    template_fields = ()

    def __init__(self, **arguments: Any) -> None:
        super().__init__(trigger_dag_id=SNAPSHOT_DAG, logical_date=None, **arguments)

    def execute(self, context: Any) -> None:
        """Trigger it."""
        from counterpoise.services import verification

        with airflow_installation() as installation:
            run = run_to_tell(installation, context["ti"])
            cluster = verification.moved_cluster(installation, run["run_id"])
        if cluster is None:
            raise AirflowSkipException("nothing moved, so the last snapshot still holds")
        self.conf = {_CLUSTERS: [cluster]}
        self.note = f"after run {run['run_id']} of {cluster}"
        super().execute(context)


def snapshot_form() -> dict[str, Any]:
    """Return the form of `kafka_snapshot` and `kafka_audit`: a list to choose from where the
    settings can be read.
    """
    names = list(listed_clusters())
    item: dict[str, Any] = {"type": "string"}
    choices: dict[str, Any] = {"examples": names} if names else {}
    return {
        _CLUSTERS: Param(
            None,
            type=["null", "array"],
            items=item | ({"enum": names} if names else {}),
            title="Only these clusters",
            description="all if empty"
            + ("" if names else ": names as in the settings, one a line"),
            **choices,
        )
    }


def clusters_of_form(params: Any) -> list[str]:
    """Return the clusters that the form names; none: all."""
    return [name.strip() for name in params[_CLUSTERS] or () if name.strip()]


def clusters_of_round(params: Any, events_by_asset: Mapping[Any, Sequence[Any]]) -> list[str]:
    """Return the clusters of the rounds of snapshots that started this Dag run, or else those that
    its form names; none: all.
    """
    events = [event for of_asset in events_by_asset.values() for event in of_asset]
    named = [event.extra.get("only") or [] for event in events] or [clusters_of_form(params)]
    return sorted({name for names in named for name in names}) if all(named) else []
