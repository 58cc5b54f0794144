"""How to reach a cluster: librdkafka's settings, checked once and translated for kafka-python.

    settings = ConnectionSettings.parse({"bootstrap.servers": "a:9092,b:9092", "security.protocol": "SSL"})

The names are librdkafka's, as in the extra of an Airflow connection of type `kafka`. Settings that
have nothing to do with reaching the brokers (of consumers and producers, `group.id` say) are left
out. A security setting that only one of the two clients would obey is a complaint: both have to see
the same cluster in the same way.

Limits: SASL with PLAIN and SCRAM; client certificates from files.
"""

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from counterpoise.errors import ConfigurationError

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
LIBRDKAFKA_MECHANISMS: Final = ("GSSAPI", "OAUTHBEARER")  # enough for a walk, not for calls

# librdkafka knows some settings under two names.
_SAME_AS: Final = {"metadata.broker.list": "bootstrap.servers", "sasl.mechanisms": "sasl.mechanism"}
_SECRETS: Final = re.compile(r"password|secret|passphrase|key\.pem|sasl\.oauthbearer\.config")
_SASL: Final = ("sasl.mechanism", "sasl.username", "sasl.password")
_SSL: Final = (
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.crl.location",
    "ssl.endpoint.identification.algorithm",
    "enable.ssl.certificate.verification",
)
# These do not change what is seen, so it does no harm that librdkafka alone obeys some of them.
_OTHERS: Final = (
    "client.id",
    "broker.address.family",
    "socket.keepalive.enable",
    "socket.nagle.disable",
)
_ADDRESS: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]/,]+):(?P<port>\d{1,5})")
_TRUTHS: Final = ("true", "t", "1")


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """Checked settings; `librdkafka` has them under librdkafka's names, without the addresses.

    Neither `repr` nor any message of ours shows `librdkafka`: it holds passwords.
    """

    bootstrap_servers: tuple[str, ...]  # host:port, in the order in which they are tried
    librdkafka: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, extra: Mapping[str, object], *, where: str = "connection") -> Self:
        """The settings in `extra`.

        Raises ConfigurationError, naming `where`, with all complaints at once.
        """
        complaints: list[str] = []
        settings = _as_texts(extra, complaints)
        addresses = tuple(
            dict.fromkeys(
                a.strip() for a in settings.pop("bootstrap.servers", "").split(",") if a.strip()
            )
        )
        if not addresses:
            complaints.append(
                '"bootstrap.servers" is missing; write it like "kafka-1:9092,kafka-2:9092"'
            )
        complaints += [
            complaint for address in addresses if (complaint := _address_complaint(address))
        ]
        complaints += _unusable(settings)
        complaints += _protocol_complaints(settings)
        if complaints:
            raise ConfigurationError(where, tuple(complaints))
        known = {key: value for key, value in settings.items() if key in (*_SASL, *_SSL, *_OTHERS)}
        return cls(addresses, {"security.protocol": _protocol(settings), **known})

    @classmethod
    def parse_for_walk(cls, extra: Mapping[str, object], *, where: str = "connection") -> Self:
        """As `parse`, and with every mechanism of SASL that librdkafka has: a walk needs no other
        client.

        Settings of those other mechanisms are checked by librdkafka itself.
        """
        texts = _as_texts(extra, [])
        protocol = _protocol(texts)
        if (
            not protocol.startswith("SASL")
            or texts.get("sasl.mechanism") not in LIBRDKAFKA_MECHANISMS
        ):
            return cls.parse(extra, where=where)
        theirs = {
            key: value
            for key, value in texts.items()
            if key.startswith(("sasl.", "enable.sasl", "https."))
        }
        ours: dict[str, object] = {key: value for key, value in texts.items() if key not in theirs}
        parsed = cls.parse(
            {**ours, "security.protocol": "SSL" if "SSL" in protocol else "PLAINTEXT"}, where=where
        )
        return cls(
            parsed.bootstrap_servers, {**parsed.librdkafka, "security.protocol": protocol, **theirs}
        )

    @property
    def security_protocol(self) -> str:
        """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
        return self.librdkafka.get("security.protocol", "PLAINTEXT")

    @property
    def sasl_mechanism(self) -> str | None:
        """As `PLAIN`, or None without SASL."""
        return (
            self.librdkafka.get("sasl.mechanism")
            if self.security_protocol.startswith("SASL")
            else None
        )

    def without_secrets(self, text: str) -> str:
        """`text` of a client, fit for messages and logs."""
        for key, secret in self.librdkafka.items():
            if secret and _SECRETS.search(key):
                text = text.replace(secret, "***")
        return text


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port` or `[v6]:port`. Raises ValueError for anything else."""
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match["port"]) < 65536:
        raise ValueError(f"{address!r} is not host:port")
    return match["host"].strip("[]"), int(match["port"])


def librdkafka_arguments(settings: ConnectionSettings) -> dict[str, str]:
    """Settings for `confluent_kafka.AdminClient`."""
    return {"bootstrap.servers": ",".join(settings.bootstrap_servers), **settings.librdkafka}


def kafka_python_arguments(settings: ConnectionSettings) -> dict[str, Any]:
    """Keyword arguments for `kafka.KafkaAdminClient`.

    Raises ConfigurationError when certificates cannot be read.
    """
    given = settings.librdkafka
    arguments: dict[str, Any] = {
        "bootstrap_servers": list(settings.bootstrap_servers),
        "security_protocol": settings.security_protocol,
    }
    if "client.id" in given:
        arguments["client_id"] = given["client.id"]
    if settings.sasl_mechanism:
        arguments["sasl_mechanism"] = settings.sasl_mechanism
        arguments["sasl_plain_username"] = given["sasl.username"]
        arguments["sasl_plain_password"] = given["sasl.password"]
    if settings.security_protocol.endswith("SSL"):
        arguments["ssl_context"] = ssl_context(given)
    return arguments


def ssl_context(given: Mapping[str, str]) -> ssl.SSLContext:
    """The context that obeys the same settings as librdkafka; kafka-python's own arguments cannot
    say all of them.
    """
    context = ssl.create_default_context()
    context.check_hostname = given.get("ssl.endpoint.identification.algorithm", "https") != "none"
    if given.get("enable.ssl.certificate.verification", "true").lower() not in _TRUTHS:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    key = "ssl.ca.location"
    try:
        if location := given.get(key):
            is_directory = Path(location).is_dir()
            context = _without_system_roots(context)
            context.load_verify_locations(**{"capath" if is_directory else "cafile": location})
        key = "ssl.ca.pem"
        if pem := given.get(key):
            context = _without_system_roots(context)
            context.load_verify_locations(cadata=pem)
        key = "ssl.certificate.location"
        if certificate := given.get(key):
            # Without a password, one that is needed would be asked for on the terminal: an empty
            # one fails instead.
            context.load_cert_chain(
                certificate, given.get("ssl.key.location"), given.get("ssl.key.password", "")
            )
        key = "ssl.crl.location"
        if crl := given.get(key):
            context.load_verify_locations(cafile=crl)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConfigurationError("connection", (f'"{key}" cannot be used: {error}',)) from None
    return context


def _without_system_roots(context: ssl.SSLContext) -> ssl.SSLContext:
    """The same choices, trusting nobody yet: a private authority named in the settings is the only
    one to trust.
    """
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.check_hostname = context.check_hostname
    bare.verify_mode = context.verify_mode
    return bare


def _as_texts(extra: Mapping[str, object], complaints: list[str]) -> dict[str, str]:
    """The settings under their first names as text; JSON also has true, false and numbers."""
    settings: dict[str, str] = {}
    for name, value in extra.items():
        given_key = str(name)  # YAML has other keys, too
        key = _SAME_AS.get(given_key, given_key)
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if _concerns_us(key) and not isinstance(value, str | int | float):
            complaints.append(
                f'"{given_key}" must be text, not {"null" if value is None else type(value).__name__}'
            )
        elif settings.setdefault(key, text) != text:
            complaints.append(f'"{given_key}" contradicts "{key}"; keep one of them')
    return settings


def _concerns_us(key: str) -> bool:
    return key == "bootstrap.servers" or key in _OTHERS or _concerns_security(key)


def _concerns_security(key: str) -> bool:
    return key.startswith(("security.", "sasl.", "ssl.", "enable.ssl", "enable.sasl", "https."))


def _address_complaint(address: str) -> str | None:
    if "@" in address:
        return f'address "***@{address.rpartition("@")[2]}": user and password go into "sasl.username", "sasl.password"'
    if "://" in address:
        return f'address "{address}": write host:port, and the protocol in "security.protocol"'
    host, colon, port = address.rpartition(":")
    if not colon or (":" in host and not host.startswith("[")):
        return f'address "{address}" has no port; write it like "{address if not colon else f"[{address}]"}:9092"'
    if not (port.isascii() and port.isdigit() and len(port) <= 5) or not 0 < int(port) < 65536:
        return f'address "{address}": its port "{port}" is not a number from 1 to 65535'
    if _ADDRESS.fullmatch(address) is None:
        return f'address "{address}" is not host:port'
    return None


def _unusable(settings: Mapping[str, str]) -> list[str]:
    complaints = []
    for key in sorted(settings):
        if key in (
            "ssl.certificate.pem",
            "ssl.key.pem",
            "ssl.keystore.location",
            "ssl.keystore.password",
        ):
            complaints.append(
                f'"{key}" is not supported; name PEM files in "ssl.certificate.location", "ssl.key.location"'
            )
        elif _concerns_security(key) and key not in ("security.protocol", *_SASL, *_SSL):
            complaints.append(
                f'"{key}" is unknown, or would not be obeyed by both Kafka clients; known: {_known(key)}'
            )
    return complaints


def _known(key: str) -> str:
    names = ("security.protocol", *_SASL, *_SSL)
    alike = [name for name in names if name.split(".")[0] == key.split(".")[0]]
    return ", ".join(alike or names)


def _protocol(settings: Mapping[str, str]) -> str:
    return settings.get("security.protocol", "PLAINTEXT").upper()


def _protocol_complaints(settings: Mapping[str, str]) -> list[str]:
    protocol = _protocol(settings)
    if protocol not in SECURITY_PROTOCOLS:
        return [
            f'"security.protocol" is "{protocol}"; it must be one of {", ".join(SECURITY_PROTOCOLS)}'
        ]
    complaints = _sasl_complaints(settings, protocol) + _ssl_complaints(settings)
    if "ssl.certificate.location" in settings and "ssl.key.location" not in settings:
        complaints.append(
            '"ssl.certificate.location" needs "ssl.key.location", the file with its private key'
        )
    return complaints


def _sasl_complaints(settings: Mapping[str, str], protocol: str) -> list[str]:
    if not protocol.startswith("SASL"):
        return [
            f'"{key}" would be ignored with "security.protocol" {protocol}; did you mean {_with_sasl(protocol)}?'
            for key in _SASL
            if key in settings
        ]
    complaints = [
        f'"{key}" is missing; {protocol} needs it' for key in _SASL if not settings.get(key)
    ]
    mechanism = settings.get("sasl.mechanism", "")
    if mechanism and mechanism not in SASL_MECHANISMS:
        complaints.append(
            f'"sasl.mechanism" is "{mechanism}"; supported are {", ".join(SASL_MECHANISMS)}'
        )
    return complaints


def _with_sasl(protocol: str) -> str:
    return "SASL_SSL" if protocol == "SSL" else "SASL_SSL or SASL_PLAINTEXT"


def _ssl_complaints(settings: Mapping[str, str]) -> list[str]:
    algorithm = settings.get("ssl.endpoint.identification.algorithm", "https")
    complaints = []
    if algorithm not in ("https", "none"):
        complaints.append(
            f'"ssl.endpoint.identification.algorithm" is "{algorithm}"; it must be https or none'
        )
    return complaints
