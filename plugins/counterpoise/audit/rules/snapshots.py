"""Snapshots: silence is a finding, and so are photographs that do not join the history.

the newest snapshot is 7 hours old; one is due every hour        # snapshots-silent
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from counterpoise.audit.commands import counterpoise
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rule import Area, Need, Rule, Sighting, evidence
from counterpoise.model.severity import Severity
from counterpoise.units import format_moment, format_seconds

_LEAST_SILENCE: Final = timedelta(hours=1)
_SUBJECT: Final = "cluster"
_SHOWN: Final = 5
_LESS: Final = (
    "# if the cluster really has so much less, and nobody can wait until that is believed: in its policy, for a while",
    "history: {least_share_of_previous_percent: 0}",
)


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
                [(row["snapshot_id"], format_moment(row["observed_at"])) for row in newest],
            ),
            fix=fix,
        )


def _set_aside(facts: AuditFacts) -> Iterator[Sighting]:
    if not facts.set_aside:
        return
    count, newest = len(facts.set_aside), facts.set_aside[-1]
    since = format_moment(facts.set_aside[0].observed_at)
    those = (
        "the newest photograph was"
        if count == 1
        else f"the newest {count:,} photographs in a row were"
    )
    more = f" and {len(newest.reasons) - 1:,} more" if len(newest.reasons) > 1 else ""
    rows = [
        (one.snapshot_id, format_moment(one.observed_at), reason)
        for one in reversed(facts.set_aside)
        for reason in one.reasons
    ]
    yield Sighting(
        _SUBJECT,
        f"{those} set aside, since {since}: {newest.reasons[0] if newest.reasons else 'no reason was kept'}{more}",
        evidence(("snapshot", "taken", "what is wrong"), rows),
        fix=(
            counterpoise("snapshot", "--cluster", facts.snapshot.cluster),
            *(_LESS if newest.is_loss else ()),
        ),
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
    Rule(
        "snapshots-set-aside",
        Area.SNAPSHOTS,
        Severity.WARNING,
        title="Snapshots that are set aside",
        why="A photograph that contradicts itself, or lost much of what was there, joins no history: nothing is "
        "analysed or planned on it, and every report shows the last good one.",
        how="See what is wrong, and photograph again: what a cluster looks like for a moment passes. A loss that is "
        "real is believed when it was seen some times in a row (`believed_after`). docs/operating.md, Bad snapshots, "
        "has every case; the photographs lie in aside/ of the store, each with its checks.",
        source="https://docs.greatexpectations.io/docs/core/introduction/",
        look=_set_aside,
    ),
)
