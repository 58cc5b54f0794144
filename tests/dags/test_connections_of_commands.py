"""A command finds the Kafka connections of the Airflow beside it, by Airflow's own database."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow.models.connection import Connection
from airflow.utils.session import create_session
from sqlalchemy import delete

from counterpoise.errors import InputError, MissingConnectionError
from counterpoise.installation import Installation, open_installation

OURS = ("kafka_in_airflow", "kafka_of_another_type")


@pytest.fixture
def connections_in_airflow() -> Iterator[None]:
    extra = '{"bootstrap.servers": "kafka-1:9092", "sasl.password": null}'
    with create_session(scoped=False) as session:
        session.add(Connection(OURS[0], conn_type="kafka", extra=extra))
        session.add(Connection(OURS[1], conn_type="http", extra=extra))
    yield
    with create_session(scoped=False) as session:
        session.execute(delete(Connection).where(Connection.conn_id.in_(OURS)))


@pytest.fixture
def command_line(tmp_path: Path) -> Installation:
    """What a command opens in a folder that has no connections.yaml."""
    return open_installation(environment={"COUNTERPOISE_HOME": str(tmp_path)})


def test_a_connection_of_airflow_is_found(
    command_line: Installation, connections_in_airflow: None
) -> None:
    assert command_line.connection_settings(OURS[0]).bootstrap_servers == ("kafka-1:9092",)


def test_a_connection_that_cannot_be_used_is_told(
    command_line: Installation, connections_in_airflow: None
) -> None:
    with pytest.raises(InputError, match="is of type 'http', but must be of type 'kafka'"):
        command_line.connection_settings(OURS[1])


def test_a_missing_connection_is_missing_in_all_places(command_line: Installation) -> None:
    with pytest.raises(MissingConnectionError, match="AIRFLOW_CONN_KAFKA_X nor in Airflow"):
        command_line.connection_settings("kafka_x")


def test_a_file_comes_first_and_needs_no_airflow(
    command_line: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/nowhere")  # a process of Airflow would not start
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "sqlite:////nowhere/airflow.db")
    file = tmp_path / "config/connections.yaml"
    file.parent.mkdir()
    file.write_text(f"{OURS[0]}: {{bootstrap.servers: 'kafka-2:9092'}}\n")
    assert command_line.connection_settings(OURS[0]).bootstrap_servers == ("kafka-2:9092",)
