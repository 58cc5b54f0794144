"""A server that speaks as much of S3 as the store needs, and can be slow, throttle or fail.

    with s3_server() as server:
        store = Store(server.uri)
        server.trouble = [slow_down] * 3        # what the next requests are answered with

Limits: one bucket, no checks of signatures. tests/nightly runs the main job on a real
implementation.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET: Final = "bucket"
Trouble = Callable[["_Handler"], bool]  # returns whether it has answered


@dataclass
class S3Server:
    address: str = ""
    objects: dict[str, bytes] = field(default_factory=dict)
    trouble: list[Trouble] = field(default_factory=list)  # of the next requests, one each
    always: Trouble | None = None
    requests: list[str] = field(default_factory=list)

    @property
    def uri(self) -> str:
        options = f"endpoint_override={self.address}&scheme=http&region=eu-central-1"
        return f"s3://{BUCKET}/store?{options}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    state: S3Server

    def handle_error(self, *_: object) -> None:
        """Connections that a client or a test breaks off are no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def answer(
        self, status: int, body: bytes = b"", length: int | None = None, **headers: str
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def error(self, status: int, code: str) -> None:
        text = f"<Error><Code>{code}</Code><Message>{code} of a test</Message></Error>"
        self.answer(status, text.encode(), Content_Type="application/xml")

    def _do(self) -> None:
        state = self.server.state
        body = self._body()
        parts = urlsplit(self.path)
        key = unquote(parts.path).removeprefix(f"/{BUCKET}").removeprefix("/")
        state.requests.append(f"{self.command} {key}")
        trouble = state.trouble.pop(0) if state.trouble else state.always
        if trouble and trouble(self):
            return
        query = parse_qs(parts.query, keep_blank_values=True)
        if "list-type" in query:
            self._list(query.get("prefix", [""])[0], query.get("delimiter", [""])[0])
        elif self.command == "PUT":
            state.objects[key] = body
            self.answer(200, ETag=f'"{md5(body).hexdigest()}"')
        elif self.command == "DELETE":
            state.objects.pop(key, None)
            self.answer(204)
        elif not key:
            self.answer(200)  # the bucket
        elif key in state.objects:
            self._get(state.objects[key])
        else:
            self.error(404, "NoSuchKey")

    def _body(self) -> bytes:
        """Return what was sent: in chunks, and in those again chunks with a checksum behind."""
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        is_chunked_again = self.headers.get("Content-Encoding", "") == "aws-chunked"
        return _unchunked(body) if is_chunked_again else body

    do_GET = do_HEAD = do_PUT = do_DELETE = _do  # noqa: N815 - names of the base class

    def _get(self, data: bytes) -> None:
        headers = {"ETag": '"x"', "Last_Modified": formatdate(usegmt=True)}
        if wanted := self.headers.get("Range"):
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            end = min(int(last or len(data) - 1), len(data) - 1)
            headers["Content_Range"] = f"bytes {first}-{end}/{len(data)}"
            self.answer(206, data[int(first) : end + 1], **headers)
        else:
            length = len(data)
            self.answer(200, data, length, **headers)

    def _list(self, prefix: str, delimiter: str) -> None:
        keys = sorted(key for key in self.server.state.objects if key.startswith(prefix))
        rows = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.server.state.objects[key])}</Size>"
            "<LastModified>2026-01-31T12:00:00.000Z</LastModified></Contents>"
            for key in keys
            if not delimiter or delimiter not in key[len(prefix) :]
        )
        count = f"<KeyCount>{len(keys)}</KeyCount><IsTruncated>false</IsTruncated>"
        text = (
            f"<ListBucketResult><Prefix>{escape(prefix)}</Prefix>{count}{rows}</ListBucketResult>"
        )
        self.answer(200, text.encode(), Content_Type="application/xml")


def no_trouble(_: _Handler) -> bool:
    return False


def slow_down(handler: _Handler) -> bool:
    """Answer as S3 does to too many requests."""
    handler.error(503, "SlowDown")
    return True


def internal_error(handler: _Handler) -> bool:
    handler.error(500, "InternalError")
    return True


def access_denied(handler: _Handler) -> bool:
    handler.error(403, "AccessDenied")
    return True


def hang_up(handler: _Handler) -> bool:
    """Close the connection without an answer."""
    handler.close_connection = True
    return True


def wait(seconds: float) -> Trouble:
    """Answer as always, and late."""

    def answer_late(_: _Handler) -> bool:
        threading.Event().wait(seconds)
        return False

    return answer_late


def _unchunked(body: bytes) -> bytes:
    """Return what an upload with a checksum behind it holds."""
    found, rest = b"", body
    while rest:
        head, _, rest = rest.partition(b"\r\n")
        size = int(head.split(b";")[0], 16)
        if size == 0:
            break
        found, rest = found + rest[:size], rest[size + 2 :]
    return found


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Yield a server on a free port of this machine."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.state = S3Server(f"127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
