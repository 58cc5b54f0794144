"""An audit as a whole, on the simulated cluster: what is kept, what it is compared with, what the
history adds.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from counterpoise.audit.auditing import resolve
from counterpoise.errors import ClusterUnreachableError
from counterpoise.installation import Installation
from counterpoise.kafka_admin.cluster_admin import ClusterAdmin
from counterpoise.kafka_admin.connection import ConnectionSettings
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.connectivity import ConnectivityCheck
from counterpoise.model.finding import AuditReport, from_json
from counterpoise.model.kafka import FOLLOWER_RATE, ConfigResource, ConfigResourceType
from counterpoise.model.policy import AuditPolicy
from counterpoise.model.severity import Severity
from counterpoise.model.tables import SERIES
from counterpoise.services import audits
from counterpoise.services.audits import past_facts
from counterpoise.services.snapshots import keep
from counterpoise.snapshot import take_snapshot
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.audits import HEALTHY, NOW, connectivity, healthy, snapshot_of
from tests.support.installations import DEMO, installation_over

BROKER = ConfigResource(ConfigResourceType.BROKER, "2")
HOUR = timedelta(hours=1)
YAML = f"""{DEMO}    policy:
      audit:
        controller_racks: {{101: a, 102: b, 103: c}}
"""


@dataclass
class Place:
    """An installation over one simulated cluster, with a clock that a test sets."""

    folder: Path
    kafka: SimulatedCluster
    now: Any = NOW
    yaml: str = YAML
    refused: set[str] = field(default_factory=set)  # bootstrap addresses that do not answer

    def installation(self) -> Installation:
        return installation_over(
            self.folder,
            self.connect,
            clusters=self.yaml,
            clock=lambda: self.now,
            connectivity_checker=lambda _settings: self.connectivity(),
        )

    def connect(self, settings: ConnectionSettings) -> ClusterAdmin:
        if self.refused & set(settings.bootstrap_servers):
            raise ClusterUnreachableError(((settings.bootstrap_servers[0], "refused"),))
        return self.kafka

    def connectivity(self) -> ConnectivityCheck:
        return connectivity(snapshot_of(self.kafka))

    def audit(self, hours: float = 0) -> AuditReport:
        self.now = NOW + hours * HOUR
        with self.installation() as installation:
            return audits.audit(installation, "demo", self.now)

    def remember(self, *hours: float, kafka: SimulatedCluster | None = None) -> None:
        """Snapshots of the history, so many hours from now."""
        with self.installation() as installation:
            for hour in hours:
                at = NOW + hour * HOUR
                name = f"demo-{at:%Y%m%dT%H%M%S}Z"
                cluster = kafka or self.kafka
                keep(
                    installation,
                    take_snapshot(cluster, cluster="demo", snapshot_id=name, observed_at=at),
                )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, healthy())


def rules_of(report: AuditReport, least: Severity = Severity.INFO) -> set[str]:
    return {one.finding.rule for one in report.findings if one.finding.severity.rank >= least.rank}


def test_a_healthy_cluster_without_a_history_has_no_findings_and_says_what_it_lacks(
    place: Place,
) -> None:
    report = place.audit()
    assert rules_of(report) == set()
    assert report.findings == ()
    reasons = report.not_applicable
    assert reasons["disk-full-soon"] == "no history yet: it begins with the first snapshots"
    assert "controllers 101, 102, 103" in reasons["auto-leader-rebalance"]
    assert report.previous_at is None


def test_a_retry_replaces_its_own_audit_and_is_compared_with_the_one_before(place: Place) -> None:
    place.audit()
    place.kafka.configs.dynamic[BROKER] = {FOLLOWER_RATE: "1000"}
    first = place.audit(1)
    again = place.audit(1)
    assert again == first
    assert sorted(path.name for path in (place.folder / "store/audits/demo").iterdir()) == [
        "demo-20261122T120000Z.json",
        "demo-20261122T130000Z.json",
    ]


def test_the_report_is_written_for_people_and_for_machines(place: Place) -> None:
    report = place.audit()
    with place.installation() as installation:
        assert "Audit of demo" in installation.archive.read_report("demo/audit.html")
        assert from_json(installation.archive.read_report("demo/audit.json"), where="it") == report
        assert {file.path for file in installation.archive.report_files()} == {
            "demo/audit.html",
            "demo/audit-2026-11-22.html",
        }
        assert audits.audit_page(installation, "demo").endswith("/reports/demo/audit.html")


def test_nothing_is_changed_and_nothing_joins_the_history(place: Place) -> None:
    place.audit()
    changing = {"alter_configs", "alter_reassignments", "elect_preferred_leaders"}
    assert not changing & {call.name for call in place.kafka.calls}
    assert not (place.folder / "store/history").exists()


def test_a_cluster_that_does_not_answer_fails_its_audit(place: Place) -> None:
    place.refused = {"reader:9092"}
    with pytest.raises(ClusterUnreachableError):
        place.audit()
    assert not (place.folder / "store/audits").exists()


def test_where_the_operator_gets_no_answer_rights_are_unknown(place: Place) -> None:
    place.refused = {"operator:9092"}
    report = place.audit()
    (rights,) = [one.finding for one in report.findings if one.finding.rule == "rights-refused"]
    assert rights.severity is Severity.UNKNOWN


@pytest.mark.parametrize(
    ("operator", "needs_acls"), [("operator", [False, True]), ("reader", [False])]
)
def test_nobody_connects_twice_by_one_connection_and_reading_asks_for_no_permission_to_write(
    place: Place, monkeypatch: pytest.MonkeyPatch, operator: str, needs_acls: list[bool]
) -> None:
    place.yaml = YAML.replace("operator_connection: operator", f"operator_connection: {operator}")
    made: list[ConnectionSettings] = []
    connect = place.connect
    monkeypatch.setattr(
        place, "connect", lambda settings: made.append(settings) or connect(settings)
    )
    assert "rights-refused" in place.audit().passed
    assert [bool(settings.needed_acls) for settings in made] == needs_acls


@pytest.mark.parametrize(
    ("fails_at", "fails"), [("", False), ("critical", False), ("warning", True), ("info", True)]
)
def test_the_policy_says_what_fails_a_run(place: Place, fails_at: str, fails: bool) -> None:
    place.yaml = YAML + (f"        fails_at: {fails_at}\n" if fails_at else "")
    place.kafka.configs.dynamic[BROKER] = {FOLLOWER_RATE: "1000"}
    report = place.audit()
    with place.installation() as installation:
        failure = audits.failure_of(installation, report)
    assert (failure is not None) is fails
    if failure:
        assert "demo: 1 finding as bad as" in failure
        assert "A replication throttle without a reassignment (broker 2)" in failure


def test_what_is_waived_fails_nothing(place: Place) -> None:
    waiver = (
        '        waivers: [{rule: leftover-throttle, subjects: ["broker *"], reason: "a test"}]\n'
    )
    place.yaml = f"{YAML}        fails_at: info\n{waiver}"
    place.kafka.configs.dynamic[BROKER] = {FOLLOWER_RATE: "1000"}
    report = place.audit()
    assert rules_of(report) == {"leftover-throttle"}
    with place.installation() as installation:
        assert audits.failure_of(installation, report) is None


# -- what the history adds


def test_recent_snapshots_reach_back_a_while_and_say_since_when_something_moves(
    place: Place,
) -> None:
    still = healthy(HEALTHY, racks="1=a 2=b 3=c 4=a")
    place.remember(-200, -100, kafka=still)
    place.kafka = healthy(HEALTHY, racks="1=a 2=b 3=c 4=a")
    place.kafka.alter_reassignments({TopicPartition("orders", 0): (4, 2, 3)})
    place.remember(-90, -30, -25, -2, -0.3, -0.2, -0.1)
    with place.installation() as installation:
        past = past_facts(installation, snapshot_of(place.kafka), resolve(AuditPolicy()))
    assert past is not None
    # Of the last week some snapshots are looked at: the newest ones that are 0, 1, 3, 6, 12, 24, 48
    # ... hours old.
    assert past.moving_since == {TopicPartition("orders", 0): NOW - 90 * HOUR}
    expected = [NOW - hour * HOUR for hour in (2, 0.2, 0.1)]
    assert [one.observed_at for one in past.recent_snapshots] == expected


def test_a_move_to_another_place_began_later(place: Place) -> None:
    earlier = healthy(HEALTHY, racks="1=a 2=b 3=c 4=a 5=b")
    earlier.alter_reassignments({TopicPartition("orders", 0): (5, 2, 3)})
    place.remember(-30, kafka=earlier)
    place.kafka = healthy(HEALTHY, racks="1=a 2=b 3=c 4=a 5=b")
    place.kafka.alter_reassignments({TopicPartition("orders", 0): (4, 2, 3)})
    place.remember(-2)
    with place.installation() as installation:
        past = past_facts(installation, snapshot_of(place.kafka), resolve(AuditPolicy()))
    assert past is not None
    assert past.moving_since == {TopicPartition("orders", 0): NOW - 2 * HOUR}


def _series(broker_replicas: Callable[[int], dict[int, int]], hours: range) -> pa.Table:
    rows = []
    for hour in hours:
        for broker_id, replicas in broker_replicas(hour).items():
            values: dict[str, Any] = dict.fromkeys(SERIES.names)
            counts = ("leaders", "preferred_leaders", "leaders_not_preferred", "bytes")
            values |= dict.fromkeys(counts, 0)
            values |= {
                "cluster": "demo",
                "snapshot_id": f"demo-{NOW + hour * HOUR:%Y%m%dT%H%M%S}Z",
                "observed_at": NOW + hour * HOUR,
                "broker_id": broker_id,
                "is_fenced": False,
                "replicas": replicas,
                "cluster_id": "picture-id",
            }
            rows.append(values)
    return pa.Table.from_pylist(rows, schema=SERIES)


def test_idle_since_is_the_first_snapshot_without_a_replica_since_it_last_had_one(
    place: Place,
) -> None:
    place.kafka = healthy(HEALTHY, racks="1=a 2=b 3=c 4=a 5=b")
    place.remember(-1)
    series = _series(lambda hour: {1: 9, 4: 3 if hour == -4 else 0}, range(-6, 0))
    with place.installation() as installation:
        installation.results.view_files("demo", "series").add(series, "by-hand")
        past = past_facts(installation, snapshot_of(place.kafka), resolve(AuditPolicy()))
    assert past is not None
    assert past.idle_since == {4: NOW - 3 * HOUR}, (
        "broker 5 is in no snapshot: nothing is known of it"
    )


def test_a_cluster_of_the_same_name_has_another_past(place: Place) -> None:
    place.remember(-1)
    with place.installation() as installation:
        other = replace(snapshot_of(place.kafka), cluster_id="another")
        assert past_facts(installation, other, resolve(AuditPolicy())) is None


def test_a_snapshot_that_cannot_be_read_hides_no_other(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    place.remember(-2, -1)
    (broken,) = (place.folder / "store/history/partitions").rglob("demo-20261122T110000Z.parquet")
    broken.write_bytes(b"PAR1")
    with place.installation() as installation:
        past = past_facts(installation, snapshot_of(place.kafka), resolve(AuditPolicy()))
    assert past is not None
    assert [one.snapshot_id for one in past.recent_snapshots] == ["demo-20261122T100000Z"]
    assert "demo-20261122T110000Z cannot be read" in caplog.text
