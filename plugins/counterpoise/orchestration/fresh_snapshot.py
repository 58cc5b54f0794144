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
        from counterpoise import pipeline

        with airflow_installation() as installation:
            run = run_to_tell(installation, context["ti"])
            cluster = pipeline.moved_cluster(installation, run["run_id"])
        if cluster is None:
            raise AirflowSkipException("nothing moved, so the last snapshot still holds")
        self.conf = {_CLUSTERS: [cluster]}
        self.note = f"after run {run['run_id']} of {cluster}"
        super().execute(context)


def snapshot_form() -> dict[str, Any]:
    """Return the form of `kafka_snapshot` and `kafka_audit`."""
    return {
        _CLUSTERS: Param(
            None,
            type=["null", "array"],
            items={"type": "string"},
            title="Only these clusters",
            description="all if empty: names as in the settings, one a line",
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
