"""A webhook and an SMTP server on 127.0.0.1 that keep what they get, and fail when they shall.

with Webhook() as hook: hook.url, hook.bodies, hook.answers = [500]
with MailServer() as mail: mail.port, mail.messages
"""

import json
import socketserver
import threading
from email import message_from_bytes
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


class _Server:
    """What both have: a thread that serves until the end."""

    server: socketserver.TCPServer

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()


class Webhook(_Server):
    """`answers` are the status codes of the next requests; then 200."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []
        self.paths: list[str] = []
        self.answers: list[int] = []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = hook.answers.pop(0) if hook.answers else 200
                hook.paths.append(self.path)
                if status == 200:
                    hook.bodies.append(json.loads(body))
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", f"{hook.url}/elsewhere")
                self.end_headers()

            def log_message(self, *_arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class MailServer(_Server):
    """Speaks as much of RFC 5321 as smtplib needs."""

    def __init__(self) -> None:
        self.messages: list[tuple[tuple[str, ...], Message]] = []  # recipients, message
        mail = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                recipients: list[str] = []
                self.answer("220 ready")
                while line := self.rfile.readline().decode().strip():
                    verb = line.split()[0].upper()
                    if verb == "RCPT":
                        recipients.append(line.partition(":")[2].strip().strip("<>"))
                    if verb == "DATA":
                        self.answer("354 go on")
                        mail.messages.append((tuple(recipients), self.read_message()))
                    if verb == "QUIT":
                        self.answer("221 bye")
                        return
                    self.answer("250 ok")

            def read_message(self) -> Message:
                lines = []
                while (line := self.rfile.readline()) != b".\r\n":
                    lines.append(line)
                return message_from_bytes(b"".join(lines))

            def answer(self, text: str) -> None:
                self.wfile.write(f"{text}\r\n".encode())

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True

        self.server = Server(("127.0.0.1", 0), Handler)
