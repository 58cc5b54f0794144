"""Configuration: every complaint at once, each with its line, and never a secret."""

import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from datetime import time, timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

from counterpoise.errors import ConfigurationError, InputError
from counterpoise.model.policy import (
    BalancePolicy,
    ClusterPolicy,
    DailyRate,
    HistoryPolicy,
    InFlight,
    MaintenanceWindow,
    MovementPolicy,
    ProposalPolicy,
)
from counterpoise.model.setting import settings_of
from counterpoise.settings import FileConnections, parse_settings, read_settings

ROOT = Path(__file__).parents[2]
COMMENTED_KEY = re.compile(r"^( *)# (?=( *)(- \{?)?[\w-]+:( |$))", re.MULTILINE)

GOOD = """
clusters:
  orders-eu:
    connection: kafka_eu
    cluster_id: abc
    policy:
      movement:
        rate: 50MB/s
      balance:
        excluded_topics: ["audit-*", payments]
        disk_limit_percent: 70
      proposals: {uneven_snapshots: 3, uneven_percent: 40, propose_again_after: 14d}
      access:
        approve: [alice, bob]
      approval:
        wait_for: 8h
"""


MOVEMENT = """
clusters:
  demo:
    connection: kafka
    policy:
      movement:
        rate: 50MB/s
        link_capacity: 1.25GB/s
        max_moves_in_flight: 90
        max_moves_in_flight_per_broker: 9
        on_halt: cancel
        time_zone: Europe/Berlin
        windows:
          - {starts: "0 22 * * mon-fri", lasts: 6h}
          - starts: 0 8 * * sun
            lasts: 1d
        daily_rates:
          - {from: "08:00", until: 20:30, rate: 5MB/s}
        dead_broker_patience: 3m
"""


def complaints(text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as caught:
        parse_settings(text, where="clusters.yaml")
    return caught.value.complaints


def test_a_good_file_is_read_and_what_is_absent_has_defaults() -> None:
    cluster = parse_settings(GOOD, where="x").cluster("orders-eu")
    assert cluster.operator_connection_id == "kafka_eu"
    assert cluster.pinned_cluster_id == "abc"
    assert cluster.policy.movement.rate_bytes_per_second == 50_000_000
    assert cluster.policy.access.approve == ("alice", "bob")
    assert cluster.policy.approval.wait_for == timedelta(hours=8)
    assert cluster.policy.balance == BalancePolicy(
        bytes_tolerance_percent=10,
        excluded_topics=("audit-*", "payments"),
        disk_limit_percent=70,
    )
    assert cluster.policy.proposals == ProposalPolicy(3, timedelta(days=14), uneven_percent=40)
    assert ClusterPolicy().proposals == ProposalPolicy(1, timedelta(days=1))


def test_everything_about_movement_is_read() -> None:
    settings = parse_settings(MOVEMENT, where="x")
    assert settings.cluster("demo").policy.movement == MovementPolicy(
        rate_bytes_per_second=50_000_000,
        link_capacity_bytes_per_second=1_250_000_000,
        max_moves_in_flight=90,
        max_moves_in_flight_per_broker=9,
        on_halt=InFlight.CANCEL,
        time_zone="Europe/Berlin",
        windows=(
            MaintenanceWindow("0 22 * * mon-fri", timedelta(hours=6)),
            MaintenanceWindow("0 8 * * sun", timedelta(days=1)),
        ),
        # 20:30 without quotes is 1230 to YAML 1.1; it is read as it is written.
        daily_rates=(DailyRate(time(8), time(20, 30), 5_000_000),),
        dead_broker_patience=timedelta(minutes=3),
    )


def test_the_history_is_kept_as_it_is_written() -> None:
    history = "{keep_all: 1d, keep_hourly: 1d, grace: 2h}"
    text = f"clusters:\n  a:\n    connection: x\n    policy: {{history: {history}}}\n"
    policy = parse_settings(text, where="x").cluster("a").policy.history
    day = timedelta(days=1)
    assert policy == HistoryPolicy(
        keep_all=day, keep_hourly=day, keep_daily=730 * day, grace=timedelta(hours=2)
    )


def shipped() -> str:
    return (ROOT / "config" / "clusters.yaml").read_text()


def keys_of(section: Any) -> Iterator[str]:
    """Yield every key of a policy."""
    for setting in settings_of(section):
        yield setting.key
        for part in (setting.type_, *get_args(setting.type_)):
            if is_dataclass(part):
                yield from keys_of(part)


def test_the_shipped_file_tells_the_defaults() -> None:
    assert parse_settings(shipped(), where="x").cluster("example").policy == ClusterPolicy()


def test_it_has_every_key_and_what_stands_in_comments_can_be_used() -> None:
    content = shipped()
    missing = [key for key in keys_of(ClusterPolicy) if not re.search(rf"\b{key}:", content)]
    assert missing == []
    # No rule approves what two people have to approve.
    used = COMMENTED_KEY.sub(r"\1", content).replace("critical: yes", "critical: no")
    settings = parse_settings(used, where="x")
    (cluster,) = settings.clusters.values()
    assert cluster.policy.notify.webhooks
    assert cluster.policy.approval.automatic
    assert len(cluster.policy.balance.constraints.broker_sets) > 0


def test_all_complaints_come_at_once_with_their_lines() -> None:
    found = complaints(
        "clusters:\n  a:\n    conection: x\n    policy:\n      movement:\n        rate: 10\n"
        "      balance: {bytes_tolerance_percent: 0}\n  Bad Name:\n    connection: y\nextra: 1\n"
    )
    assert [c.split(":")[0] for c in found] == [
        "line 2",
        "line 3",
        "line 6",
        "line 7",
        "line 8",
        "line 10",
    ]
    assert "did you mean connection?" in found[1]
    assert "10 B/s or 10 MB/s" in found[2]


def test_a_value_that_cannot_be_used_hides_no_complaint_about_the_rest() -> None:
    """The groups and the approvers are compared although the rate is wrong."""
    found = complaints(
        "groups: {sre: [alice]}\nclusters:\n  a:\n    connection: x\n    policy:\n"
        "      movement: {rate: 10}\n      access: {approve: ['group:ops']}\n"
    )
    assert [complaint.split(":")[0] for complaint in found] == ["line 6", "line 7"]


def test_a_wrong_key_in_one_rule_hides_no_wrong_goal_in_another() -> None:
    found = complaints(
        "clusters:\n  a:\n    connection: x\n    policy:\n      approval:\n        automatic:\n"
        "          - {goal: leadrs}\n          - {goalz: leaders}\n"
    )
    assert found[0].startswith("line 7: goal: 'leadrs' is none of add-brokers, ")
    assert [complaint.split(":")[0] for complaint in found] == ["line 7", "line 8", "line 8"]


def test_two_clusters_with_one_id_are_refused_at_the_second() -> None:
    """Each would have a run, a step lock and a policy of its own, on the same brokers."""
    found = complaints(
        "clusters:\n  a:\n    connection: x\n    cluster_id: same\n"
        "  b:\n    connection: y\n    cluster_id: same\n"
        "  c:\n    connection: z\n    cluster_id: another\n"
    )
    assert found == (
        "line 7: clusters a and b have the same cluster_id: one Kafka cluster has one name",
    )


def test_an_unknown_cluster_names_the_known_ones() -> None:
    with pytest.raises(InputError, match="orders-eu"):
        parse_settings(GOOD, where="x").cluster("orders-us")


def test_a_missing_file_says_which_variable_names_another(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="COUNTERPOISE_CONFIG"):
        read_settings(tmp_path / "none.yaml")


def test_connections_come_from_airflows_variable_or_a_file_and_show_no_secret(
    tmp_path: Path,
) -> None:
    path = tmp_path / "connections.yaml"
    path.write_text('from_file: {bootstrap.servers: "a:1", sasl.password: hunter2}\nbroken: text\n')
    variable = (
        '{"conn_type": "kafka", "extra": {"bootstrap.servers": "b:2", "sasl.password": "hunter2"}}'
    )
    connections = FileConnections(
        path, {"AIRFLOW_CONN_FROM_ENV": variable, "AIRFLOW_CONN_BAD": "{hunter2"}
    )
    assert connections.settings_for("from_file")["bootstrap.servers"] == "a:1"
    assert connections.settings_for("from_env")["bootstrap.servers"] == "b:2"
    assert "hunter2" not in repr(connections)
    for connection_id in ("missing", "broken", "bad"):
        with pytest.raises(InputError) as caught:
            connections.settings_for(connection_id)
        assert "hunter2" not in str(caught.value)
    path.write_text("x: [hunter2\n  : :")
    with pytest.raises(InputError) as caught:
        connections.settings_for("from_file")
    assert "hunter2" not in str(caught.value)


def test_a_file_that_was_changed_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "clusters.yaml"
    path.write_text("clusters: {demo: {connection: one}}\n")
    first = read_settings(path)
    assert read_settings(path) is first
    path.write_text("clusters: {demo: {connection: two}}\n")
    assert read_settings(path).cluster("demo").connection_id == "two"
    other = tmp_path / "other.yaml"
    other.write_text("clusters: {demo: {connection: six}}\n")
    other.replace(path)
    assert read_settings(path).cluster("demo").connection_id == "six"
