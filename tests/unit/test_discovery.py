"""What is said about addresses where no Kafka answers; real sockets.

See the integration tests, too.
"""

from collections.abc import Iterator

import pytest

from counterpoise.errors import ClusterUnreachableError
from counterpoise.kafka_admin import connect
from counterpoise.kafka_admin.connection import ConnectionSettings
from tests.support.no_kafka import Serve, hang_up, servers


@pytest.fixture
def serve() -> Iterator[Serve]:
    with servers() as start:
        yield start


def reasons(*addresses: str, **settings: str) -> list[str]:
    extra = {"bootstrap.servers": ",".join(addresses)} | {
        k.replace("_", "."): v for k, v in settings.items()
    }
    with pytest.raises(ClusterUnreachableError) as caught:
        connect(ConnectionSettings.parse(extra)).describe_cluster()
    assert [address for address, _ in caught.value.attempts] == list(addresses)
    assert "hush-hush" not in str(caught.value)
    return [reason for _, reason in caught.value.attempts]


def test_a_tls_client_at_a_port_without_tls_is_told_so(serve: Serve) -> None:
    (reason,) = reasons(serve(hang_up), security_protocol="SSL")
    assert 'it does not speak TLS, but "security.protocol" is SSL' in reason


def test_secrets_stay_out_of_the_reasons(serve: Serve) -> None:
    sasl = {"sasl_mechanism": "PLAIN", "sasl_username": "me", "sasl_password": "hush-hush"}
    (reason,) = reasons(serve(hang_up), security_protocol="SASL_PLAINTEXT", **sasl)
    assert reason
