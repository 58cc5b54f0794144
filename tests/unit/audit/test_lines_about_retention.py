"""Lines to paste that shorten a topic: only where that frees a disk, and loses nothing of Kafka."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from counterpoise.audit.facts import AuditFacts
from counterpoise.model.load import DiskForecast, Outlook
from counterpoise.model.severity import Severity
from counterpoise.model.tables import TOPICS
from tests.support.audits import facts, findings_of, healthy, snapshot_of

GB = 10**9
ENDLESS = {"cleanup_policy": "delete", "retention_ms": -1, "retention_bytes": -1}
COMPACTED = {"cleanup_policy": "compact", "retention_ms": -1, "retention_bytes": -1}
WEEK = {"cleanup_policy": "delete", "retention_ms": 604_800_000, "retention_bytes": -1}


def cluster_of(configs: dict[str, dict[str, Any]], sizes: dict[str, int]) -> AuditFacts:
    """Topics of three partitions on three brokers, with these configs."""
    picture = "\n".join(
        f"{topic}-{number}: {replicas} size={sizes[topic]}"
        for topic in configs
        for number, replicas in enumerate(("1 2 3", "2 3 1", "3 1 2"))
    )
    snapshot = snapshot_of(healthy(picture))
    rows = [row | configs[row["topic"]] for row in snapshot.topics.to_pylist()]
    topics = pa.Table.from_pylist(rows, schema=TOPICS)
    return facts(snapshot=replace(snapshot, tables={**snapshot.tables, "topics": topics}))


def with_past(given: AuditFacts, **changes: Any) -> AuditFacts:
    assert given.past is not None
    return replace(given, past=replace(given.past, **changes))


@pytest.mark.parametrize("topic", ["__share_group_state", "__remote_log_metadata"])
def test_what_kafka_itself_keeps_for_ever_is_nobodys_decision(topic: str) -> None:
    """Kafka deletes from the one itself, and finds remote segments by the other."""
    own = cluster_of({topic: ENDLESS}, {topic: GB})
    assert findings_of("retention-without-end", own) == ()
    both = cluster_of({topic: ENDLESS, "orders": ENDLESS}, {topic: GB, "orders": GB})
    (finding,) = findings_of("retention-without-end", both)
    assert finding.evidence is not None and finding.evidence.rows == (("orders",),)
    assert topic not in " ".join(finding.fix)


CONFIGS = {
    "__consumer_offsets": COMPACTED,
    "__remote_log_metadata": ENDLESS,
    "app-store-changelog": COMPACTED,
    "orders": WEEK,
    "clicks": {**WEEK, "cleanup_policy": "compact,delete"},
}
SIZES = {
    "__consumer_offsets": 90 * GB,
    "__remote_log_metadata": 80 * GB,
    "app-store-changelog": 70 * GB,
    "orders": 60 * GB,
    "clicks": 50 * GB,
}


def test_a_disk_that_fills_is_freed_by_topics_that_delete() -> None:
    sizes = (950 * GB, 1000 * GB, 50 * GB, 10 * GB)  # held, total, usable, more each day
    forecast = DiskForecast(2, ("/data",), *sizes, 10.0**6, Outlook.FILLS, days_left=5.0)
    given = with_past(cluster_of(CONFIGS, SIZES), disk_forecasts=(forecast,))
    (finding,) = findings_of("disk-full-soon", given)
    assert [line.partition("--entity-name ")[2] for line in finding.fix[1:]] == [
        "orders --add-config retention.ms=MILLISECONDS",
        "clicks --add-config retention.ms=MILLISECONDS",
    ]


def test_retention_that_cannot_fit_is_shortened_where_there_is_one() -> None:
    given = cluster_of(CONFIGS, {topic: 5 * size for topic, size in SIZES.items()})
    rates = pa.array([1] * given.snapshot.partitions.num_rows, pa.int64())
    (finding, *_) = findings_of("retention-cannot-fit", with_past(given, usual_bytes_in=rates))
    assert finding.evidence is not None and finding.evidence.rows[0][0] == "__consumer_offsets"
    assert [line.partition("--entity-name ")[2] for line in finding.fix[1:]] == [
        "orders --add-config retention.bytes=BYTES_PER_PARTITION",
        "clicks --add-config retention.bytes=BYTES_PER_PARTITION",
    ]


def test_a_topic_that_nobody_writes_to_will_hold_no_more_than_now() -> None:
    limited = {**WEEK, "retention_ms": -1, "retention_bytes": 900 * GB}
    given = cluster_of({"orders": limited}, {"orders": GB})
    for rate, severities in ((0, []), (1, [Severity.WARNING] * 3)):
        rates = pa.array([rate] * given.snapshot.partitions.num_rows, pa.int64())
        found = findings_of("retention-cannot-fit", with_past(given, usual_bytes_in=rates))
        assert [finding.severity for finding in found] == severities
