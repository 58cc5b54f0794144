"""Which settings of librdkafka are understood, which values they take, and what is wrong with some.

    find_complaints({"security.protocol": "SSL", "ssl.ca.locaton": "/ca.pem"})
    # ['"ssl.ca.locaton" is unknown; did you mean "ssl.ca.location"?']

Values are accepted exactly as librdkafka accepts them (`true`, `t`, `1`, `false`, `f`, `0` in any
case; names of settings are case sensitive). A security setting that is unknown, misspelt, or would
have no effect is refused: what looks secured must be.

Limits: settings of consumers and producers (`group.id`) are neither read nor checked.
"""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Final
from urllib.parse import urlsplit

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
