"""Snapshots: silence is a finding.

the newest snapshot is 7 hours old; one is due every hour        # snapshots-silent
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from counterpoise.audit.commands import counterpoise
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rule import Area, Need, Rule, Sighting, evidence
from counterpoise.model.severity import Severity
from counterpoise.units import format_seconds

_LEAST_SILENCE: Final = timedelta(hours=1)
_SUBJECT: Final = "cluster"
_SHOWN: Final = 5


def _silent(facts: AuditFacts) -> Iterator[Sighting]:
    fix = (
        counterpoise("snapshot", "--cluster", facts.snapshot.cluster),
        "airflow dags unpause kafka_snapshot",
    )
    if facts.past is None or not facts.past.manifests.num_rows:
        yield Sighting(
            _SUBJECT,
            "the history has no snapshot of this cluster: nothing is known of yesterday",
            fix=fix,
            severity=Severity.INFO,
        )
        return
    if facts.snapshot_interval is None:
        return
    manifests = facts.past.manifests
    age = facts.now - manifests["observed_at"][-1].as_py()
    intervals = facts.threshold("snapshots-silent", "intervals")
    if age > max(_LEAST_SILENCE, intervals * facts.snapshot_interval):
        newest = manifests.slice(max(0, manifests.num_rows - _SHOWN)).to_pylist()
        yield Sighting(
            _SUBJECT,
            f"the newest snapshot is {format_seconds(age.total_seconds())} old; one is due every "
            f"{format_seconds(facts.snapshot_interval.total_seconds())}",
            evidence(
                ("snapshot", "taken"),
                [(row["snapshot_id"], f"{row['observed_at']:%Y-%m-%d %H:%M} UTC") for row in newest],
            ),
            fix=fix,
        )


RULES: Final = (
    Rule(
        "snapshots-silent",
        Area.SNAPSHOTS,
        Severity.WARNING,
        title="No new snapshots",
        why="Trends, forecasts and proposals are made of snapshots: without new ones every report goes on looking as "
        "well as on the last good day.",
        how="See why kafka_snapshot fails or does not run (paused, no scheduler, connection), and take one by hand.",
        source="https://airflow.apache.org/docs/apache-airflow/stable/core-concepts/dag-run.html",
        look=_silent,
        needs=frozenset({Need.HISTORY}),
        thresholds={"intervals": 3},
    ),
)
