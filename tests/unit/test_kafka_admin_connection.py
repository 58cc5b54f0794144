"""Connection settings: what is understood, what is refused (all of it at once), that secrets stay
secret; silence.
"""

import ssl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from counterpoise.errors import ConfigurationError
from counterpoise.kafka_admin.connection import (
    ConnectionSettings,
    kafka_python_arguments,
    librdkafka_arguments,
    split_address,
)
from counterpoise.kafka_admin.liveness_probe import LivenessProbe

SASL = {
    "bootstrap.servers": "a:9092,[::1]:9093",
    "security.protocol": "sasl_plaintext",
    "sasl.mechanisms": "SCRAM-SHA-512",
    "sasl.username": "me",
    "sasl.password": "hush-hush",
}


def complaints(**changes: Any) -> tuple[str, ...]:
    extra = {"bootstrap.servers": "a:9092"} | {
        key.replace("_", "."): value for key, value in changes.items()
    }
    with pytest.raises(ConfigurationError) as caught:
        ConnectionSettings.parse(
            {k: v for k, v in extra.items() if v != "absent"}, where="connection kafka_demo"
        )
    assert str(caught.value).startswith("connection kafka_demo: ")
    return caught.value.complaints


def test_both_clients_are_told_the_same() -> None:
    settings = ConnectionSettings.parse(
        {**SASL, "client.id": "counterpoise", "group.id": "x", "error_cb": "a.b"}
    )
    assert settings.bootstrap_servers == ("a:9092", "[::1]:9093")
    assert librdkafka_arguments(settings) == {
        "bootstrap.servers": "a:9092,[::1]:9093",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": "hush-hush",
        "client.id": "counterpoise",
    }
    assert kafka_python_arguments(settings) == {
        "bootstrap_servers": ["a:9092", "[::1]:9093"],
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "me",
        "sasl_plain_password": "hush-hush",
        "client_id": "counterpoise",
    }


def test_no_secret_is_shown() -> None:
    settings = ConnectionSettings.parse(SASL)
    assert "hush" not in f"{settings!r} {settings}"
    assert settings.without_secrets("bad value 'hush-hush'") == "bad value '***'"
    assert "hush" not in str(complaints(sasl_password="hush-hush", security_protocol="SASL_SLL"))


def test_every_complaint_comes_at_once() -> None:
    found = complaints(
        bootstrap_servers="a,b:x,c:70000,SSL://d:9092,e:9092",
        security_protocol="SASL_SSL",
        sasl_mechanism="GSSAPI",
        sasl_pasword="typo",
        ssl_keystore_location="k.p12",
    )
    wanted = (
        '"a" has no port',
        '"x" is not a number',
        '"70000"',
        "SSL://d",
        "GSSAPI",
        "sasl.pasword",
        "keystore",
    )
    assert all(any(word in complaint for complaint in found) for word in wanted), found
    assert any('"sasl.username" is missing' in complaint for complaint in found)
    assert not any('"e:9092"' in complaint for complaint in found)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"bootstrap_servers": "absent"}, '"bootstrap.servers" is missing'),
        ({"bootstrap_servers": " , "}, '"bootstrap.servers" is missing'),
        ({"bootstrap_servers": "::1"}, "has no port"),
        ({"bootstrap_servers": None}, "must be text"),
        ({"sasl_username": "me"}, "did you mean SASL_SSL"),
        (
            {
                "sasl_mechanism": "PLAIN",
                "sasl_mechanisms": "SCRAM-SHA-256",
                "security_protocol": "SSL",
            },
            "contradicts",
        ),
        ({"ssl_endpoint_identification_algorithm": "http"}, "https or none"),
        ({"ssl_certificate_location": "c.pem"}, "ssl.key.location"),
        ({"sasl_oauthbearer_method": "oidc"}, "one of the two Kafka clients"),
    ],
)
def test_one_complaint(changes: dict[str, Any], word: str) -> None:
    assert any(word in complaint for complaint in complaints(**changes))


def test_tls_settings_reach_the_context_of_kafka_python(tmp_path: Path) -> None:
    base = {"bootstrap.servers": "a:9092", "security.protocol": "SSL"}

    def context(**extra: object) -> ssl.SSLContext:
        settings = ConnectionSettings.parse(
            base | {key.replace("_", "."): value for key, value in extra.items()}
        )
        made = kafka_python_arguments(settings)["ssl_context"]
        assert isinstance(made, ssl.SSLContext)
        return made

    assert (context().check_hostname, context().verify_mode) == (True, ssl.CERT_REQUIRED)
    assert not context(ssl_endpoint_identification_algorithm="none").check_hostname
    assert context(enable_ssl_certificate_verification=False).verify_mode is ssl.CERT_NONE
    with pytest.raises(ConfigurationError, match=r'"ssl.ca.location" cannot be used'):
        context(ssl_ca_location=str(tmp_path / "absent.pem"))
    with pytest.raises(ConfigurationError, match=r'"ssl.ca.pem" cannot be used'):
        context(ssl_ca_pem="no certificate")


def test_an_ipv6_address_stands_in_brackets() -> None:
    assert split_address("[::1]:9093") == ("::1", 9093)


def test_an_unresponsive_broker_is_remembered_for_ten_seconds_and_not_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise a broker that is only far away would be given 0.3 s for ever."""
    clock = SimpleNamespace(now=50.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr("counterpoise.kafka_admin.liveness_probe.time", clock)
    liveness_probe = LivenessProbe(3.0)
    assert not liveness_probe.was_unresponsive(4)
    for clock.now in (100.0, 104.0, 109.9):
        liveness_probe.note_unresponsive(4)
        assert liveness_probe.was_unresponsive(4)
    clock.now = 110.1
    assert not liveness_probe.was_unresponsive(4)
