"""The `Installation` inside an Airflow task: Kafka connections come from Airflow, and errors that
no retry cures fail the task at once.

    with airflow_installation() as installation:
        verification.verdict(installation, run_id, states)

Limits: `airflow_installation` only inside a running task; the api-server's pages open one of their
own, which reads connections to show them and connects to nothing.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow.sdk import Connection
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowNotFoundException,
    AirflowSkipException,
    AirflowTaskTimeout,
)

from counterpoise.errors import (
    CancelledError,
    CounterpoiseError,
    InputError,
    MissingConnectionError,
)
from counterpoise.model.safe_text import SafeLogger, without_control_characters

if TYPE_CHECKING:
    from counterpoise.installation import Installation

CONNECTION_TYPE = "kafka"
# They log every connection, each slow turn of a client's loop, and every check of the schema.
CHATTY_LOGGERS = {
    "kafka": logging.WARNING,
    "kafka.net.selector": logging.ERROR,
    "alembic": logging.WARNING,
}


class AirflowConnections:
    """Airflow's connections of type `kafka`; the extra of each holds librdkafka settings.

    The convention of the provider `apache-kafka`; the provider itself is not needed.
    """

    def settings_for(self, connection_id: str) -> Mapping[str, object]:
        """Return librdkafka settings.

        Raises InputError when the connection is missing or of another type.
        """
        try:
            connection: Any = Connection.get(connection_id)
        except AirflowNotFoundException:
            raise MissingConnectionError(
                f"Airflow has no connection {connection_id!r}; add one of type {CONNECTION_TYPE} "
                "whose extra holds librdkafka settings like "
                '{"bootstrap.servers": "kafka-1:9092,kafka-2:9092"}'
            ) from None
        if connection.conn_type != CONNECTION_TYPE:
            raise InputError(
                f"Airflow's connection {connection_id!r} is of type {connection.conn_type!r}, but "
                f"must be of type {CONNECTION_TYPE!r}"
            )
        extra: object = connection.extra_dejson
        if not isinstance(extra, Mapping):
            raise InputError(
                f"the extra of Airflow's connection {connection_id!r} must be a JSON object of "
                "librdkafka settings"
            )
        # Airflow's form writes null for each field that was left empty.
        return {name: value for name, value in extra.items() if value is not None}


@contextmanager
def airflow_installation() -> Iterator["Installation"]:
    """Yield an installation for one task.

    An error of ours that no retry cures fails the task at once, with its message.
    """
    from counterpoise.installation import open_worker_installation

    for name, level in CHATTY_LOGGERS.items():
        logging.getLogger(name).setLevel(level)
    with (
        failing_for_good(),
        open_worker_installation(connections=AirflowConnections()) as installation,
    ):
        yield installation


@contextmanager
def failing_at_deadline() -> Iterator[None]:
    """Fail a task at its deadline (`execution_timeout`) for good: another try would hang as long,
    and keep the next Dag run from starting.
    """
    try:
        yield
    except AirflowTaskTimeout:
        raise AirflowFailException(
            "the task did not end before its deadline (execution_timeout); the next Dag run tries "
            "again"
        ) from None


def log_entries(logger: SafeLogger, level: int, found: Mapping[str, tuple[str, ...]]) -> None:
    """Log each entry of a report with what it is an entry of, like "settled run: run-7: done"."""
    for what, entries in found.items():
        for entry in entries:
            logger.log(level, "%s: %s", what, entry)


@contextmanager
def failing_for_good() -> Iterator[None]:
    """Turn errors that are not `retryable` into AirflowFailException: the task is not retried. What
    a person has cancelled is skipped: nothing has failed.

    Airflow logs the message of either, so control characters in it are replaced.
    """
    try:
        yield
    except CounterpoiseError as error:
        error.args = (without_control_characters(str(error)),)
        if isinstance(error, CancelledError):
            raise AirflowSkipException(str(error)) from None
        if error.retryable:
            raise
        raise AirflowFailException(str(error)) from error
