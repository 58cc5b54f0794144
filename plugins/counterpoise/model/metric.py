"""The figures that monitoring reads, as gauges: their names, labels and meaning, and one sample.

    Sample(SNAPSHOT_AGE, ("orders-eu",), 1800.0)
    exposition([Sample(SNAPSHOT_AGE, ("orders-eu",), 1800.0)])

What is not known has no sample. Names are kept from one release to the next: rules and dashboards
of others have them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

PREFIX: Final = "counterpoise_"
_CLUSTER: Final = ("cluster",)


@dataclass(frozen=True, slots=True)
class Metric:
    """A gauge; `name` ends with its unit, where it has one."""

    name: str
    help: str
    labels: tuple[str, ...] = _CLUSTER


EVENNESS: Final = Metric(
    f"{PREFIX}evenness_max_over_mean",
    "The fullest live broker over the mean of the live brokers, by measure; 1 is even.",
    ("cluster", "measure"),
)
BROKER_HOLDS: Final = Metric(
    f"{PREFIX}broker_holds",
    "What each live broker holds, by measure: leaders, replicas, bytes.",
    ("cluster", "broker", "measure"),
)
IDLE_BROKERS: Final = Metric(f"{PREFIX}idle_brokers", "Live brokers without any replica.")
FIRST_DISK_FULL: Final = Metric(
    f"{PREFIX}first_disk_full_days", "Days until the first disk is full, where one will be."
)
FINDINGS: Final = Metric(
    f"{PREFIX}findings",
    "Findings of the newest audit that nobody waived, by severity.",
    ("cluster", "severity"),
)
AUDIT_AGE: Final = Metric(f"{PREFIX}audit_age_seconds", "Seconds since the newest audit.")
SNAPSHOT_AGE: Final = Metric(
    f"{PREFIX}snapshot_age_seconds", "Seconds since the newest snapshot of the history."
)
NEVER_SNAPSHOTTED: Final = Metric(
    f"{PREFIX}never_snapshotted", "1 for a cluster of the settings without any snapshot, else 0."
)
RUN_STATE: Final = Metric(
    f"{PREFIX}run_state",
    "1 for the state of the current run, 0 for the others; the run under way, else the one that "
    "waits, else the newest.",
    ("cluster", "state"),
)
RUN_BYTES_TO_COPY: Final = Metric(
    f"{PREFIX}run_remaining_bytes", "Bytes that the run under way has yet to copy."
)
RUN_BYTES_COPIED: Final = Metric(
    f"{PREFIX}run_copied_bytes", "Bytes that the run under way has copied."
)
RUN_RATE: Final = Metric(
    f"{PREFIX}run_rate_bytes_per_second",
    "The rate in force per broker: what was approved, lowered by time of day and back-off.",
)
RUN_LINK: Final = Metric(
    f"{PREFIX}run_link_bytes_per_second",
    "What each broker sends and receives for the run under way.",
    ("cluster", "broker", "direction"),
)
RUN_OBSERVED: Final = Metric(
    f"{PREFIX}run_observed_age_seconds", "Seconds since the run under way was last observed."
)
THROTTLE_KEYS: Final = Metric(
    f"{PREFIX}throttle_keys", "Config keys with throttles that the run under way has set."
)
PENDING_RESTORES: Final = Metric(
    f"{PREFIX}pending_restores", "Config keys that ended runs have not restored yet."
)
QUESTIONS_WAITING: Final = Metric(
    f"{PREFIX}questions_waiting", "Plans that wait for a yes or a no."
)

METRICS: Final[Mapping[str, Metric]] = {
    metric.name: metric
    for metric in (
        EVENNESS,
        BROKER_HOLDS,
        IDLE_BROKERS,
        FIRST_DISK_FULL,
        FINDINGS,
        AUDIT_AGE,
        SNAPSHOT_AGE,
        NEVER_SNAPSHOTTED,
        RUN_STATE,
        RUN_BYTES_TO_COPY,
        RUN_BYTES_COPIED,
        RUN_RATE,
        RUN_LINK,
        RUN_OBSERVED,
        THROTTLE_KEYS,
        PENDING_RESTORES,
        QUESTIONS_WAITING,
    )
}


@dataclass(frozen=True, slots=True)
class Sample:
    """The value of a metric; `labels` are the values of the metric's labels, in their order."""

    metric: Metric
    labels: tuple[str, ...]
    value: float


def exposition(samples: Iterable[Sample]) -> str:
    """Return samples in OpenMetrics 1.0, each metric once, which older scrapers read too.

    Source: https://prometheus.io/docs/specs/om/open_metrics_spec/
    """
    by_metric: dict[Metric, list[Sample]] = {metric: [] for metric in METRICS.values()}
    for sample in samples:
        by_metric[sample.metric].append(sample)
    lines = []
    for metric, found in by_metric.items():
        lines.append(f"# TYPE {metric.name} gauge")
        lines.append(f"# HELP {metric.name} {metric.help}")
        lines += sorted(map(_line, found))
    return "\n".join([*lines, "# EOF"]) + "\n"


def _line(sample: Sample) -> str:
    pairs = zip(sample.metric.labels, sample.labels, strict=True)
    labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs)
    return f"{sample.metric.name}{{{labels}}} {float(sample.value)!r}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
