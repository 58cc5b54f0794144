"""What listens at an address, found out without a client: names, TLS, SASL mechanisms.

    speaks_tls("kafka-1:9093")     # True, False, or None when nothing comes back
    no_response_reason("kafka-1:9093", settings)
    # 'it speaks TLS, but "security.protocol" is PLAINTEXT; set SSL or SASL_SSL'

Nothing but a handshake is sent, and no certificate is trusted or refused.
"""

import socket
import ssl
import struct
from typing import Final

from counterpoise.kafka_admin.connection import ConnectionSettings, join_address, split_address
from counterpoise.model.connectivity import NOT_AN_ADDRESS

CONNECT_TIMEOUT_SECONDS: Final = 3.0
NO_CONNECTION: Final = (
    f"no TCP connection within {CONNECT_TIMEOUT_SECONDS:g} s; is a firewall in the way?"
)
_SASL_HANDSHAKE: Final = 17  # the API key of the request
_UNSUPPORTED_MECHANISM: Final = 33
_FAMILIES: Final = {"v4": socket.AF_INET, "v6": socket.AF_INET6}


def resolve(host: str, port: int, family: str = "any") -> tuple[str, ...]:
    """Return the IP addresses of a name in the resolver's order; `family` is any, v4 or v6.

    Raises OSError with the reason.
    """
    try:
        split_address(join_address(host, port))  # brokers can advertise any text
        if not host.isprintable():
            raise ValueError("it has characters that no name has")
        address_family = _FAMILIES.get(family, socket.AF_UNSPEC)
        found = socket.getaddrinfo(host, port, address_family, socket.SOCK_STREAM)
    except OSError as error:
        raise OSError(None, f'the name "{host}" does not resolve ({error.strerror})') from None
    except ValueError as error:  # a label that is too long, for one
        reason = error if 0 < port < 65536 else "ports are from 1 to 65535"
        raise OSError(None, f'"{host}" and port {port} {NOT_AN_ADDRESS}: {reason}') from None
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


def no_response_reason(address: str, settings: ConnectionSettings) -> str:
    """Say why an address that accepts connections does not respond, as far as can be found out."""
    protocol = settings.security_protocol
    uses_tls, uses_sasl = settings.uses_tls, protocol.startswith("SASL")
    if not uses_tls and speaks_tls(address):
        wanted = "SASL_SSL" if uses_sasl else "SSL or SASL_SSL"
        return f'it speaks TLS, but "security.protocol" is {protocol}; set {wanted}'
    if not uses_sasl and (mechanisms := _sasl_mechanisms(address, uses_tls)):
        wanted = "SASL_SSL" if uses_tls else "SASL_PLAINTEXT"
        return f'it wants SASL ({mechanisms}), but "security.protocol" is {protocol}; set {wanted}'
    return (
        "it accepts connections, but does not answer as a Kafka broker does to "
        f'"security.protocol" {protocol}'
    )


def no_tls_reason(settings: ConnectionSettings) -> str:
    """Say that an address does not speak TLS, where the settings want it."""
    protocol = settings.security_protocol
    without_tls = protocol.replace("SASL_SSL", "SASL_PLAINTEXT").replace("SSL", "PLAINTEXT")
    return (
        f'it does not speak TLS, but "security.protocol" is {protocol}; name the port of a TLS '
        f"listener, or set {without_tls}"
    )


def _unverified_context() -> ssl.SSLContext:
    """Return a context that trusts everybody: only to find out which protocol is spoken."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def speaks_tls(address: str) -> bool | None:
    """Return whether a TLS handshake is understood there; None when nothing comes back."""
    try:
        with socket.create_connection(split_address(address), CONNECT_TIMEOUT_SECONDS) as plain:
            _unverified_context().wrap_socket(plain).close()
    except ssl.SSLError as error:
        # A server that requires a client certificate speaks TLS, too.
        return "ALERT" in str(error.reason or "")
    except TimeoutError:
        return None
    except OSError:
        return False
    return True


def _sasl_mechanisms(address: str, uses_tls: bool) -> str:
    """Return the mechanisms of a SASL listener, as "PLAIN, SCRAM-SHA-256"; "" for another listener.

    A SaslHandshake without a mechanism is refused with the list of mechanisms.
    """
    # API version 1, correlation id 1, no client id; then an empty mechanism.
    request = struct.pack(">hhihh", _SASL_HANDSHAKE, 1, 1, -1, 0)
    try:
        with socket.create_connection(split_address(address), CONNECT_TIMEOUT_SECONDS) as plain:
            connection = _unverified_context().wrap_socket(plain) if uses_tls else plain
            with connection:
                connection.sendall(struct.pack(">i", len(request)) + request)
                response = connection.recv(4096)
        _, _, error_code, count = struct.unpack_from(">iihi", response)
        if error_code != _UNSUPPORTED_MECHANISM:
            return ""
        return ", ".join(_read_strings(response[struct.calcsize(">iihi") :], count))
    except (OSError, struct.error, UnicodeDecodeError):
        return ""


def _read_strings(data: bytes, count: int) -> list[str]:
    """Read `count` strings, each after its length in two bytes."""
    strings = []
    for _ in range(count):
        (length,) = struct.unpack_from(">h", data)
        strings.append(data[2 : 2 + length].decode())
        data = data[2 + length :]
    return strings
