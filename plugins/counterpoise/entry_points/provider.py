"""What Counterpoise tells Airflow of itself as a provider: its assets and the form of connections.

    airflow providers get counterpoise

The connection type `kafka` is that of the provider `apache-kafka`: where that one is installed,
the form is its own. Source: Airflow's `provider_info.schema.json`.
"""

from importlib.util import find_spec
from typing import Any, Final

from counterpoise import __version__
from counterpoise.orchestration.asset_uris import SCHEME

_KAFKA_PROVIDER: Final = "airflow.providers.apache.kafka"


def provider_info() -> dict[str, Any]:
    """Return what Airflow lists."""
    info: dict[str, Any] = {
        "package-name": "counterpoise",
        "name": "Counterpoise",
        "description": "Keeps Apache Kafka clusters in balance, from the outside",
        "versions": [__version__],
        "asset-uris": [
            {"schemes": [SCHEME], "handler": "counterpoise.orchestration.asset_uris.checked_uri"}
        ],
        "notifications": ["counterpoise.orchestration.notifier.ClusterNotifier"],
    }
    if not _has_kafka_provider():
        info["connection-types"] = [
            {
                "connection-type": "kafka",
                "hook-class-name": "counterpoise.orchestration.connection_form.KafkaHook",
            }
        ]
    return info


def _has_kafka_provider() -> bool:
    try:
        return find_spec(_KAFKA_PROVIDER) is not None
    except ModuleNotFoundError:  # not even airflow.providers.apache
        return False
