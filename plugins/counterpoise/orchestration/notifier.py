"""An Airflow notifier: a Dag of yours notifies the people of a cluster's policy, as ours do.

    ClusterNotifier(cluster="orders-eu", title="{{ dag.dag_id }} failed", text="...")
    @dag(on_failure_callback=ClusterNotifier(cluster="orders-eu", title="..."))

What cannot be sent is a warning in the log.
"""

from collections.abc import Sequence
from typing import Any

from airflow.sdk import BaseNotifier

from counterpoise.model.safe_text import safe_logger
from counterpoise.orchestration.delivery import post

_LOGGER = safe_logger(__name__)


class ClusterNotifier(BaseNotifier):
    """Sends `title` and `text`, which may be templates, to whom the cluster's policy names."""

    template_fields: Sequence[str] = ("cluster", "title", "text")

    def __init__(self, *, cluster: str, title: str, text: str = "") -> None:
        super().__init__()
        self.cluster = cluster
        self.title = title
        self.text = text

    def notify(self, context: Any) -> None:
        from counterpoise.installation import open_worker_installation
        from counterpoise.services.notifications import DeliveryError

        with open_worker_installation() as installation:
            policy = installation.cluster(self.cluster).policy.notify
        for target in policy.targets:
            try:
                post(target, self.title, self.text.splitlines())
            except DeliveryError as error:
                _LOGGER.warning("%s (%s): %s: %s", self.title, self.cluster, target, error)
