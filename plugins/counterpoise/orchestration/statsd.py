"""The gauges of `services/metrics.py` through Airflow's own StatsD (or OpenTelemetry), whichever is
configured.

    send_gauges(lambda: metrics.run_samples(installation, ["orders-eu"]))
    # counterpoise.run_remaining_bytes.orders-eu, counterpoise.run_state.orders-eu.running, ...

Label values are parts of the name, in the order of the labels: StatsD has no labels.

Limits: only inside a running task. What fails here is a warning in the log and fails no task.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final

from airflow.sdk.observability import stats

from counterpoise.model.metric import PREFIX, Sample
from counterpoise.model.safe_text import safe_logger

_LOGGER = safe_logger(__name__)
_NOT_OF_A_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")


def send_gauges(read: Callable[[], Iterable[Sample]]) -> None:
    """Send the gauges that `read` returns."""
    try:
        for sample in read():
            stats.gauge(stat_name(sample), sample.value)
    except Exception as error:  # noqa: BLE001 - a task must not fail because of its figures
        _LOGGER.warning("no gauges were sent: %s: %s", type(error).__name__, error)


def stat_name(sample: Sample) -> str:
    """Return the name of a gauge, like `counterpoise.findings.orders-eu.critical`."""
    own_name = sample.metric.name.removeprefix(PREFIX)
    labels = (_NOT_OF_A_NAME.sub("_", value) for value in sample.labels)
    return ".".join((PREFIX.rstrip("_"), own_name, *labels))
