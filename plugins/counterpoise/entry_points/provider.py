"""What Counterpoise tells Airflow of itself as a provider: its assets, its notifier and the form of
Kafka connections.

    airflow providers get counterpoise

The connection type `kafka` is that of the provider `apache-kafka`: where that one is installed,
the form is its own. Sources: Airflow's `provider_info.schema.json` and `provider.yaml.schema.json`.

Airflow's page *Providers* links the address `Documentation` of `[project.urls]` in pyproject.toml.
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
        "integrations": [
            {
                "integration-name": "Apache Kafka",
                "external-doc-url": "https://kafka.apache.org/documentation/",
                "tags": ["apache"],
            }
        ],
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
                "hook-name": "Kafka",
                "ui-field-behaviour": {
                    "hidden-fields": ["host", "schema", "login", "password", "port"]
                },
                "conn-fields": _connection_fields(),
            }
        ]
    return info


def _connection_fields() -> dict[str, Any]:
    """Return the fields of the form: each is a librdkafka setting of that name in the extra, where
    all others may be written, too.
    """
    fields = {
        "bootstrap.servers": _field("addresses, like kafka-1:9092,kafka-2:9092", type="string"),
        "security.protocol": _field(
            "PLAINTEXT if empty", enum=["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
        ),
        "sasl.mechanism": _field(
            "with SASL",
            enum=["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"],
        ),
        "sasl.username": _field("with PLAIN and SCRAM"),
        "sasl.password": _field("with PLAIN and SCRAM", format="password"),
        "ssl.ca.location": _field("PEM file of authorities on every worker; the system's if empty"),
        "ssl.certificate.location": _field("PEM file of a certificate of our own"),
        "ssl.key.location": _field("PEM file of its key"),
        "ssl.key.password": _field("of that key", format="password"),
    }
    return {name: {"label": name, **field} for name, field in fields.items()}


def _field(description: str, **schema: Any) -> dict[str, Any]:
    return {"description": description, "schema": {"type": ["string", "null"], **schema}}


def _has_kafka_provider() -> bool:
    try:
        return find_spec(_KAFKA_PROVIDER) is not None
    except ModuleNotFoundError:  # not even airflow.providers.apache
        return False
