"""Tokens for SASL/OAUTHBEARER, fetched once and kept until they are old, for both Kafka clients.

    source = TokenSource({"sasl.oauthbearer.config": "token_file=/run/secrets/kafka-token"})
    source.token().text

A token comes from an OIDC provider (`sasl.oauthbearer.method` oidc, client credentials), or from
what `sasl.oauthbearer.config` names: a file, an address, AWS (MSK IAM, by the package
aws-msk-iam-sasl-signer-python), or ourselves (`enable.sasl.oauthbearer.unsecure.jwt`, for tests).

Limits: what a token says is read, never verified; that is the brokers' work. AWS was not tried, for
want of an account.
"""

import base64
import http.client
import json
import re
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from kafka.net.sasl.oauth import AbstractTokenProvider

from counterpoise.errors import ClusterError, InputError
from counterpoise.input_files import ONE_LINE, read_input_text
from counterpoise.kafka_admin.connection import (
    CLIENT_ID,
    CLIENT_SECRET,
    METHOD,
    TOKEN_CONFIG,
    TOKEN_ENDPOINT,
    UNSECURED_TOKEN,
    choice_of,
    https_context,
    is_true,
    token_words,
)

_FETCH_SECONDS: Final = 5.0
_MAX_BYTES: Final = 1_000_000  # of a response
_DEFAULT_LIFE_SECONDS: Final = 300.0  # of a token that does not say how long it is valid
_UNSECURED_LIFE_SECONDS: Final = 3600.0
_RENEWED_AFTER: Final = 0.8  # of a token's life, as librdkafka does


class TokenError(ClusterError):
    """No token could be had; the message says from where, and why."""


@dataclass(frozen=True, slots=True)
class Token:
    text: str
    expires_at: float  # seconds since 1970
    principal: str  # whom it names; "" where it cannot be read

    def __repr__(self) -> str:
        return f"Token(for {self.principal or 'an unknown principal'})"


class TokenSource:
    """Where the tokens of one connection come from. Threads may share it."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._renew_at = 0.0

    def token(self) -> Token:
        """Return a valid token, the last one while it is fresh enough. Raises TokenError."""
        with self._lock:
            now = time.time()
            if self._token is None or now >= self._renew_at:
                try:
                    self._token = self._fetch()
                except TokenError:
                    if self._token is None or now >= self._token.expires_at:
                        raise
                    # The last token is still good: the next call tries again.
                    return self._token
                self._renew_at = now + (self._token.expires_at - now) * _RENEWED_AFTER
            return self._token

    def for_librdkafka(self, _config: str) -> tuple[str, float, str, dict[str, str]]:
        """Return what librdkafka's callback wants: token, end, principal, extensions."""
        token = self.token()
        return token.text, token.expires_at, token.principal, self.extensions

    @property
    def principal(self) -> str:
        """Return whom the last token names, as `User:alice`; "" where that is not known."""
        return f"User:{self._token.principal}" if self._token and self._token.principal else ""

    @property
    def extensions(self) -> dict[str, str]:
        """Return what is sent beside the token, such as Confluent Cloud's `logicalCluster`."""
        text = self._settings.get("sasl.oauthbearer.extensions", "")
        pairs = [pair.strip().partition("=") for pair in text.split(",")]
        return {name: value for name, _, value in pairs if name}

    def without_token(self, text: str) -> str:
        """Return a client's text without the token."""
        return text.replace(self._token.text, "***") if self._token else text

    def _fetch(self) -> Token:
        words = token_words(self._settings)
        if choice_of(self._settings, METHOD, "default") == "oidc":
            return _by_client_credentials(self._settings)
        if is_true(self._settings, UNSECURED_TOKEN, "false"):
            return _unsecured(words)
        if path := words.get("token_file"):
            return _from_file(path)
        if url := words.get("token_url"):
            return _from_url(url, https_context(self._settings))
        return _from_aws(words["aws_msk_region"])


# -- sources


def _by_client_credentials(settings: Mapping[str, str]) -> Token:
    """Return a token by OAuth's client credentials grant (RFC 6749, 4.4), as librdkafka asks."""
    form = {"grant_type": "client_credentials"}
    if scope := settings.get("sasl.oauthbearer.scope"):
        form["scope"] = scope
    login = f"{settings[CLIENT_ID]}:{settings[CLIENT_SECRET]}"
    url = settings[TOKEN_ENDPOINT]
    request = urllib.request.Request(
        url,
        data=urlencode(form).encode(),
        headers={
            "Authorization": f"Basic {base64.b64encode(login.encode()).decode()}",
            "Accept": "application/json",
        },
    )
    hint = f'check "{CLIENT_ID}", "{CLIENT_SECRET}" and "sasl.oauthbearer.scope"'
    return _token_in(_answer(request, https_context(settings), hint), _shown(url))


def _from_url(url: str, context: ssl.SSLContext) -> Token:
    request = urllib.request.Request(url, headers={"Accept": "application/json, text/plain"})
    hint = f'check token_url in "{TOKEN_CONFIG}"'
    return _token_in(_answer(request, context, hint), _shown(url))


def _from_file(path: str) -> Token:
    try:
        text = read_input_text(Path(path), f'token_file in "{TOKEN_CONFIG}":', ONE_LINE)
    except InputError as error:
        raise TokenError(f"no token: {error}") from None
    return _token_in(text, path)


def _from_aws(region: str) -> Token:
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # type: ignore[import-not-found]
    except ImportError:
        raise TokenError(
            "no token: aws_msk_region needs the package aws-msk-iam-sasl-signer-python; install it "
            "beside Counterpoise"
        ) from None
    try:
        text, expires_at_ms = MSKAuthTokenProvider.generate_auth_token(region)
    except Exception as error:  # noqa: BLE001 - botocore's: no credentials, no network, no region
        # Its own words may hold parts of a key.
        raise TokenError(
            f"no token: AWS gives none for region {region} ({type(error).__name__}); check the "
            "AWS credentials of this process"
        ) from None
    return Token(text, expires_at_ms / 1000, "")


def _unsecured(words: Mapping[str, str]) -> Token:
    """Return a token without signature, which brokers accept in tests only (KIP-255)."""
    now = time.time()
    try:
        expires_at = now + float(words.get("lifeSeconds", _UNSECURED_LIFE_SECONDS))
    except ValueError:
        raise TokenError(f'no token: "{TOKEN_CONFIG}": lifeSeconds is no number') from None
    claim = words.get("principalClaimName", "sub")
    claims = {claim: words["principal"], "iat": now, "exp": expires_at}
    parts = [_encoded({"alg": "none"}), _encoded(claims), ""]
    return Token(".".join(parts), expires_at, words["principal"])


# -- responses


def _answer(request: urllib.request.Request, context: ssl.SSLContext, hint: str) -> str:
    """Return the body of the response. Raises TokenError, without anything secret."""
    url = _shown(request.full_url)
    handlers = (urllib.request.HTTPSHandler(context=context), _NoRedirects())
    try:
        opener = urllib.request.build_opener(*handlers)
        with opener.open(request, timeout=_FETCH_SECONDS) as response:
            return str(response.read(_MAX_BYTES).decode())
    except urllib.error.HTTPError as error:
        with error:
            raise TokenError(f"no token: {url} answers {error.code}: {hint}") from None
    except http.client.HTTPException:  # its own words may hold what the other side wrote
        said = "what came back is no HTTP that can be read; does it want https?"
        raise TokenError(f"no token: {url} does not answer ({said}): {hint}") from None
    except (OSError, ValueError) as error:  # URLError is an OSError
        cause = getattr(error, "reason", error)
        reason = getattr(cause, "verify_message", None) or getattr(cause, "strerror", None)
        raise TokenError(f"no token: {url} does not answer ({reason or cause}): {hint}") from None


def _shown(url: str) -> str:
    """Return an address for messages, without what stands behind its `?`: it may be a key."""
    return re.split("[?#]", url, maxsplit=1)[0]


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: it would take the client's secret to another address."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _token_in(body: str, source: str) -> Token:
    """Return the token in a response or a file: `{"access_token": ...}`, or the token alone."""
    text = body.strip()
    life_seconds = _DEFAULT_LIFE_SECONDS
    if text.startswith("{"):
        try:
            document = json.loads(text)
            text = str(document["access_token"])
            life_seconds = float(document.get("expires_in") or life_seconds)
        except (ValueError, TypeError, KeyError, RecursionError):
            raise TokenError(f"no token: {source} holds no access_token") from None
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise TokenError(f"no token: what {source} holds is none")
    claims = _claims(text)
    expires_at = claims.get("exp")
    if not isinstance(expires_at, int | float):
        expires_at = time.time() + life_seconds
    if expires_at <= time.time():
        raise TokenError(f"no token: the one of {source} has expired; is it still renewed?")
    return Token(text, float(expires_at), str(claims.get("sub", "")))


def _claims(token: str) -> dict[str, Any]:
    """Return what a JWT says; {} for another kind of token."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, IndexError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _encoded(value: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


# -- Gives our tokens to kafka-python, whose interface wants a subclass
#
# KafkaAdminClient(sasl_oauth_token_provider=TokenProvider(source), ...)


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """See `TokenSource`."""

    def __init__(self, source: TokenSource) -> None:
        super().__init__()
        self._source = source

    def token(self) -> str:
        return self._source.token().text

    def extensions(self) -> dict[str, Any]:
        return dict(self._source.extensions)
