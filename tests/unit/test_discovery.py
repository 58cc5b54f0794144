"""What discovery says about addresses where no Kafka answers; real sockets. See the integration tests, too."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from counterpoise.discovery import discover
from counterpoise.errors import ClusterUnreachableError
from counterpoise.kafka_admin import connect
from counterpoise.kafka_admin.connection import ConnectionSettings

Server = Callable[[Callable[[socket.socket], None]], str]


@pytest.fixture
def serve() -> Iterator[Server]:
    """Starts servers on loopback: what each does with a connection is the test's; returns host:port."""
    with ExitStack() as stack:

        def start(behave: Callable[[socket.socket], None]) -> str:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            thread = threading.Thread(target=accept, args=(listener, behave), daemon=True)
            thread.start()
            stack.callback(thread.join, 5)
            stack.callback(listener.shutdown, socket.SHUT_RDWR)  # wakes accept up
            return f"127.0.0.1:{listener.getsockname()[1]}"

        def accept(listener: socket.socket, behave: Callable[[socket.socket], None]) -> None:
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

        yield start


def hang_up(connection: socket.socket) -> None:
    connection.recv(1)


def speak_http(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def alert_as_tls_does(connection: socket.socket) -> None:
    """A TLS server's answer to a client without a certificate, or to plain text: alert 40, handshake failure."""
    connection.recv(4096)
    connection.sendall(bytes((21, 3, 3, 0, 2, 2, 40)))


def reasons(*addresses: str, **settings: str) -> list[str]:
    extra = {"bootstrap.servers": ",".join(addresses)} | {k.replace("_", "."): v for k, v in settings.items()}
    with pytest.raises(ClusterUnreachableError) as caught:
        discover(connect(ConnectionSettings.parse(extra)))
    assert [address for address, _ in caught.value.attempts] == list(addresses)
    assert "hush-hush" not in str(caught.value)
    return [reason for _, reason in caught.value.attempts]


def test_names_and_ports_that_lead_nowhere() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed_soon:
        port = closed_soon.getsockname()[1]
    unresolved, refused = reasons("no-such-host.invalid:9092", f"127.0.0.1:{port}")
    assert 'the name "no-such-host.invalid" does not resolve' in unresolved
    assert "refused" in refused


def test_servers_that_are_no_kafka(serve: Server) -> None:
    hung_up, http = reasons(serve(hang_up), serve(speak_http))
    assert "does not answer as a Kafka broker does" in hung_up
    assert "does not answer as a Kafka broker does" in http


def test_a_plaintext_client_at_a_tls_port_is_told_so(serve: Server) -> None:
    (reason,) = reasons(serve(alert_as_tls_does))
    assert 'it speaks TLS, but "security.protocol" is PLAINTEXT' in reason


def test_a_tls_client_at_a_port_without_tls_is_told_so(serve: Server) -> None:
    (reason,) = reasons(serve(hang_up), security_protocol="SSL")
    assert 'it does not speak TLS, but "security.protocol" is SSL' in reason


def test_secrets_stay_out_of_the_reasons(serve: Server) -> None:
    sasl = {"sasl_mechanism": "PLAIN", "sasl_username": "me", "sasl_password": "hush-hush"}
    (reason,) = reasons(serve(hang_up), security_protocol="SASL_PLAINTEXT", **sasl)
    assert reason
