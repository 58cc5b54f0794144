"""How to reach a cluster: librdkafka's settings, checked once and translated for kafka-python.

    extra = {"bootstrap.servers": "a:9092,b:9092", "security.protocol": "SSL"}
    settings = ConnectionSettings.parse(extra)

The names are librdkafka's, as in the extra of an Airflow connection of type `kafka`. Settings that
have nothing to do with reaching the brokers (of consumers and producers, `group.id` say) are left
out. A security setting that only one of the two clients applies is refused: both have to connect in
the same way (`connection_rules.py`).

Limits: GSSAPI was not tried; it needs the package gssapi and a librdkafka built with libsasl2.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from counterpoise.errors import ConfigurationError, InputError
from counterpoise.input_files import CERTIFICATES, file_complaint, read_input_text
from counterpoise.kafka_admin.connection_rules import (
    GSSAPI,
    HOST_NAMES,
    KNOWN,
    MAY_BE_EMPTY,
    METHOD,
    OAUTHBEARER,
    PASSWORD_MECHANISMS,
    SAME_AS,
    UNSECURED_TOKEN,
    VERIFICATION,
    choice_of,
    find_complaints,
    is_relevant,
    is_true,
    url_queries,
)
from counterpoise.kafka_admin.tls_context import ssl_context
from counterpoise.model.acl import Acl

if TYPE_CHECKING:  # slow to import, and needed for OAUTHBEARER only
    from counterpoise.kafka_admin.tokens import TokenSource

_SECRETS: Final = re.compile(r"password|secret|passphrase|key\.pem|sasl\.oauthbearer\.config")
_ADDRESS: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]/,]+):(?P<port>\d{1,5})")
_LOCATION: Final = ".location"
_NO_LOCATION: Final = re.compile(r"[\r\n]|-----|://")  # but a key, or a URL that may hold one
HIDDEN: Final = "set, not shown"
# Files of certificates, and these: no secret is written there.
_SHOWN: Final = frozenset(
    {"security.protocol", "sasl.mechanism", "sasl.mechanisms", METHOD, VERIFICATION, HOST_NAMES}
)
_ANONYMOUS: Final = "User:ANONYMOUS"
_SOMEBODY: Final = "User:PRINCIPAL"  # in commands, where we do not know who we are


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """Checked settings; `librdkafka` has them under librdkafka's names, without the addresses.

    Neither `repr` nor any message of ours shows `librdkafka`: it holds passwords.
    """

    bootstrap_servers: tuple[str, ...]  # host:port, in the order in which they are tried
    librdkafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    tokens: "TokenSource | None" = field(default=None, repr=False, compare=False)  # OAUTHBEARER
    needed_acls: tuple[Acl, ...] = ()  # of whoever connects; they are in docs/security.md
    where: str = field(default="connection", compare=False)  # these were read, for messages

    @classmethod
    def parse(cls, extra: Mapping[str, object], *, where: str = "connection") -> Self:
        """Return the settings in `extra`.

        Raises ConfigurationError, naming `where`, with all complaints at once.
        """
        complaints: list[str] = []
        settings = _as_texts(extra, complaints)
        listed = settings.pop("bootstrap.servers", "")
        addresses = _split_list(listed)
        complaints += _address_complaints(listed, addresses)
        complaints += find_complaints(settings)
        complaints += _file_complaints(settings)
        if complaints:
            raise ConfigurationError(where, tuple(complaints))
        known = {key: value for key, value in settings.items() if key in KNOWN}
        protocol = choice_of(known, "security.protocol", "PLAINTEXT")
        checked = {**known, "security.protocol": protocol}
        return cls(addresses, checked, _token_source(known), where=where)

    def at(self, address: str) -> Self:
        """Return the same settings for this address alone."""
        return replace(self, bootstrap_servers=(address,))

    @property
    def security_protocol(self) -> str:
        """Return PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
        return self.librdkafka.get("security.protocol", "PLAINTEXT")

    @property
    def uses_tls(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @property
    def sasl_mechanism(self) -> str | None:
        """Return the mechanism, as `PLAIN`; None without SASL."""
        if not self.security_protocol.startswith("SASL"):
            return None
        return self.librdkafka.get("sasl.mechanism")

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what these settings leave unprotected, and what to do about it."""
        if not self.uses_tls:
            return ()
        if not is_true(self.librdkafka, VERIFICATION, "true"):
            return (
                f'"{VERIFICATION}" is false: nobody checks that it is the brokers who answer, and '
                "whoever is in between can read and change everything; take it out, and name the "
                'authority of the brokers\' certificates in "ssl.ca.location"',
            )
        if choice_of(self.librdkafka, HOST_NAMES, "https") == "none":
            return (
                f'"{HOST_NAMES}" is none: whoever has any certificate of the authority can pose as '
                "a broker; take it out, and have the brokers' certificates name the hosts",
            )
        return ()

    @property
    def principal(self) -> str:
        """Return who Kafka takes us for unless it maps names: `User:alice`.

        `User:PRINCIPAL` where that cannot be known from here.
        """
        if self.sasl_mechanism in PASSWORD_MECHANISMS:
            return f"User:{self.librdkafka['sasl.username']}"
        if self.tokens is not None:
            return self.tokens.principal or _SOMEBODY
        if self.sasl_mechanism == GSSAPI:
            name = self.librdkafka.get("sasl.kerberos.principal", "")
            return f"User:{re.split('[/@]', name)[0]}" if name else _SOMEBODY
        return _certificate_principal(self.librdkafka) if self.uses_tls else _ANONYMOUS

    def acl_to_grant(self, acl: Acl) -> Acl:
        """Return the permission to ask for where `acl` is missing: the one with it that this
        connection needs anyway.
        """
        return next((more for more in self.needed_acls if more.includes(acl)), acl)

    def without_secrets(self, text: str) -> str:
        """Return a client's `text` without passwords and tokens, fit for messages and logs."""
        for key, secret in self.librdkafka.items():
            if secret and _SECRETS.search(key):
                text = text.replace(secret, "***")
        for query in url_queries(self.librdkafka):
            text = text.replace(query, "***")
        return self.tokens.without_token(text) if self.tokens else text


def holds_secret(extra: Mapping[object, object]) -> bool:
    """Return whether librdkafka settings, read from anywhere, hold a password or a key."""
    return any(value and _SECRETS.search(str(name)) for name, value in extra.items())


def shown_settings(extra: Mapping[str, object]) -> dict[str, str]:
    """Return librdkafka settings for pages: addresses, files and kinds, and of all else only that
    it is set.
    """
    return {name: _shown(name, value) for name, value in sorted(extra.items())}


def _shown(name: str, value: object) -> str:
    if name == "bootstrap.servers":
        addresses = _split_list(str(value))
        return ", ".join(a if _ADDRESS.fullmatch(a) else HIDDEN for a in addresses)
    is_shown = name in _SHOWN or name.endswith(_LOCATION)
    return str(value) if is_shown and not _NO_LOCATION.search(str(value)) else HIDDEN


def _token_source(settings: Mapping[str, str]) -> "TokenSource | None":
    if settings.get("sasl.mechanism") != OAUTHBEARER:
        return None
    from counterpoise.kafka_admin.tokens import TokenSource

    return TokenSource(settings)


def _certificate_principal(given: Mapping[str, str]) -> str:
    """Return the principal of a client certificate: its subject, most specific part first."""
    from cryptography import x509

    try:
        location = given.get("ssl.certificate.location")
        pem = given.get("ssl.certificate.pem", "")
        if location:
            pem = read_input_text(Path(location), "", CERTIFICATES)
        if not pem:
            return _ANONYMOUS
        subject = x509.load_pem_x509_certificate(pem.encode()).subject
    except (InputError, ValueError):
        return _SOMEBODY
    return f"User:{subject.rfc4514_string()}"


def join_address(host: str, port: int) -> str:
    """Return `host:port`; an IPv6 address is put in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of `host:port` or `[v6]:port`. Raises ValueError for anything else."""
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match["port"]) < 65536:
        raise ValueError(f"{address!r} is not host:port")
    return match["host"].strip("[]"), int(match["port"])


def librdkafka_arguments(settings: ConnectionSettings) -> dict[str, Any]:
    """Return the settings for `confluent_kafka.AdminClient`.

    librdkafka gets the tokens of an OIDC provider by itself, all others from us.
    """
    given = dict(settings.librdkafka)
    arguments: dict[str, Any] = {"bootstrap.servers": ",".join(settings.bootstrap_servers), **given}
    tokens = settings.tokens
    if tokens is not None and choice_of(given, METHOD, "default") != "oidc":
        arguments.pop(UNSECURED_TOKEN, None)
        arguments["oauth_cb"] = tokens.for_librdkafka
    return arguments


def kafka_python_arguments(settings: ConnectionSettings) -> dict[str, Any]:
    """Return the keyword arguments for `kafka.KafkaAdminClient`.

    Raises ConfigurationError when certificates cannot be read.
    """
    given = settings.librdkafka
    arguments: dict[str, Any] = {
        "bootstrap_servers": list(settings.bootstrap_servers),
        "security_protocol": settings.security_protocol,
        **sasl_arguments(settings),
    }
    if "client.id" in given:
        arguments["client_id"] = given["client.id"]
    if settings.uses_tls:
        arguments["ssl_context"] = ssl_context(given, where=settings.where)
    return arguments


def sasl_arguments(settings: ConnectionSettings) -> dict[str, Any]:
    """Return kafka-python's arguments for SASL; none without SASL."""
    given = settings.librdkafka
    mechanism = settings.sasl_mechanism
    if mechanism is None:
        return {}
    arguments: dict[str, Any] = {"sasl_mechanism": mechanism}
    if mechanism in PASSWORD_MECHANISMS:
        arguments["sasl_plain_username"] = given["sasl.username"]
        arguments["sasl_plain_password"] = given["sasl.password"]
    elif settings.tokens is not None:
        from counterpoise.kafka_admin.tokens import TokenProvider

        arguments["sasl_oauth_token_provider"] = TokenProvider(settings.tokens)
    else:
        arguments["sasl_kerberos_service_name"] = given.get("sasl.kerberos.service.name", "kafka")
    return arguments


# -- reading the settings


_MAX_BITS: Final = 64  # of a number among the settings


def _as_texts(extra: Mapping[str, object], complaints: list[str]) -> dict[str, str]:
    """Return the settings under their main names as text; JSON also has booleans and numbers.

    A text setting that is empty counts as not given, as it does for librdkafka.
    """
    settings: dict[str, str] = {}
    for name, value in extra.items():
        if _is_huge(name) or _is_huge(value):
            complaints.append("a number has more digits than any setting")
            continue
        given_key = str(name)  # YAML also has keys that are no text
        key = SAME_AS.get(given_key, given_key)
        if not isinstance(value, str | int | float):
            if is_relevant(key):
                type_name = "null" if value is None else type(value).__name__
                complaints.append(f'"{given_key}" must be text, not {type_name}')
            continue
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if text == "" and key in MAY_BE_EMPTY:
            continue
        if settings.setdefault(key, text) != text:
            complaints.append(f'"{given_key}" contradicts "{key}"; keep one of them')
    return settings


def _is_huge(value: object) -> bool:
    """Return whether it is a number that Python does not even write as text."""
    return isinstance(value, int) and value.bit_length() > _MAX_BITS


def _file_complaints(settings: Mapping[str, str]) -> list[str]:
    """Return what is wrong with files that OpenSSL and librdkafka would read without an end."""
    files = {key: settings[key] for key in sorted(settings) if key.endswith(_LOCATION)}
    found = {key: _why_no_file(path) for key, path in files.items() if key in KNOWN}
    return [f'"{key}" cannot be used: {reason}' for key, reason in found.items() if reason]


def _why_no_file(path: str) -> str | None:
    if _NO_LOCATION.search(path):
        return "it is no path of a file; what is in the file belongs into the setting with .pem"
    return file_complaint(Path(path))


def _split_list(text: str) -> tuple[str, ...]:
    """Return the different entries of a comma-separated list, in order."""
    entries = (entry.strip() for entry in text.split(","))
    return tuple(dict.fromkeys(entry for entry in entries if entry))


def _address_complaints(listed: str, addresses: tuple[str, ...]) -> list[str]:
    if not addresses:
        return ['"bootstrap.servers" is missing; write it like "kafka-1:9092,kafka-2:9092"']
    if "@" in listed:  # nothing before it is shown: a password may have commas
        shown = listed.rpartition("@")[2]
        return [
            f'address "***@{shown}": user and password go into "sasl.username", "sasl.password"'
        ]
    found = (_address_complaint(address) for address in addresses)
    return [complaint for complaint in found if complaint]


def _address_complaint(address: str) -> str | None:
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
