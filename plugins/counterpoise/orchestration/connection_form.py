"""The button `Test` of a Kafka connection on Airflow's pages; its form is in
`entry_points/provider.py`.

Admin > Connections > Add > "Kafka"
"""

from airflow.sdk import BaseHook

from counterpoise.errors import CounterpoiseError
from counterpoise.model.safe_text import one_line
from counterpoise.orchestration.installation import CONNECTION_TYPE, AirflowConnections


class KafkaHook(BaseHook):
    """A connection of librdkafka settings."""

    conn_name_attr = "connection_id"
    default_conn_name = "kafka_default"
    conn_type = CONNECTION_TYPE
    hook_name = "Kafka"

    def __init__(self, connection_id: str = default_conn_name) -> None:
        super().__init__()
        self.connection_id = connection_id

    def test_connection(self) -> tuple[bool, str]:
        """Connect to the first address that answers, and say what is there."""
        from counterpoise.services import doctor

        try:
            return True, doctor.try_connection(AirflowConnections(), self.connection_id)
        except CounterpoiseError as error:
            return False, one_line(" ".join(str(error).split()))
