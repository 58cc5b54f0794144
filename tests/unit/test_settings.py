"""Configuration: every complaint at once, each with its line, and never a secret."""

from datetime import timedelta
from pathlib import Path

import pytest

from counterpoise.errors import ConfigurationError, InputError
from counterpoise.installation import FileConnections
from counterpoise.model.policy import BalancePolicy, ClusterPolicy, LeaderWeight
from counterpoise.settings import parse_settings, read_settings

ROOT = Path(__file__).parents[2]

GOOD = """
clusters:
  orders-eu:
    connection: kafka_orders
    cluster_id: abc
    policy:
      movement:
        rate: 50MB/s
      balance:
        excluded_topics: ["audit-*", payments]
        topics_max_above_share: 2
        leader_weight: bytes-in
        disk_limit_percent: 70
        ignorable_permille: 0
      approval:
        approvers: [alice, bob]
        wait_for: 8h
"""


def complaints(text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as caught:
        parse_settings(text, where="clusters.yaml")
    return caught.value.complaints


def test_a_good_file_is_read_and_what_is_absent_has_defaults() -> None:
    cluster = parse_settings(GOOD, where="x").cluster("orders-eu")
    assert cluster.operator_connection_id == "kafka_orders"
    assert cluster.pinned_cluster_id == "abc"
    assert cluster.policy.movement.rate_bytes_per_second == 50_000_000
    assert cluster.policy.approval.approvers == ("alice", "bob")
    assert cluster.policy.approval.wait_for == timedelta(hours=8)
    assert cluster.policy.balance == BalancePolicy(
        bytes_tolerance_percent=10,
        excluded_topics=("audit-*", "payments"),
        topics_max_above_share=2,
        leader_weight=LeaderWeight.BYTES_IN,
        disk_limit_percent=70,
        ignorable_permille=0,
    )


def test_the_shipped_file_and_the_documented_one_tell_the_defaults() -> None:
    assert read_settings(ROOT / "config" / "clusters.yaml").cluster("example").policy == ClusterPolicy()
    documented = (ROOT / "docs" / "deploying.md").read_text().split("```yaml\n")[1].split("```")[0]
    assert parse_settings(documented, where="deploying.md").cluster("orders-eu").policy == ClusterPolicy()


def test_all_complaints_come_at_once_with_their_lines() -> None:
    found = complaints(
        "clusters:\n  a:\n    conection: x\n    policy:\n      movement:\n        rate: 10\n"
        "      balance: {bytes_tolerance_percent: 0}\n  Bad Name:\n    connection: y\nextra: 1\n"
    )
    assert [c.split(":")[0] for c in found] == ["line 3", "line 3", "line 6", "line 7", "line 8", "line 10"]
    assert "10 B/s or 10 MB/s" in found[2]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the file is empty"),
        ("clusters: [", "not YAML"),
        ("- a", "must be a mapping"),
        ("clusters:\n  a: 1", "a must be a mapping"),
        ("clusters:\n  a:\n    connection: x\n    connection: y", "given twice"),
        ("clusters:\n  a:\n    connection:", "connection must be text"),
        ("clusters:\n  a:\n    connection: x\n    policy: {approval: {approvers: alice}}", "must be a list"),
        ("clusters:\n  a:\n    connection: x\n    policy: {approval: {wait_for: 0h}}", "not a duration"),
        (
            "clusters:\n  a:\n    connection: x\n    policy: {balance: {leader_weight: size}}",
            "there are: count, bytes-in",
        ),
        ("clusters:\n  a:\n    connection: x\n    policy: {balance: {disk_limit_percent: 101}}", "from 1 to 100"),
        ("clusters:\n  a:\n    connection: x\n    policy: {balance: {ignorable_permille: 101}}", "from 0 to 100"),
        ("clusters:\n  a:\n    connection: x\n    policy: {balance: {excluded_topics: [a b]}}", "'a b' is no topic"),
    ],
)
def test_malformed_files_get_a_line_and_a_reason(text: str, says: str) -> None:
    assert any(says in complaint and complaint.startswith("line ") for complaint in complaints(text))


def test_an_unknown_cluster_names_the_known_ones() -> None:
    with pytest.raises(InputError, match="orders-eu"):
        parse_settings(GOOD, where="x").cluster("orders-us")


def test_a_missing_file_says_which_variable_names_another(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="COUNTERPOISE_CONFIG"):
        read_settings(tmp_path / "none.yaml")


def test_connections_come_from_airflows_variable_or_a_file_and_show_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "connections.yaml"
    path.write_text('from_file: {bootstrap.servers: "a:1", sasl.password: hunter2}\nbroken: text\n')
    variable = '{"conn_type": "kafka", "extra": {"bootstrap.servers": "b:2", "sasl.password": "hunter2"}}'
    connections = FileConnections(path, {"AIRFLOW_CONN_FROM_ENV": variable, "AIRFLOW_CONN_BAD": "{hunter2"})
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
