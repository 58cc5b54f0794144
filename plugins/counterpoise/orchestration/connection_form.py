"""The form of a Kafka connection on Airflow's pages, and its button `Test`.

    counterpoise: Admin > Connections > Add > "Kafka"

All settings stand in the extra, as those of the provider `apache-kafka` do.
"""

import json
from typing import Any

from airflow.sdk import BaseHook

from counterpoise.errors import CounterpoiseError
from counterpoise.model.safe_text import one_line
from counterpoise.orchestration.installation import CONNECTION_TYPE, AirflowConnections

_EXAMPLE = {"bootstrap.servers": "kafka-1:9092,kafka-2:9092"}


class KafkaHook(BaseHook):
    """A connection of librdkafka settings."""

    conn_name_attr = "connection_id"
    default_conn_name = "kafka_default"
    conn_type = CONNECTION_TYPE
    hook_name = "Kafka"

    def __init__(self, connection_id: str = default_conn_name) -> None:
        super().__init__()
        self.connection_id = connection_id

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Return the form: one field, the extra."""
        return {
            "hidden_fields": ["host", "schema", "login", "password", "port"],
            "relabeling": {"extra": "librdkafka settings"},
            "placeholders": {"extra": json.dumps(_EXAMPLE)},
        }

    def test_connection(self) -> tuple[bool, str]:
        """Connect to the first address that answers, and say what is there."""
        from counterpoise import pipeline

        try:
            return True, pipeline.try_connection(AirflowConnections(), self.connection_id)
        except CounterpoiseError as error:
            return False, one_line(str(error))
