"""How to reach a cluster: librdkafka's settings, checked once and translated for kafka-python.

    extra = {"bootstrap.servers": "a:9092,b:9092", "security.protocol": "SSL"}
    settings = ConnectionSettings.parse(extra)

The names are librdkafka's, as in the extra of an Airflow connection of type `kafka`. Settings that
have nothing to do with reaching the brokers (of consumers and producers, `group.id` say) are left
out. A security setting that only one of the two clients applies is refused: both have to connect in
the same way (`find_complaints`).

Limits: GSSAPI was not tried; it needs the package gssapi and a librdkafka built with libsasl2.
"""

import ipaddress
import os
import re
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from counterpoise.errors import ConfigurationError, InputError
from counterpoise.input_files import CERTIFICATES, file_complaint, read_input_text
from counterpoise.model.acl import Acl

if TYPE_CHECKING:
    from counterpoise.kafka_admin.tokens import TokenSource

# -- Which settings of librdkafka are understood, and which values they take
#
#     find_complaints({"security.protocol": "SSL", "ssl.ca.locaton": "/ca.pem"})
#     # ['"ssl.ca.locaton" is unknown; did you mean "ssl.ca.location"?']
#
# Values are accepted exactly as librdkafka accepts them (`true`, `t`, `1`, `false`, `f`, `0` in any
# case; names of settings are case sensitive). A security setting that is unknown, misspelt, or
# would have no effect is refused: what looks secured must be.
#
# Limits: settings of consumers and producers (`group.id`) are neither read nor checked.


SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PASSWORD_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"
SASL_MECHANISMS: Final = (*PASSWORD_MECHANISMS, OAUTHBEARER, GSSAPI)

VERIFICATION: Final = "enable.ssl.certificate.verification"
HOST_NAMES: Final = "ssl.endpoint.identification.algorithm"
UNSECURED_TOKEN: Final = "enable.sasl.oauthbearer.unsecure.jwt"
TOKEN_CONFIG: Final = "sasl.oauthbearer.config"
METHOD: Final = "sasl.oauthbearer.method"
TOKEN_ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID: Final = "sasl.oauthbearer.client.id"
CLIENT_SECRET: Final = "sasl.oauthbearer.client.secret"

# librdkafka knows some settings under two names.
SAME_AS: Final = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.credentials.client.id": CLIENT_ID,
    "sasl.oauthbearer.client.credentials.client.secret": CLIENT_SECRET,
}
_PASSWORD: Final = ("sasl.username", "sasl.password")
_OIDC: Final = (
    CLIENT_ID,
    CLIENT_SECRET,
    TOKEN_ENDPOINT,
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.extensions",
)
_HTTPS: Final = ("https.ca.location", "https.ca.pem")
_OAUTH: Final = (METHOD, *_OIDC, TOKEN_CONFIG, UNSECURED_TOKEN, *_HTTPS)
_KERBEROS: Final = (
    "sasl.kerberos.service.name",
    "sasl.kerberos.principal",
    "sasl.kerberos.keytab",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
)
_SASL: Final = ("sasl.mechanism", *_PASSWORD, *_OAUTH, *_KERBEROS)
_TLS: Final = (
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
    "ssl.key.password",
    "ssl.crl.location",
    HOST_NAMES,
    VERIFICATION,
)
# These do not change what is read, so librdkafka alone may apply some of them.
_OTHERS: Final = (
    "client.id",
    "broker.address.family",
    "socket.keepalive.enable",
    "socket.nagle.disable",
)
KNOWN: Final = ("bootstrap.servers", "security.protocol", *_SASL, *_TLS, *_OTHERS)
_MECHANISMS_WITH: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(_PASSWORD, PASSWORD_MECHANISMS),
    **dict.fromkeys(_OAUTH, (OAUTHBEARER,)),
    **dict.fromkeys(_KERBEROS, (GSSAPI,)),
}

_TRUE: Final = ("true", "t", "1")
_FALSE: Final = ("false", "f", "0")
_BOOLEANS: Final = (
    VERIFICATION,
    UNSECURED_TOKEN,
    "socket.keepalive.enable",
    "socket.nagle.disable",
)
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "security.protocol": SECURITY_PROTOCOLS,
    HOST_NAMES: ("https", "none"),
    METHOD: ("default", "oidc"),
    "broker.address.family": ("any", "v4", "v6"),
}
# Settings for which librdkafka takes an empty text as "not given".
MAY_BE_EMPTY: Final = frozenset(KNOWN) - {*_BOOLEANS, *_CHOICES, "sasl.mechanism"}
# What `sasl.oauthbearer.config` may say, blanks between: `token_file=/run/secrets/kafka-token`.
TOKEN_SOURCES: Final = ("token_file", "token_url", "aws_msk_region")
_UNSECURED_WORDS: Final = ("principal", "principalClaimName", "lifeSeconds")

# Names of Java's clients, and of librdkafka where only it would apply them.
_PEM_FILES: Final = 'name PEM files in "ssl.certificate.location", "ssl.key.location"'
_INSTEAD: Final = {
    "ssl.keystore.location": _PEM_FILES,
    "ssl.keystore.password": _PEM_FILES,
    "ssl.keystore.type": _PEM_FILES,
    "ssl.truststore.location": 'name a PEM file in "ssl.ca.location"',
    "ssl.truststore.password": 'name a PEM file in "ssl.ca.location"',
    "ssl.truststore.type": 'name a PEM file in "ssl.ca.location"',
    "ssl.key.passphrase": 'write "ssl.key.password"',
    "sasl.jaas.config": 'write "sasl.username", "sasl.password"',
    "sasl.oauthbearer.token.endpoint": f'write "{TOKEN_ENDPOINT}"',
}
_SIMILAR_ENOUGH: Final = 0.85
# Parts of names, librdkafka's or not, with which somebody meant to secure a connection. Other names
# may be of consumers and producers.
_SECURITY: Final = re.compile(
    r"ssl|sasl|tls|https|secur|oauth|kerberos|keytab|cert|passw|username|mechanism|verif|hostname"
    r"|host\.name|\bcrl|\bpem\b|\bca(file)?\b|^(user|key|protocol)$",
    re.IGNORECASE,
)


def find_complaints(settings: Mapping[str, str]) -> list[str]:
    """Return what is wrong with settings under their main names (`SAME_AS`); addresses aside."""
    return [
        *_name_complaints(settings),
        *_value_complaints(settings),
        *_tls_complaints(settings),
        *_sasl_complaints(settings),
    ]


def choice_of(settings: Mapping[str, str], key: str, default: str) -> str:
    """Return the value of a setting with choices, as `_CHOICES` writes it; else what was given."""
    given = settings.get(key, default)
    text = given.lstrip(" ")  # librdkafka skips leading blanks, not those behind
    for choice in _CHOICES[key]:
        if text.isascii() and text.lower() == choice.lower():
            return choice
    return given


def is_true(settings: Mapping[str, str], key: str, default: str) -> bool:
    """Return a checked boolean."""
    return settings.get(key, default).lower() in _TRUE


def is_relevant(key: str) -> bool:
    """Return whether a setting, known or not, is one that we read or refuse."""
    return key in KNOWN or _is_about_security(key)


def _is_about_security(key: str) -> bool:
    return not key.isascii() or _SECURITY.search(key) is not None


# -- names


def _name_complaints(settings: Mapping[str, str]) -> Iterator[str]:
    for key in sorted(settings.keys() - set(KNOWN)):
        normalized = key.strip().lower().replace("_", ".").replace("-", ".")
        if normalized in KNOWN or normalized in SAME_AS:
            yield (
                f'"{key}" is not a setting: names are lower case with dots; write "{normalized}"'
            )
        elif normalized in _INSTEAD:
            yield f'"{key}" is not supported; {_INSTEAD[normalized]}'
        elif similar := _similar_name(key, normalized):
            yield f'"{key}" is unknown; did you mean "{similar}"?'
        elif _is_about_security(normalized):
            yield (
                f'"{key}" is unknown, or only one of the two Kafka clients would apply it; '
                f"known: {_names_with_prefix(normalized)}"
            )


def _similar_name(key: str, normalized: str) -> str | None:
    """Return the known setting that a name was probably meant to be."""
    names = [name for name in KNOWN if name not in _OTHERS]
    found = get_close_matches(normalized, names, 1, _SIMILAR_ENOUGH)
    return found[0] if found and key not in _LIBRDKAFKA_ALONE else None


# Correct names of librdkafka that resemble one of ours.
_LIBRDKAFKA_ALONE: Final = (
    "sasl.oauthbearer.assertion.private.key.pem",
    "sasl.oauthbearer.sub.claim.name",
    "ssl.engine.location",
)


def _names_with_prefix(key: str) -> str:
    prefix = key.split(".")[0]
    similar = [name for name in KNOWN if name.split(".")[0] == prefix]
    return ", ".join(similar or ("security.protocol", *_TLS))


# -- values


def _value_complaints(settings: Mapping[str, str]) -> Iterator[str]:
    for key in _BOOLEANS:
        if key in settings and settings[key].lower() not in (*_TRUE, *_FALSE):
            yield f'"{key}" is "{settings[key]}"; it must be true or false'
    for key, choices in _CHOICES.items():
        if key in settings and choice_of(settings, key, "") not in choices:
            known = f"{', '.join(choices[:-1])} or {choices[-1]}"
            yield f'"{key}" is "{settings[key]}"; it must be {known}'


def _tls_complaints(settings: Mapping[str, str]) -> Iterator[str]:
    protocol = choice_of(settings, "security.protocol", "PLAINTEXT")
    if protocol in ("PLAINTEXT", "SASL_PLAINTEXT"):
        wanted = "SASL_SSL" if protocol.startswith("SASL") else "SSL or SASL_SSL"
        for key in _TLS:
            if key in settings:
                yield _ignored(key, f'"security.protocol" {protocol}', wanted)
        return
    for name in ("ca", "certificate", "key"):
        pem, location = f"ssl.{name}.pem", f"ssl.{name}.location"
        if pem in settings and location in settings:
            yield f'"{pem}" and "{location}" are both there; keep one of them'
    has_certificate = not settings.keys().isdisjoint(_own("certificate"))
    has_key = not settings.keys().isdisjoint(_own("key"))
    if has_certificate and not has_key:
        yield (
            '"ssl.certificate.location" or ".pem" needs "ssl.key.location" or "ssl.key.pem", its '
            "private key"
        )
    if has_key and not has_certificate:
        yield (
            '"ssl.key.location" or ".pem" needs "ssl.certificate.location" or '
            '"ssl.certificate.pem", its certificate'
        )
    if "ssl.key.password" in settings and not has_key:
        yield '"ssl.key.password" needs "ssl.key.location" or "ssl.key.pem"'


def _own(name: str) -> tuple[str, str]:
    return f"ssl.{name}.location", f"ssl.{name}.pem"


def _sasl_complaints(settings: Mapping[str, str]) -> Iterator[str]:
    protocol = choice_of(settings, "security.protocol", "PLAINTEXT")
    if protocol.startswith("SASL_"):
        yield from _mechanism_complaints(settings, protocol)
        return
    wanted = "SASL_SSL" if protocol == "SSL" else "SASL_SSL or SASL_PLAINTEXT"
    for key in _SASL:
        if key in settings:
            yield _ignored(key, f'"security.protocol" {protocol}', wanted)


def _mechanism_complaints(settings: Mapping[str, str], protocol: str) -> Iterator[str]:
    mechanism = settings.get("sasl.mechanism", "")
    if not mechanism:
        yield from _missing(settings, ("sasl.mechanism", *_PASSWORD), protocol)
        return
    if mechanism not in SASL_MECHANISMS:
        supported = ", ".join(SASL_MECHANISMS)
        yield f'"sasl.mechanism" is "{mechanism}"; supported, in upper case, are {supported}'
        return
    for key, mechanisms in _MECHANISMS_WITH.items():
        if key in settings and mechanism not in mechanisms:
            yield _ignored(key, f'"sasl.mechanism" {mechanism}', " or ".join(mechanisms))
    if mechanism in PASSWORD_MECHANISMS:
        yield from _missing(settings, _PASSWORD, mechanism)
    elif mechanism == OAUTHBEARER and choice_of(settings, METHOD, "default") == "oidc":
        yield from _oidc_complaints(settings)
    elif mechanism == OAUTHBEARER:
        yield from _token_complaints(settings)


def _ignored(key: str, because: str, wanted: str) -> str:
    return f'"{key}" would be ignored with {because}; did you mean {wanted}?'


def _missing(settings: Mapping[str, str], keys: tuple[str, ...], what: str) -> Iterator[str]:
    for key in keys:
        if not settings.get(key):
            yield f'"{key}" is missing; {what} needs it'


def _oidc_complaints(settings: Mapping[str, str]) -> Iterator[str]:
    yield from _missing(settings, (CLIENT_ID, CLIENT_SECRET, TOKEN_ENDPOINT), f"{METHOD} oidc")
    for key in (TOKEN_CONFIG, UNSECURED_TOKEN):
        if key in settings:
            yield _ignored(key, f'"{METHOD}" oidc', "default")
    if TOKEN_ENDPOINT in settings:
        yield from _url_complaints(TOKEN_ENDPOINT, settings[TOKEN_ENDPOINT])


def _token_complaints(settings: Mapping[str, str]) -> Iterator[str]:
    for key in _OIDC:
        if key in settings:
            yield _ignored(key, f'"{METHOD}" default', "oidc")
    words = token_words(settings)
    if is_true(settings, UNSECURED_TOKEN, "false"):
        yield from _word_complaints(words, _UNSECURED_WORDS)
        if "principal" not in words:
            yield f'"{TOKEN_CONFIG}" must name who it is, like principal=counterpoise'
        return
    yield from _word_complaints(words, TOKEN_SOURCES)
    if len(words) != 1:
        yield (
            f'{OAUTHBEARER} needs "{METHOD}" oidc, or in "{TOKEN_CONFIG}" one of '
            "token_file=PATH, token_url=URL, aws_msk_region=REGION"
        )
    if "token_url" in words:
        yield from _url_complaints("token_url", words["token_url"])


def token_words(settings: Mapping[str, str]) -> dict[str, str]:
    """Return `sasl.oauthbearer.config` as a mapping: {"token_file": "/run/secrets/token"}."""
    pairs = [word.partition("=") for word in settings.get(TOKEN_CONFIG, "").split()]
    return {name: value for name, _, value in pairs}


def url_queries(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return what stands behind the `?` in addresses that give tokens: it may be a key."""
    urls = (settings.get(TOKEN_ENDPOINT, ""), token_words(settings).get("token_url", ""))
    queries = (url.partition("?")[2] for url in urls)
    return tuple(query for query in queries if query)


def _word_complaints(words: Mapping[str, str], known: tuple[str, ...]) -> Iterator[str]:
    if not words.keys() <= set(known):  # unnamed: somebody may have put a token there
        yield f'"{TOKEN_CONFIG}" has a word that is not known; it may have {", ".join(known)}'
    for word in known:
        if words.get(word) == "":
            yield f'"{TOKEN_CONFIG}": {word} has no value'


def _url_complaints(name: str, url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_usable = False
    if not is_usable:
        yield f'"{name}" must be an address that begins with https:// or http://'
    elif parts.username or parts.password:
        yield f'"{name}" must not hold a password'


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


def _as_texts(extra: Mapping[str, object], complaints: list[str]) -> dict[str, str]:
    """Return the settings under their main names as text; JSON also has booleans and numbers.

    A text setting that is empty counts as not given, as it does for librdkafka.
    """
    settings: dict[str, str] = {}
    for name, value in extra.items():
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


def _is_ipv6(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).version == 6
    except ValueError:
        return False


def _address_complaint(address: str) -> str | None:
    if "://" in address:
        return f'address "{address}": write host:port, and the protocol in "security.protocol"'
    if ";" in address:
        return f'address "{address}": addresses are separated by commas, not by ";"'
    first, space, _ = address.partition(" ")
    if space and ":" in first:
        return f'address "{address}": addresses are separated by commas, not by spaces'
    host, colon, port = address.rpartition(":")
    if _is_ipv6(host):
        return f'address "{address}": an IPv6 address is in brackets; write "[{host}]:{port}"'
    if not colon or (":" in host and not host.startswith("[")):
        host = f"[{address}]" if colon else address
        return f'address "{address}" has no port; write it like "{host}:9092"'
    is_number = port.isascii() and port.isdigit() and len(port) <= 5
    if not is_number or not 0 < int(port) < 65536:
        return f'address "{address}": its port "{port}" is not a number from 1 to 65535'
    if _ADDRESS.fullmatch(address) is None:
        return f'address "{address}" is not host:port'
    return None


# -- The TLS settings of a connection for Python's sockets, the same as librdkafka's
#
#     context = ssl_context({"ssl.ca.location": "/etc/kafka/ca.pem"})
#
# kafka-python's own arguments cannot express all of them. Inline PEM goes to OpenSSL from memory,
# but for certificate and key of our own: Python reads these from a file, so they are in a file of
# mode 0600 while they are read, and nowhere afterwards.


_SYSTEM_ROOTS: Final = "probe"  # librdkafka's word for the authorities of the system


def ssl_context(given: Mapping[str, str], *, where: str = "connection") -> ssl.SSLContext:
    """Return a context with these settings, which were checked.

    Raises ConfigurationError, naming `where` and the setting, for a file or PEM text that cannot be
    used.
    """
    is_verified = is_true(given, VERIFICATION, "true")
    context = _trusting_context(given, where)
    context.check_hostname = is_verified and choice_of(given, HOST_NAMES, "https") != "none"
    context.verify_mode = ssl.CERT_REQUIRED if is_verified else ssl.CERT_NONE
    if certificate := _first_name(given, "ssl.certificate.location", "ssl.certificate.pem"):
        with _naming(certificate, where):
            _load_own_certificate(context, given)
    if crl := given.get("ssl.crl.location"):
        with _naming("ssl.crl.location", where):
            context.load_verify_locations(cafile=crl)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return context


def https_context(given: Mapping[str, str]) -> ssl.SSLContext:
    """Return a context for the address that gives tokens (`https.ca.location`, `https.ca.pem`)."""
    return _trusting_context(given, "connection", prefix="https")


def _trusting_context(
    given: Mapping[str, str], where: str, *, prefix: str = "ssl"
) -> ssl.SSLContext:
    """Return a context that trusts the given authority alone, or else those of the system."""
    location = given.get(f"{prefix}.ca.location", _SYSTEM_ROOTS)
    pem = given.get(f"{prefix}.ca.pem")
    if location == _SYSTEM_ROOTS and not pem:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with _naming(f"{prefix}.ca.pem" if pem else f"{prefix}.ca.location", where):
        if pem:
            context.load_verify_locations(cadata=pem)
        elif Path(location).is_dir():
            context.load_verify_locations(capath=location)
        else:
            context.load_verify_locations(cafile=location)
    return context


def _load_own_certificate(context: ssl.SSLContext, given: Mapping[str, str]) -> None:
    # With no password, OpenSSL would ask for a missing one on the terminal; with an empty one it
    # fails.
    password = given.get("ssl.key.password", "")
    with (
        _as_file(given, "ssl.certificate") as certificate,
        _as_file(given, "ssl.key") as key,
    ):
        context.load_cert_chain(certificate, key, password)


@contextmanager
def _as_file(given: Mapping[str, str], name: str) -> Iterator[str]:
    """Yield the file of `<name>.location`, or one of mode 0600 with the text of `<name>.pem`."""
    if location := given.get(f"{name}.location"):
        yield location
        return
    descriptor, path = tempfile.mkstemp(prefix="counterpoise-", suffix=".pem")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(given[f"{name}.pem"])
        yield path
    finally:
        Path(path).unlink()


def _first_name(given: Mapping[str, str], *names: str) -> str | None:
    return next((name for name in names if name in given), None)


@contextmanager
def _naming(key: str, where: str) -> Iterator[None]:
    """Raise ConfigurationError, with the setting, for what OpenSSL says in this block."""
    try:
        yield
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        complaint = f'"{key}" cannot be used: {_reason(key, error)}'
        raise ConfigurationError(where, (complaint,)) from None


def _reason(key: str, error: Exception) -> str:
    if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
        return str(error.strerror)
    if not key.startswith(("ssl.certificate", "ssl.key")):
        return "it holds no certificate in PEM form, which begins with -----BEGIN CERTIFICATE-----"
    if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
        return "the private key does not belong to the certificate"
    return (
        "certificate or private key are not in PEM form, or the key needs another "
        f'"ssl.key.password" ({getattr(error, "reason", None) or error})'
    )
