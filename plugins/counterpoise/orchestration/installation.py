"""The `Site` inside an Airflow task: Kafka connections come from Airflow, errors become what
Airflow understands.

    with airflow_installation() as site:
        pipeline.validate(site, run["run_id"], run["fingerprint"])

Limits: only inside a running task; pages of the api-server make a site of their own, without
connections.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException

from counterpoise.errors import CounterpoiseError, InputError

if TYPE_CHECKING:
    from counterpoise.installation import Installation

CONNECTION_TYPE = "kafka"
# They tell of every connection, of each tenth of a second that a client's loop took, of every look
# at the schema.
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
        """librdkafka settings.

        Raises InputError when the connection is missing or of another type.
        """
        try:
            connection: Any = Connection.get(connection_id)
        except AirflowNotFoundException:
            raise InputError(
                f"Airflow has no connection {connection_id!r}; add one of type {CONNECTION_TYPE} whose extra holds "
                'librdkafka settings like {"bootstrap.servers": "kafka-1:9092,kafka-2:9092"}'
            ) from None
        if connection.conn_type != CONNECTION_TYPE:
            raise InputError(
                f"Airflow's connection {connection_id!r} is of type {connection.conn_type!r}, not {CONNECTION_TYPE}"
            )
        extra: dict[str, object] = connection.extra_dejson
        return extra


@contextmanager
def airflow_installation() -> Iterator["Installation"]:
    """A site for one task.

    An error of ours that no retry can cure fails the task at once, with its message.
    """
    from counterpoise.installation import open_installation

    for name, level in CHATTY_LOGGERS.items():
        logging.getLogger(name).setLevel(level)
    with failing_for_good(), open_installation(connections=AirflowConnections()) as installation:
        yield installation


@contextmanager
def failing_for_good() -> Iterator[None]:
    """Turns errors that are not `retryable` into AirflowFailException, which spends no further
    tries.
    """
    try:
        yield
    except CounterpoiseError as error:
        if error.retryable:
            raise
        raise AirflowFailException(str(error)) from error
