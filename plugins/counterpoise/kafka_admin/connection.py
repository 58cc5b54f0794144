"""How to reach a cluster: librdkafka's settings, checked once and translated for kafka-python.

    extra = {"bootstrap.servers": "a:9092,b:9092", "security.protocol": "SSL"}
    settings = ConnectionSettings.parse(extra)

The names are librdkafka's, as in the extra of an Airflow connection of type `kafka`. Settings that
have nothing to do with reaching the brokers (of consumers and producers, `group.id` say) are left
out. A security setting that only one of the two clients applies is refused: both have to connect in
the same way.

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
# Enough for a connectivity check, not for calls, which kafka-python makes.
LIBRDKAFKA_MECHANISMS: Final = ("GSSAPI", "OAUTHBEARER")

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
_SECURITY: Final = ("security.protocol", *_SASL, *_SSL)
# Supported only as files.
_ONLY_AS_FILES: Final = (
    "ssl.certificate.pem",
    "ssl.key.pem",
    "ssl.keystore.location",
    "ssl.keystore.password",
)
# These do not change what is read, so librdkafka alone may apply some of them.
_OTHERS: Final = (
    "client.id",
    "broker.address.family",
    "socket.keepalive.enable",
    "socket.nagle.disable",
)
_ADDRESS: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]/,]+):(?P<port>\d{1,5})")
_TRUE_TEXTS: Final = ("true", "t", "1")


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """Checked settings; `librdkafka` has them under librdkafka's names, without the addresses.

    Neither `repr` nor any message of ours shows `librdkafka`: it holds passwords.
    """

    bootstrap_servers: tuple[str, ...]  # host:port, in the order in which they are tried
    librdkafka: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, extra: Mapping[str, object], *, where: str = "connection") -> Self:
        """Return the settings in `extra`.

        Raises ConfigurationError, naming `where`, with all complaints at once.
        """
        complaints: list[str] = []
        settings = _as_texts(extra, complaints)
        addresses = _split_list(settings.pop("bootstrap.servers", ""))
        if not addresses:
            complaints.append(
                '"bootstrap.servers" is missing; write it like "kafka-1:9092,kafka-2:9092"'
            )
        for address in addresses:
            if complaint := _address_complaint(address):
                complaints.append(complaint)
        complaints += _unusable(settings)
        complaints += _protocol_complaints(settings)
        if complaints:
            raise ConfigurationError(where, tuple(complaints))
        known = {key: value for key, value in settings.items() if key in (*_SASL, *_SSL, *_OTHERS)}
        return cls(addresses, {"security.protocol": _protocol(settings), **known})

    @classmethod
    def parse_for_connectivity_check(
        cls, extra: Mapping[str, object], *, where: str = "connection"
    ) -> Self:
        """Do as `parse`, but allow every SASL mechanism of librdkafka.

        A connectivity check needs no other client. librdkafka itself checks the settings of these
        mechanisms.
        """
        settings = _as_texts(extra, [])
        protocol = _protocol(settings)
        is_other_mechanism = settings.get("sasl.mechanism") in LIBRDKAFKA_MECHANISMS
        if not protocol.startswith("SASL") or not is_other_mechanism:
            return cls.parse(extra, where=where)
        sasl: dict[str, str] = {}
        others: dict[str, object] = {}
        for key, value in settings.items():
            if key.startswith(("sasl.", "enable.sasl", "https.")):
                sasl[key] = value
            else:
                others[key] = value
        others["security.protocol"] = "SSL" if "SSL" in protocol else "PLAINTEXT"
        parsed = cls.parse(others, where=where)
        return cls(
            parsed.bootstrap_servers, {**parsed.librdkafka, "security.protocol": protocol, **sasl}
        )

    @property
    def security_protocol(self) -> str:
        """Return PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
        return self.librdkafka.get("security.protocol", "PLAINTEXT")

    @property
    def sasl_mechanism(self) -> str | None:
        """Return the mechanism, as `PLAIN`; None without SASL."""
        if not self.security_protocol.startswith("SASL"):
            return None
        return self.librdkafka.get("sasl.mechanism")

    def without_secrets(self, text: str) -> str:
        """Return a client's `text` without passwords, fit for messages and logs."""
        for key, secret in self.librdkafka.items():
            if secret and _SECRETS.search(key):
                text = text.replace(secret, "***")
        return text


def join_address(host: str, port: int) -> str:
    """Return `host:port`; an IPv6 address is put in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of `host:port` or `[v6]:port`. Raises ValueError for anything else."""
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match["port"]) < 65536:
        raise ValueError(f"{address!r} is not host:port")
    return match["host"].strip("[]"), int(match["port"])


def librdkafka_arguments(settings: ConnectionSettings) -> dict[str, str]:
    """Return the settings for `confluent_kafka.AdminClient`."""
    return {"bootstrap.servers": ",".join(settings.bootstrap_servers), **settings.librdkafka}


def kafka_python_arguments(settings: ConnectionSettings) -> dict[str, Any]:
    """Return the keyword arguments for `kafka.KafkaAdminClient`.

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
    """Return a context with the same settings as librdkafka.

    kafka-python's own arguments cannot express all of them. Raises ConfigurationError for a file
    that cannot be used.
    """
    context = ssl.create_default_context()
    context.check_hostname = given.get("ssl.endpoint.identification.algorithm", "https") != "none"
    if given.get("enable.ssl.certificate.verification", "true").lower() not in _TRUE_TEXTS:
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
            # With no password, OpenSSL would ask for a missing one on the terminal; with an empty
            # one it fails.
            password = given.get("ssl.key.password", "")
            context.load_cert_chain(certificate, given.get("ssl.key.location"), password)
        key = "ssl.crl.location"
        if crl := given.get(key):
            context.load_verify_locations(cafile=crl)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConfigurationError("connection", (f'"{key}" cannot be used: {error}',)) from None
    return context


def _without_system_roots(context: ssl.SSLContext) -> ssl.SSLContext:
    """Return a context with the same checks that trusts no authority yet.

    A private authority in the settings is then the only one that is trusted.
    """
    empty = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    empty.check_hostname = context.check_hostname
    empty.verify_mode = context.verify_mode
    return empty


# -- reading and checking the settings


def _as_texts(extra: Mapping[str, object], complaints: list[str]) -> dict[str, str]:
    """Return the settings under their main names as text; JSON also has booleans and numbers."""
    settings: dict[str, str] = {}
    for name, value in extra.items():
        given_key = str(name)  # YAML also has keys that are no text
        key = _SAME_AS.get(given_key, given_key)
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if _is_relevant(key) and not isinstance(value, str | int | float):
            type_name = "null" if value is None else type(value).__name__
            complaints.append(f'"{given_key}" must be text, not {type_name}')
        elif settings.setdefault(key, text) != text:
            complaints.append(f'"{given_key}" contradicts "{key}"; keep one of them')
    return settings


def _split_list(text: str) -> tuple[str, ...]:
    """Return the different entries of a comma-separated list, in order."""
    entries = (entry.strip() for entry in text.split(","))
    return tuple(dict.fromkeys(entry for entry in entries if entry))


def _is_relevant(key: str) -> bool:
    return key == "bootstrap.servers" or key in _OTHERS or _is_about_security(key)


def _is_about_security(key: str) -> bool:
    return key.startswith(("security.", "sasl.", "ssl.", "enable.ssl", "enable.sasl", "https."))


def _address_complaint(address: str) -> str | None:
    if "@" in address:
        shown = address.rpartition("@")[2]
        return f'address "***@{shown}": user and password go into "sasl.username", "sasl.password"'
    if "://" in address:
        return f'address "{address}": write host:port, and the protocol in "security.protocol"'
    host, colon, port = address.rpartition(":")
    if not colon or (":" in host and not host.startswith("[")):
        host = f"[{address}]" if colon else address
        return f'address "{address}" has no port; write it like "{host}:9092"'
    is_number = port.isascii() and port.isdigit() and len(port) <= 5
    if not is_number or not 0 < int(port) < 65536:
        return f'address "{address}": its port "{port}" is not a number from 1 to 65535'
    if _ADDRESS.fullmatch(address) is None:
        return f'address "{address}" is not host:port'
    return None


def _unusable(settings: Mapping[str, str]) -> list[str]:
    """Return a complaint for each security setting that only one of the clients can apply."""
    complaints = []
    for key in sorted(settings):
        if key in _ONLY_AS_FILES:
            complaints.append(
                f'"{key}" is not supported; name PEM files in "ssl.certificate.location", '
                '"ssl.key.location"'
            )
        elif _is_about_security(key) and key not in _SECURITY:
            complaints.append(
                f'"{key}" is unknown, or only one of the two Kafka clients would apply it; '
                f"known: {_similar_names(key)}"
            )
    return complaints


def _similar_names(key: str) -> str:
    prefix = key.split(".")[0]
    similar = [name for name in _SECURITY if name.split(".")[0] == prefix]
    return ", ".join(similar or _SECURITY)


def _protocol(settings: Mapping[str, str]) -> str:
    return settings.get("security.protocol", "PLAINTEXT").upper()


def _protocol_complaints(settings: Mapping[str, str]) -> list[str]:
    protocol = _protocol(settings)
    if protocol not in SECURITY_PROTOCOLS:
        known = ", ".join(SECURITY_PROTOCOLS)
        return [f'"security.protocol" is "{protocol}"; it must be one of {known}']
    complaints = _sasl_complaints(settings, protocol)
    algorithm = settings.get("ssl.endpoint.identification.algorithm", "https")
    if algorithm not in ("https", "none"):
        complaints.append(
            f'"ssl.endpoint.identification.algorithm" is "{algorithm}"; it must be https or none'
        )
    if "ssl.certificate.location" in settings and "ssl.key.location" not in settings:
        complaints.append(
            '"ssl.certificate.location" needs "ssl.key.location", the file with its private key'
        )
    return complaints


def _sasl_complaints(settings: Mapping[str, str], protocol: str) -> list[str]:
    if not protocol.startswith("SASL"):
        wanted = "SASL_SSL" if protocol == "SSL" else "SASL_SSL or SASL_PLAINTEXT"
        return [
            f'"{key}" would be ignored with "security.protocol" {protocol}; did you mean {wanted}?'
            for key in _SASL
            if key in settings
        ]
    complaints = [
        f'"{key}" is missing; {protocol} needs it' for key in _SASL if not settings.get(key)
    ]
    mechanism = settings.get("sasl.mechanism", "")
    if mechanism and mechanism not in SASL_MECHANISMS:
        supported = ", ".join(SASL_MECHANISMS)
        complaints.append(f'"sasl.mechanism" is "{mechanism}"; supported are {supported}')
    return complaints
