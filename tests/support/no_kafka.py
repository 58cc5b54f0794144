"""Servers on loopback that are no Kafka; a test chooses what each does with a connection.

with servers() as serve:
    address = serve(hang_up)       # host:port
    address = serve(answering(b"HTTP/1.1 400 Bad Request\\r\\n\\r\\n"))
"""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

Behaviour = Callable[[socket.socket], None]
Serve = Callable[[Behaviour], str]

HTTP_RESPONSE = b"HTTP/1.1 400 Bad Request\r\n\r\n"
# Handshake failure: for a client without a certificate, or without TLS.
TLS_ALERT = bytes((21, 3, 3, 0, 2, 2, 40))


@contextmanager
def servers() -> Iterator[Serve]:
    """Yield a function that starts a server; all end with the block, after 5 s at most."""
    with ExitStack() as stack:

        def start(behave: Behaviour) -> str:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            thread = threading.Thread(target=_accept, args=(listener, behave), daemon=True)
            thread.start()
            stack.callback(thread.join, 5)
            stack.callback(listener.shutdown, socket.SHUT_RDWR)  # wakes accept up
            return f"127.0.0.1:{listener.getsockname()[1]}"

        yield start


def _accept(listener: socket.socket, behave: Behaviour) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            connection.settimeout(5)
            try:
                behave(connection)
            except OSError:
                continue


def hang_up(connection: socket.socket) -> None:
    """Close the connection at the first byte."""
    connection.recv(1)


def never_respond(connection: socket.socket) -> None:
    """Keep the connection open, without a response, until the client gives up."""
    connection.recv(4096)
    connection.recv(4096)


def respond_with(data: bytes) -> Behaviour:
    """Respond with these bytes to any request, then close the connection."""

    def answer(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(data)

    return answer
