"""Snapshots that are quarantined: the rule, and what the store knows of them."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from counterpoise.archive import Archive
from counterpoise.audit.auditing import resolve
from counterpoise.audit.facts import QuarantinedSnapshot
from counterpoise.installation import Installation
from counterpoise.model.policy import AuditPolicy
from counterpoise.services.audits import past_facts, quarantined_since
from counterpoise.settings import FileConnections, Locations
from tests.support.audits import INTERVAL, NOW, facts, findings_of, healthy, snapshot_of

CLUSTER = healthy()
LOSS = "topics: has at least 50 % of the rows before: 9 now, 20 in demo-1"
TWICE = "replicas: no key twice"


def aside(hours: float, *reasons: str, is_loss: bool = False) -> QuarantinedSnapshot:
    at = NOW + timedelta(hours=hours)
    return QuarantinedSnapshot(f"demo-{at:%Y%m%dT%H%M%S}Z", at, reasons, is_loss)


def test_the_newest_in_a_row_are_one_finding() -> None:
    given = facts(
        quarantined=(
            aside(-3, TWICE),
            aside(-2, LOSS, is_loss=True),
            aside(-1, LOSS, TWICE, is_loss=True),
        )
    )
    (finding,) = findings_of("snapshots-set-aside", given)
    assert finding.subject == "cluster"
    assert finding.summary == (
        f"the newest 3 snapshots are quarantined, since 2026-11-22 09:00 UTC: {LOSS} and 1 more"
    )
    assert finding.evidence is not None
    assert finding.evidence.rows == (
        ("demo-20261122T110000Z", "2026-11-22 11:00 UTC", LOSS),
        ("demo-20261122T110000Z", "2026-11-22 11:00 UTC", TWICE),
        ("demo-20261122T100000Z", "2026-11-22 10:00 UTC", LOSS),
        ("demo-20261122T090000Z", "2026-11-22 09:00 UTC", TWICE),
    )
    assert finding.fix[0] == "counterpoise snapshot --cluster demo"
    assert "least_share_of_previous_percent: 0" in finding.fix[-1]


def test_what_contradicts_itself_is_believed_by_no_policy() -> None:
    (finding,) = findings_of("snapshots-set-aside", facts(quarantined=(aside(-1, TWICE),)))
    assert (
        finding.summary
        == f"the newest snapshot is quarantined, since 2026-11-22 11:00 UTC: {TWICE}"
    )
    assert finding.fix == ("counterpoise snapshot --cluster demo",)


def test_nothing_quarantined_is_no_finding() -> None:
    assert findings_of("snapshots-set-aside", facts()) == ()
    assert findings_of("snapshots-set-aside", facts(past=None, quarantined=(aside(-1, LOSS),))), (
        "also before any history"
    )


# -- what the store has


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    folder = {
        "COUNTERPOISE_STORE": str(tmp_path / "store"),
        "COUNTERPOISE_CONNECTIONS": str(tmp_path / "none.yaml"),
    }
    places = Locations.from_environment(folder)
    return Installation(places, FileConnections(places.connections, {}))


def keep_quarantined(
    archive: Archive, at: datetime, *reasons: str, cluster_id: str = "picture-id"
) -> None:
    snapshot = snapshot_of(CLUSTER, snapshot_id=f"demo-{at:%Y%m%dT%H%M%S}Z", observed_at=at)
    report = {"compared_with": None, "counts_alone": True, "reasons": list(reasons), "warnings": []}
    archive.quarantine(replace(snapshot, cluster_id=cluster_id), report)


def remembered(installation: Installation) -> list[tuple[datetime, tuple[str, ...]]]:
    snapshot = snapshot_of(CLUSTER)
    return [
        (one.observed_at, one.reasons)
        for one in quarantined_since(
            installation, snapshot, past_facts(installation, snapshot, resolve(AuditPolicy()))
        )
    ]


def test_only_snapshots_quarantined_since_the_newest_good_one_count(
    installation: Installation,
) -> None:
    keep_quarantined(installation.archive, NOW - 3 * INTERVAL, TWICE)
    keep_quarantined(installation.archive, NOW - INTERVAL, LOSS)
    keep_quarantined(installation.archive, NOW - INTERVAL / 2, LOSS, cluster_id="another")
    assert remembered(installation) == [(NOW - 3 * INTERVAL, (TWICE,)), (NOW - INTERVAL, (LOSS,))]
    good = NOW - 2 * INTERVAL
    installation.archive.write_snapshot(
        snapshot_of(CLUSTER, snapshot_id=f"demo-{good:%Y%m%dT%H%M%S}Z", observed_at=good)
    )
    assert remembered(installation) == [(NOW - INTERVAL, (LOSS,))]
    good = NOW - INTERVAL / 4
    installation.archive.write_snapshot(
        snapshot_of(CLUSTER, snapshot_id=f"demo-{good:%Y%m%dT%H%M%S}Z", observed_at=good)
    )
    assert remembered(installation) == []


@pytest.mark.parametrize(
    "harm", [{}, {"observed_at": "yesterday"}, {"observed_at": None}, {"reasons": 3}, {"x": 1}]
)
def test_a_reason_that_cannot_be_read_hides_no_other(
    installation: Installation, harm: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    keep_quarantined(installation.archive, NOW - INTERVAL, LOSS)
    keep_quarantined(installation.archive, NOW - 2 * INTERVAL, TWICE)
    path = f"aside/demo/demo-{NOW - 2 * INTERVAL:%Y%m%dT%H%M%S}Z/reason.json"
    whole = json.loads(installation.archive.store.read_text(path))
    text = json.dumps(whole | harm if harm and "x" not in harm else harm)
    installation.archive.store.write_text(path, text)
    assert remembered(installation) == [(NOW - INTERVAL, (LOSS,))]
    assert "left out" in caplog.text or "not counted" in caplog.text
