"""Connection settings: what is understood, what is refused (all of it at once), that secrets stay
secret; silence.
"""

import logging
import ssl
import stat
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from cryptography.hazmat.primitives import serialization

from counterpoise.errors import ConfigurationError
from counterpoise.kafka_admin.broker_client import LivenessProbe
from counterpoise.kafka_admin.connection import (
    ConnectionSettings,
    kafka_python_arguments,
    librdkafka_arguments,
    split_address,
)
from tests.support.certificates import DAY, Authority

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
        sasl_mechanism="CRAM-MD5",
        sasl_pasword="typo",
        ssl_keystore_location="k.p12",
        ssl_ca_location="ca.pem",
    )
    wanted = (
        '"a" has no port',
        '"x" is not a number',
        '"70000"',
        "SSL://d",
        "CRAM-MD5",
        "sasl.pasword",
        "keystore",
    )
    assert all(any(word in complaint for complaint in found) for word in wanted), found
    assert any('did you mean "sasl.password"?' in complaint for complaint in found)
    assert not any('"e:9092"' in complaint for complaint in found)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"bootstrap_servers": "::1"}, "has no port"),
        ({"sasl_username": "me"}, "did you mean SASL_SSL"),
        ({"security_protocol": "SSL", "ssl_key_pem": "k"}, "ssl.certificate.location"),
        ({"security_protocol": "SSL", "ssl_ca_pem": "a", "ssl_ca_location": "b"}, "are both there"),
        ({"sasl_oauthbearer_method": "oidc"}, "did you mean SASL_SSL"),
        ({"ssl_providers": "fips"}, "one of the two Kafka clients"),
        ({"ssl_truststore_location": "t.jks"}, 'name a PEM file in "ssl.ca.location"'),
        ({"sasl_jaas_config": "x"}, 'write "sasl.username", "sasl.password"'),
        (
            {"security_protocol": "SSL", "ssl_key_location": "-----BEGIN PRIVATE KEY-----\nk"},
            "setting with .pem",
        ),
        (
            {"security_protocol": "SSL", "ssl_ca_location": "https://me:k@example.org/ca.pem"},
            "setting with .pem",
        ),
    ],
)
def test_one_complaint(changes: dict[str, Any], word: str) -> None:
    assert any(word in complaint for complaint in complaints(**changes))


TLS = {"security.protocol": "SSL"}


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("security_protocol", "security.protocol"),
        ("Security.Protocol", "security.protocol"),
        ("SSL.CA.LOCATION", "ssl.ca.location"),
        ("ssl_ca_location", "ssl.ca.location"),
        ("ssl.ca.locaton", "ssl.ca.location"),
        ("securty.protocol", "security.protocol"),
        ("enable.ssl.certificate.verfication", "enable.ssl.certificate.verification"),
        ("sasl.user.name", "sasl.username"),
        ("sals.password", "sasl.password"),
        ("bootstrap.server", "bootstrap.servers"),
        ("BOOTSTRAP_SERVERS", "bootstrap.servers"),
        ("client_id", "client.id"),
    ],
)
def test_a_near_miss_is_refused_with_the_name_that_was_meant(wrong: str, right: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ConnectionSettings.parse({"bootstrap.servers": "a:9092", wrong: "x"})
    assert f'"{wrong}"' in str(caught.value)
    assert f'"{right}"' in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        *("ca.location", "key.pem", "cafile", "tls", "tls.ca.pem", "use_ssl", "verify_ssl"),
        *("client.ssl.ca.location", "admin.sasl.password", "certificate.verification", "oauth_cb"),
        *("ssl/ca/pem", "ssl ca pem", "check.hostname", "username", "password", "protocol"),
        *("\u017fsl.ca.location", "s\u0430sl.password"),
    ],
)
def test_a_name_that_was_meant_to_secure_is_never_left_out(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        ConnectionSettings.parse({"bootstrap.servers": "a:9092", name: "x"})


@pytest.mark.parametrize(
    "name",
    [
        "group.id",
        "group.protocol",
        "key.deserializer",
        "client.dns.lookup",
        "client.rack",
        "session.timeout.ms",
        "error_cb",
        "topic.blacklist",
        "poll_timeout",
    ],
)
def test_settings_of_consumers_and_producers_are_left_alone(name: str) -> None:
    settings = ConnectionSettings.parse({"bootstrap.servers": "a:9092", name: "x"})
    assert name not in librdkafka_arguments(settings)


@pytest.mark.parametrize("key", ["ssl.ca.location", "enable.ssl.certificate.verification"])
@pytest.mark.parametrize("protocol", ["PLAINTEXT", None])
def test_tls_settings_without_tls_are_refused(key: str, protocol: str | None) -> None:
    given = {"bootstrap.servers": "a:9092", key: "true"}
    given |= {"security.protocol": protocol} if protocol else {}
    with pytest.raises(ConfigurationError, match=f'"{key}" would be ignored with.*SSL or SASL_SSL'):
        ConnectionSettings.parse(given)


SASL_TLS = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "me",
    "sasl.password": "p",
}
OAUTH = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
OIDC = OAUTH | {
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": "hush-hush",
    "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
}
BOOLEANS = (
    *("true", "True", "TRUE", "t", "T", "1", "false", "F", "0", True, False, 1, 0),
    *("", "yes", "no", "on", "treu", " true", "true ", "01", "2", 2, 1.0),
)
VALUES: list[tuple[dict[str, object], str, tuple[object, ...]]] = [
    (dict(TLS), "enable.ssl.certificate.verification", BOOLEANS),
    ({}, "socket.keepalive.enable", BOOLEANS),
    (
        dict(TLS),
        "ssl.endpoint.identification.algorithm",
        ("https", "HTTPS", "none", "None", " none", "none ", "", "http", "null", "false"),
    ),
    (
        {},
        "security.protocol",
        (
            "PLAINTEXT",
            "plaintext",
            "ssl",
            "Ssl",
            " SSL",
            "SSL ",
            "",
            "TLS",
            "SASL",
            "0",
            "\u017fsl",
        ),
    ),
    (dict(SASL_TLS), "sasl.mechanism", ("PLAIN", "plain", "SCRAM-SHA-512", "scram-sha-512")),
    (dict(SASL_TLS), "sasl.username", ("", "me", "a b")),
    (dict(OIDC), "sasl.oauthbearer.method", ("oidc", "OIDC", "Oidc", "oidcx", "")),
    (dict(OIDC), "sasl.oauthbearer.client.secret", ("", "x")),
    (dict(TLS), "ssl.ca.location", ("", "probe")),
    ({}, "broker.address.family", ("any", "v4", "V6", "ipv4", "")),
]


@pytest.mark.parametrize(
    ("others", "key", "value"),
    [(others, key, value) for others, key, values in VALUES for value in values],
)
def test_exactly_what_librdkafka_accepts_is_accepted(
    others: dict[str, object], key: str, value: object
) -> None:
    given = {"bootstrap.servers": "127.0.0.1:1", **others, key: value}
    try:
        AdminClient(given, logger=logging.getLogger("tests.librdkafka"))
        is_accepted_there = True
    except KafkaException:
        is_accepted_there = False
    try:
        settings = ConnectionSettings.parse(given)
        is_accepted_here = True
    except ConfigurationError:
        is_accepted_here = False
    assert is_accepted_here is is_accepted_there
    if is_accepted_here:  # what we hand on is taken, too
        AdminClient(librdkafka_arguments(settings), logger=logging.getLogger("tests.librdkafka"))


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ({}, ()),
        ({"enable.ssl.certificate.verification": "F"}, ("certificate.verification",)),
        ({"ssl.endpoint.identification.algorithm": "None"}, ("identification.algorithm",)),
    ],
)
def test_what_is_left_unprotected_is_a_warning(
    extra: dict[str, str], says: tuple[str, ...]
) -> None:
    settings = ConnectionSettings.parse({"bootstrap.servers": "a:9092"} | TLS | extra)
    assert len(settings.warnings) == len(says)
    assert all(word in warning for word, warning in zip(says, settings.warnings, strict=True))


def test_who_the_brokers_take_us_for(tmp_path: Path) -> None:
    own = Authority(tmp_path).sign("reader", ends=datetime.now(UTC) + DAY)
    base = {"bootstrap.servers": "a:9092"}

    def principal(**extra: str) -> str:
        given = {key.replace("_", "."): value for key, value in extra.items()}
        return ConnectionSettings.parse(base | given).principal

    assert principal() == principal(security_protocol="SSL") == "User:ANONYMOUS"
    assert ConnectionSettings.parse(base | SASL_TLS).principal == "User:me"
    files = {"ssl_certificate_location": str(own), "ssl_key_location": str(own)}
    assert principal(security_protocol="SSL", **files) == "User:CN=reader"
    pem = {"ssl_certificate_pem": own.read_text(), "ssl_key_pem": own.read_text()}
    assert principal(security_protocol="SSL", **pem) == "User:CN=reader"
    kerberos = {"sasl_mechanism": "GSSAPI", "sasl_kerberos_principal": "me/host@REALM"}
    assert principal(security_protocol="SASL_SSL", **kerberos) == "User:me"


def test_kerberos_settings_are_passed_through() -> None:
    settings = ConnectionSettings.parse(
        {
            "bootstrap.servers": "a:9092",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka1",
            "sasl.kerberos.keytab": "/etc/me.keytab",
        }
    )
    assert kafka_python_arguments(settings)["sasl_kerberos_service_name"] == "kafka1"
    assert librdkafka_arguments(settings)["sasl.kerberos.keytab"] == "/etc/me.keytab"


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return authority, certificate, key, and the key under a password, as texts."""
    folder = tmp_path_factory.mktemp("pem")
    authority = Authority(folder)
    file = authority.sign("reader", ends=datetime.now(UTC) + DAY)
    loaded = serialization.load_pem_private_key(file.read_bytes(), None)
    locked = loaded.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"open sesame"),
    )
    key, _, certificate = file.read_text().partition("-----BEGIN CERTIFICATE")
    return {
        "ssl.ca.pem": authority.file.read_text(),
        "ssl.certificate.pem": f"-----BEGIN CERTIFICATE{certificate}",
        "ssl.key.pem": key,
        "locked": locked.decode(),
    }


def test_inline_pem_serves_both_clients_and_no_file_stays(
    pem: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    modes: list[int] = []
    unlink = Path.unlink

    def watched(path: Path, missing_ok: bool = False) -> None:
        modes.append(stat.S_IMODE(path.stat().st_mode))
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", watched)
    inline = {key: text for key, text in pem.items() if key != "locked"}
    locked = {"ssl.key.pem": pem["locked"], "ssl.key.password": "open sesame"}
    for given in (inline, inline | locked):
        settings = ConnectionSettings.parse({"bootstrap.servers": "a:9092"} | TLS | given)
        context = kafka_python_arguments(settings)["ssl_context"]
        assert [found["subject"] for found in context.get_ca_certs()]
        AdminClient(librdkafka_arguments(settings), logger=logging.getLogger("tests.librdkafka"))
        assert pem["ssl.key.pem"] not in repr(settings)
    assert modes == [0o600] * 4
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"ssl.key.pem": "locked"}, '"ssl.key.password"'),
        ({"ssl.certificate.pem": "ssl.ca.pem"}, "does not belong to the certificate"),
        ({"ssl.certificate.pem": "nonsense"}, "not in PEM form"),
        ({"ssl.ca.pem": "nonsense"}, "holds no certificate in PEM form"),
    ],
)
def test_pem_that_cannot_be_used_is_named_and_removed(
    pem: dict[str, str],
    change: dict[str, str],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    given = {key: text for key, text in pem.items() if key != "locked"}
    given |= {key: pem.get(value, value) for key, value in change.items()}
    where = "connection kafka_operator"
    settings = ConnectionSettings.parse({"bootstrap.servers": "a:9092"} | TLS | given, where=where)
    with pytest.raises(ConfigurationError) as caught:
        kafka_python_arguments(settings)
    assert str(caught.value).startswith("connection kafka_operator: 1 problem")
    assert says in str(caught.value)
    assert not any(text in str(caught.value) for text in pem.values())
    assert not list(tmp_path.iterdir())


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
    monkeypatch.setattr("counterpoise.kafka_admin.broker_client.time", clock)
    liveness_probe = LivenessProbe(3.0)
    assert not liveness_probe.was_unresponsive(4)
    for clock.now in (100.0, 104.0, 109.9):
        liveness_probe.note_unresponsive(4)
        assert liveness_probe.was_unresponsive(4)
    clock.now = 110.1
    assert not liveness_probe.was_unresponsive(4)
