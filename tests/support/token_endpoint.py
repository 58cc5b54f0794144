"""An OIDC provider of a test: it signs tokens for known clients, and serves its public key.

with token_endpoint({"reader": "a secret"}) as endpoint:
    endpoint.token_url          # client credentials grant
    endpoint.keys_url           # for brokers (JWKS)
    endpoint.sign("reader")     # a token without asking
"""

import base64
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

ISSUER: Final = "the token endpoint of a test"
AUDIENCE: Final = "kafka"
LIFE_SECONDS: Final = 600


@dataclass
class TokenEndpoint:
    """`requests` has what was asked for: path and form of each request, without secrets."""

    secrets: Mapping[str, str]  # by client
    url: str = ""
    requests: list[tuple[str, dict[str, list[str]]]] = field(default_factory=list)
    _key: rsa.RSAPrivateKey = field(
        default_factory=lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048)
    )

    @property
    def token_url(self) -> str:
        return f"{self.url}/token"

    @property
    def keys_url(self) -> str:
        return f"{self.url}/keys"

    def static_url(self, client: str) -> str:
        """Return an address that gives a token of `client` to everybody."""
        return f"{self.url}/static/{client}"

    def sign(self, client: str, life_seconds: float = LIFE_SECONDS, **claims: Any) -> str:
        now = time.time()
        default = {"iss": ISSUER, "aud": AUDIENCE, "iat": int(now), "exp": int(now + life_seconds)}
        return jwt.encode(
            default | {"sub": client} | claims, self._key, "RS256", headers={"kid": "one"}
        )

    def keys(self) -> dict[str, Any]:
        key = jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        return {"keys": [key | {"kid": "one", "alg": "RS256", "use": "sig"}]}

    def answer(self, path: str, login: str, form: str) -> tuple[int, dict[str, Any]]:
        self.requests.append((path, parse_qs(form)))
        if path == "/keys":
            return 200, self.keys()
        if path.startswith("/static/"):
            return 200, {"access_token": self.sign(path.rpartition("/")[2])}
        if path == "/elsewhere":
            return 307, {}
        client, _, secret = base64.b64decode(login.removeprefix("Basic ")).decode().partition(":")
        if path != "/token" or not secret or self.secrets.get(client) != secret:
            return 401, {"error": "invalid_client"}
        return 200, {"access_token": self.sign(client), "expires_in": LIFE_SECONDS}


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, endpoint: TokenEndpoint, *args: Any) -> None:
        self._endpoint = endpoint
        super().__init__(*args)

    def do_GET(self) -> None:
        form = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        login = self.headers.get("Authorization", "")
        status, document = self._endpoint.answer(self.path, login, form)
        body = json.dumps(document).encode()
        self.send_response(status)
        if status == 307:
            self.send_header("Location", self._endpoint.token_url)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - the name that http.server calls

    def log_message(self, *_: object) -> None:
        """Write nothing to stderr."""


@contextmanager
def token_endpoint(secrets: Mapping[str, str]) -> Iterator[TokenEndpoint]:
    """Serve on loopback until the end of the block."""
    endpoint = TokenEndpoint(secrets)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, endpoint)) as server:
        endpoint.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield endpoint
        finally:
            server.shutdown()
            thread.join()
