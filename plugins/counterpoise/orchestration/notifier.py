"""An Airflow notifier: a Dag of yours tells the people of a cluster's policy, as ours do.

    ClusterNotifier(cluster="orders-eu", title="{{ dag.dag_id }} failed", text="...")
    @dag(on_failure_callback=ClusterNotifier(cluster="orders-eu", title="..."))

Everybody is told once per task try and title. What cannot be delivered is a warning in the log; it
is not tried again by itself, since only Counterpoise's own Dags come back to it.
"""

from collections.abc import Sequence
from typing import Any

from airflow.sdk import BaseNotifier

from counterpoise.model.notification import Notification, NotificationEvent
from counterpoise.model.severity import Severity
from counterpoise.orchestration.delivery import deliver


class ClusterNotifier(BaseNotifier):
    """Tells `title` and `text`, which may be templates, to whom `notify` of the policy names."""

    template_fields: Sequence[str] = ("cluster", "title", "text")

    def __init__(
        self, *, cluster: str, title: str, text: str = "", severity: str = Severity.WARNING
    ) -> None:
        super().__init__()
        self.cluster = cluster
        self.title = title
        self.text = text
        self.severity = Severity(severity)

    def notify(self, context: Any) -> None:
        from counterpoise import pipeline
        from counterpoise.installation import open_worker_installation

        ti, dag_run = context.get("ti"), context.get("dag_run")
        parts = (
            getattr(dag_run or ti, "dag_id", ""),
            getattr(dag_run, "run_id", "") or getattr(ti, "run_id", ""),
            getattr(ti, "task_id", ""),
            str(getattr(ti, "map_index", "")),
            str(getattr(ti, "try_number", "")),
            self.title,
        )
        notification = Notification(
            ("/".join(("task", *parts)),),
            NotificationEvent.TASK,
            self.severity,
            self.cluster,
            " ".join(self.title.split()),
            tuple(self.text.splitlines()),
        )
        with open_worker_installation() as installation:
            pipeline.notify_of(installation, notification, deliver)
