"""Tokens for OAUTHBEARER: every source, when they are renewed, and what is said without one."""

import re
import socket
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import jwt
import pytest

from counterpoise.errors import ConfigurationError
from counterpoise.kafka_admin import tokens
from counterpoise.kafka_admin.connection import (
    ConnectionSettings,
    kafka_python_arguments,
    librdkafka_arguments,
)
from counterpoise.kafka_admin.tokens import TokenError, TokenSource
from tests.support.token_endpoint import TokenEndpoint, token_endpoint

BASE = {
    "bootstrap.servers": "a:9092",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[TokenEndpoint]:
    with token_endpoint({"reader": "hush-hush"}) as served:
        yield served


def oidc(endpoint: TokenEndpoint, **changes: str) -> dict[str, str]:
    return BASE | {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "reader",
        "sasl.oauthbearer.client.secret": "hush-hush",
        "sasl.oauthbearer.token.endpoint.url": endpoint.token_url,
        **{f"sasl.oauthbearer.{key.replace('_', '.')}": value for key, value in changes.items()},
    }


def source(extra: dict[str, str]) -> TokenSource:
    found = ConnectionSettings.parse(extra).tokens
    assert found is not None
    return found


def test_client_credentials_are_exchanged_once(endpoint: TokenEndpoint) -> None:
    endpoint.requests.clear()
    settings = ConnectionSettings.parse(oidc(endpoint, scope="kafka rw", extensions="a=b, c=d"))
    assert settings.tokens is not None
    first = settings.tokens.token()
    provider = kafka_python_arguments(settings)["sasl_oauth_token_provider"]
    assert provider.token() == first.text == settings.tokens.token().text
    assert provider.extensions() == {"a": "b", "c": "d"}
    assert settings.principal == "User:reader"
    form = {"grant_type": ["client_credentials"], "scope": ["kafka rw"]}
    assert endpoint.requests == [("/token", form)]
    assert librdkafka_arguments(settings)["sasl.oauthbearer.method"] == "oidc"
    for text in (repr(settings), repr(first), settings.without_secrets(f"{first.text} hush-hush")):
        assert first.text not in text
        assert "hush-hush" not in text


@pytest.mark.parametrize("where", ["token_file", "token_url"])
def test_a_token_that_is_there_serves_both_clients(
    endpoint: TokenEndpoint, where: str, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(endpoint.sign("reader") + "\n")
    place = {"token_file": str(file), "token_url": endpoint.static_url("reader")}[where]
    settings = ConnectionSettings.parse(BASE | {"sasl.oauthbearer.config": f"{where}={place}"})
    text, expires_at, principal, extensions = librdkafka_arguments(settings)["oauth_cb"]("")
    assert kafka_python_arguments(settings)["sasl_oauth_token_provider"].token() == text
    assert (principal, extensions) == ("reader", {})
    assert expires_at > time.time()


def test_a_token_is_renewed_before_its_end_and_kept_while_nobody_gives_another(
    endpoint: TokenEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    first, second = endpoint.sign("reader", 100), endpoint.sign("reader", 300)
    file.write_text(first)
    found = source(BASE | {"sasl.oauthbearer.config": f"token_file={file}"})
    started_at = time.time()
    assert found.token().text == first
    file.write_text(second)
    assert found.token().text == first
    monkeypatch.setattr(tokens.time, "time", lambda: started_at + 85)
    file.unlink()
    assert found.token().text == first
    file.write_text(second)
    assert found.token().text == second
    monkeypatch.setattr(tokens.time, "time", lambda: started_at + 301)
    with pytest.raises(TokenError, match="has expired; is it still renewed"):
        found.token()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"client_secret": "wrong-one"}, "/token answers 401: check .*client.secret"),
        ({"client_id": "nobody"}, "/token answers 401: check .*client.id"),
        ({"token_endpoint_url": "http://127.0.0.1:1/token"}, "does not answer .Connection refused"),
        ({"token_endpoint_url": "http://nowhere.invalid/"}, "does not answer"),
    ],
)
def test_no_token_says_where_why_and_what_to_check(
    endpoint: TokenEndpoint, changes: dict[str, str], says: str
) -> None:
    with pytest.raises(TokenError, match=says) as caught:
        source(oidc(endpoint, **changes)).token()
    assert str(caught.value).startswith("no token: ")
    assert not any(secret in str(caught.value) for secret in ("hush-hush", "wrong-one"))


@pytest.mark.parametrize("path", ["static/nobody", "static/reader", ""])
def test_what_stands_behind_the_question_mark_of_an_address_is_not_shown(
    endpoint: TokenEndpoint, path: str
) -> None:
    url = f"{endpoint.url}/{path}?code=s3cr3t"
    settings = ConnectionSettings.parse({**BASE, "sasl.oauthbearer.config": f"token_url={url}"})
    assert settings.tokens is not None
    try:
        settings.tokens.token()
    except TokenError as error:
        assert "s3cr3t" not in str(error) and endpoint.url in str(error)
    assert "s3cr3t" not in settings.without_secrets(f"GET {url} failed")


@contextmanager
def answering(raw: bytes) -> Iterator[str]:
    """Yield the address of a server that answers one connection with these bytes."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(raw)

        answered = pool.submit(answer)
        yield f"http://127.0.0.1:{server.getsockname()[1]}/token"
        answered.result()


@pytest.mark.parametrize(
    "raw",
    [
        b"\x15\x03\x01\x00\x02\x02\x46",  # TLS: an alert
        b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\n\r\n\xff\xfe",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200 + b"\r\n",
    ],
    ids=["not http", "cut off", "not text", "too many headers"],
)
def test_what_is_no_answer_of_a_token_endpoint_is_one_sentence(
    endpoint: TokenEndpoint, raw: bytes
) -> None:
    with answering(raw) as url, pytest.raises(TokenError) as caught:
        source(oidc(endpoint, token_endpoint_url=url)).token()
    assert re.fullmatch(
        r"no token: http://127.0.0.1:\d+/token (does not answer \(.+\): .+|holds no access_token)",
        str(caught.value),
    )
    assert str(caught.value).isprintable()


def test_a_redirect_is_not_followed(endpoint: TokenEndpoint) -> None:
    """The secret goes to the address that the settings name, and to no other."""
    endpoint.requests.clear()
    with pytest.raises(TokenError, match="answers 307"):
        source(oidc(endpoint, token_endpoint_url=f"{endpoint.url}/elsewhere")).token()
    assert [path for path, _ in endpoint.requests] == ["/elsewhere"]


@pytest.mark.parametrize("text", ["", "{}", '{"access_token": ', "two words", "\u00e9"])
def test_what_is_no_token_is_not_sent(text: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    with pytest.raises(TokenError, match=r"no token: .*token"):
        source(BASE | {"sasl.oauthbearer.config": f"token_file={file}"}).token()


def test_an_unsecured_token_names_its_principal() -> None:
    found = source(
        BASE
        | {
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": "principal=me lifeSeconds=60",
        }
    )
    claims = jwt.decode(found.token().text, options={"verify_signature": False})
    assert (claims["sub"], round(claims["exp"] - claims["iat"])) == ("me", 60)


def test_aws_signs_for_a_region_by_its_own_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in: it was never tried with AWS itself."""
    expires_at_ms = (time.time() + 900) * 1000

    class MSKAuthTokenProvider:
        @staticmethod
        def generate_auth_token(region: str) -> tuple[str, float]:
            if region != "eu-central-1":
                raise ValueError("a part of AKIASECRET")
            return "a-token-of-aws", expires_at_ms

    module = ModuleType("aws_msk_iam_sasl_signer")
    module.MSKAuthTokenProvider = MSKAuthTokenProvider  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", module)
    settings = ConnectionSettings.parse(
        BASE | {"sasl.oauthbearer.config": "aws_msk_region=eu-central-1"}
    )
    provider = kafka_python_arguments(settings)["sasl_oauth_token_provider"]
    assert provider.token() == "a-token-of-aws"
    assert librdkafka_arguments(settings)["oauth_cb"]("")[:2] == (
        "a-token-of-aws",
        expires_at_ms / 1000,
    )
    assert settings.principal == "User:PRINCIPAL"
    with pytest.raises(TokenError, match="AWS gives none for region nowhere") as caught:
        source(BASE | {"sasl.oauthbearer.config": "aws_msk_region=nowhere"}).token()
    assert "AKIASECRET" not in str(caught.value)
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(TokenError, match="install it beside Counterpoise"):
        source(BASE | {"sasl.oauthbearer.config": "aws_msk_region=eu-central-1"}).token()


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ({}, "token_file=PATH"),
        ({"sasl.oauthbearer.config": "token_file=a token_url=https://b"}, "token_file=PATH"),
        ({"sasl.oauthbearer.config": "eyJhbGciOiJub25lIn0.e30."}, "has a word that is not known"),
        ({"sasl.oauthbearer.config": "token_file="}, "token_file has no value"),
        ({"sasl.oauthbearer.config": "token_url=file:///etc/passwd"}, "begins with https://"),
        ({"sasl.oauthbearer.config": "token_url=https://me:x@b"}, "must not hold a password"),
        ({"sasl.oauthbearer.method": "oidc"}, '"sasl.oauthbearer.client.secret" is missing'),
        ({"sasl.oauthbearer.client.id": "x"}, "did you mean oidc"),
        ({"sasl.username": "x"}, "did you mean PLAIN or SCRAM-SHA-256"),
        ({"enable.sasl.oauthbearer.unsecure.jwt": "true"}, "principal=counterpoise"),
    ],
)
def test_settings_that_lead_to_no_token_are_refused(extra: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ConnectionSettings.parse(BASE | extra)
    assert says in str(caught.value)
    assert "eyJ" not in str(caught.value)
