"""Snapshots: none for a long time, or snapshots that fail their checks and are quarantined.

    the newest snapshot is 7 hours old; one is due every hour        # snapshots-silent

Limits: without a usual interval between snapshots none is overdue.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from counterpoise.audit.commands import counterpoise
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rule import CheckResult, Need, evidence, rule
from counterpoise.model import subjects
from counterpoise.model.severity import Severity
from counterpoise.units import format_moment, format_seconds

_MIN_AGE: Final = timedelta(hours=1)
_SNAPSHOTS_SHOWN: Final = 5
_ACCEPT_LOSS: Final = (
    "# if the loss is real and cannot wait until it is accepted: put into the policy, for a while",
    "history: {least_share_of_previous_percent: 0}",
)


@rule(
    "snapshots-silent",
    Severity.WARNING,
    title="No new snapshots",
    why="Trends, forecasts and proposals are made from snapshots: without new ones every report "
    "goes on showing the last good day.",
    how="Find out why the Dag kafka_snapshot fails or does not run (paused, no scheduler, no "
    "connection), and take a snapshot by hand.",
    source="https://airflow.apache.org/docs/apache-airflow/stable/core-concepts/dag-run.html",
    needs={Need.HISTORY},
    severities={Severity.INFO},
    thresholds={"intervals": 3},
)
def snapshots_overdue(facts: AuditFacts, *, intervals: int) -> Iterator[CheckResult]:
    fix = (
        counterpoise("snapshot", *facts.cluster_words),
        "airflow dags unpause kafka_snapshot",
    )
    manifests = facts.history.manifests
    if not manifests.num_rows:
        yield CheckResult(
            subjects.CLUSTER,
            "the history has no snapshot of this cluster, so nothing can be compared with before",
            fix=fix,
            severity=Severity.INFO,
        )
        return
    if facts.snapshot_interval is None:
        return
    age = facts.now - manifests["observed_at"][-1].as_py()
    if age <= max(_MIN_AGE, intervals * facts.snapshot_interval):
        return
    newest = manifests.slice(max(0, manifests.num_rows - _SNAPSHOTS_SHOWN)).to_pylist()
    rows = [(row["snapshot_id"], format_moment(row["observed_at"])) for row in newest]
    interval = format_seconds(facts.snapshot_interval.total_seconds())
    yield CheckResult(
        subjects.CLUSTER,
        f"the newest snapshot is {format_seconds(age.total_seconds())} old; "
        f"one is due every {interval}",
        evidence(("snapshot", "observed at"), rows),
        fix=fix,
    )


@rule(
    "snapshots-set-aside",
    Severity.WARNING,
    title="Snapshots that are quarantined",
    why="A snapshot that contradicts itself, or lost much of what was there before, does not join "
    "the history: nothing is analysed or planned with it, and every report shows the last good "
    "snapshot.",
    how="Read what is wrong and take another snapshot: a cluster that was changing is complete a "
    "moment later. A loss that is "
    "real is accepted once it was seen several times in a row. "
    "docs/operate.md, Bad snapshots, explains every case; the snapshots are in aside/ of the "
    "store, each with its checks.",
    source="https://docs.greatexpectations.io/docs/core/introduction/",
)
def snapshots_quarantined(facts: AuditFacts) -> Iterator[CheckResult]:
    if not facts.quarantined:
        return
    count = len(facts.quarantined)
    oldest, newest = facts.quarantined[0], facts.quarantined[-1]
    which = "the newest snapshot is" if count == 1 else f"the newest {count:,} snapshots are"
    since = format_moment(oldest.observed_at)
    reason = newest.reasons[0] if newest.reasons else "no reason was stored"
    more = f" and {len(newest.reasons) - 1:,} more" if len(newest.reasons) > 1 else ""
    rows = [
        (snapshot.snapshot_id, format_moment(snapshot.observed_at), reason_text)
        for snapshot in reversed(facts.quarantined)
        for reason_text in snapshot.reasons
    ]
    again = counterpoise("snapshot", *facts.cluster_words)
    yield CheckResult(
        subjects.CLUSTER,
        f"{which} quarantined, since {since}: {reason}{more}",
        evidence(("snapshot", "observed at", "what is wrong"), rows),
        fix=(again, *_ACCEPT_LOSS) if newest.is_loss else (again,),
    )
