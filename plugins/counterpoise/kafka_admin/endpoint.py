"""Connects to one address stage by stage, as a client does, and times each stage.

    check = EndpointChecker(settings).check("kafka-1", 9092, expected_broker=1)
    check.failed_stage    # None: a Kafka broker responds there

The stages are resolve, TCP, TLS, SASL, ApiVersions and Metadata, all on one connection. So the
result is about whoever listens at this address, whatever it advertises. No topic is requested in a
way that could create it.

A failed stage says why, and what to do: in the same words whichever client would have failed.
"""

import errno
import json
import logging
import re
import socket
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property, partial
from ipaddress import ip_address
from typing import Any, Final

import kafka.errors as kafka_errors
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from cryptography import x509
from cryptography.x509.oid import NameOID
from kafka.protocol.admin import DescribeConfigsRequest

from counterpoise.errors import ClusterError, ConfigurationError
from counterpoise.kafka_admin.address_connection import (
    MAX_BYTES,
    AddressConnection,
    AuthenticationRefusedError,
    config_value,
    read_metadata,
)
from counterpoise.kafka_admin.connection import (
    ConnectionSettings,
    join_address,
    librdkafka_arguments,
    split_address,
    ssl_context,
)
from counterpoise.model.connectivity import (
    NO_RESPONSE,
    NOT_AN_ADDRESS,
    WALK_CONFIGS,
    Certificate,
    ConnectionStage,
    EndpointCheck,
    StageResult,
)
from counterpoise.model.kafka import BrokerDescription
from counterpoise.model.words import pluralize
from counterpoise.units import format_moment

RESPONSE_SECONDS: Final = 5.0
CONTROLLER_RESPONDS: Final = (
    "a controller answers there, not a broker; name the port of a broker's listener for clients"
)
_BROKER_RESOURCE: Final = 4  # the protocol's number of that resource type
_INVALID_REQUEST: Final = 42
_NO_BROKER: Final = -1
_MAX_IPS_IN_PARALLEL: Final = 16
_NO_WAY_FROM_HERE: Final = (errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
# "Unexpected broker id, expected 1 or empty string, but received 2": broker 1 responded.
_ACTUAL_ID: Final = re.compile(r"\bexpected (\d{1,9})\b")


class _StageFailedError(Exception):
    """A stage failed, and its result is recorded."""


class _Attempt:
    """One address, and what has come of it so far."""

    def __init__(self, host: str, port: int, *, every_ip: bool = False) -> None:
        self.host, self.port = host, port
        self.every_ip = every_ip  # try those behind the first that accepts, too
        self.check = EndpointCheck(join_address(host, port), ())

    def note(self, **found: Any) -> None:
        self.check = replace(self.check, **found)


class EndpointChecker:
    """Checks addresses with one set of settings; threads may share it.

    Raises ConfigurationError when the settings' certificates cannot be read.
    """

    def __init__(
        self, settings: ConnectionSettings, *, response_seconds: float = RESPONSE_SECONDS
    ) -> None:
        self._settings = settings
        self._response_seconds = response_seconds
        self._tls = self._tls_context() if settings.uses_tls else None
        # In a cluster of a thousand brokers each responds with the same thousand: kept only once.
        self._brokers: dict[tuple[BrokerDescription, ...], tuple[BrokerDescription, ...]] = {}

    def check(
        self,
        host: str,
        port: int,
        *,
        expected_broker: int | None = None,
        topics: Sequence[str] = (),
        every_ip: bool = False,
    ) -> EndpointCheck:
        """Return the results of all stages; what is wrong at the address is no exception.

        `topics`: whose partitions the metadata should include. With `every_ip` each address of the
        name is tried, also those behind the first that accepts connections.
        """
        attempt = _Attempt(host, port, every_ip=every_ip)
        try:
            with closing(self._connect(attempt)) as connection:
                self._request_metadata(attempt, connection, topics)
                self._read_identity(attempt, connection, expected_broker)
        except _StageFailedError:
            pass
        return attempt.check

    def connect(self, address: str, *, max_bytes: int = MAX_BYTES) -> AddressConnection:
        """Return a connection that has passed all stages before Metadata.

        Raises ClusterError with the failed stage and its reason.
        """
        attempt = _Attempt(*split_address(address))
        try:
            return self._connect(attempt, max_bytes)
        except _StageFailedError:
            raise ClusterError(f"{address}: {attempt.check.failure}") from None

    def certificate_at(self, host: str, port: int) -> Certificate | None:
        """Return the certificate that a listener presents, trusted or not; None where none is seen.

        Nothing is sent there.
        """
        family = self._settings.librdkafka.get("broker.address.family", "any")
        try:
            return self._read_untrusted_certificate(host, port, resolve(host, port, family))
        except OSError:
            return None

    # -- the stages

    def _connect(self, attempt: _Attempt, max_bytes: int = MAX_BYTES) -> AddressConnection:
        address = attempt.check.address
        connection = AddressConnection(
            self._open_socket(attempt), address, self._settings, max_bytes
        )
        try:
            if mechanism := self._settings.sasl_mechanism:
                with self._stage(attempt, ConnectionStage.SASL) as details:
                    connection.authenticate(self._response_seconds)
                    who = self._settings.principal.removeprefix("User:")
                    details.append(f"{mechanism} as {who}")
            with self._stage(attempt, ConnectionStage.API_VERSIONS) as details:
                connection.request_api_versions(self._response_seconds)
                if connection.is_controller:
                    raise ClusterError(CONTROLLER_RESPONDS)
                version = ".".join(map(str, connection.versions.broker_version))
                details.append(f"as Kafka {version} or later")
        except BaseException:
            connection.close()
            raise
        return connection

    def _open_socket(self, attempt: _Attempt) -> socket.socket:
        with self._stage(attempt, ConnectionStage.RESOLVE) as details:
            family = self._settings.librdkafka.get("broker.address.family", "any")
            ips = resolve(attempt.host, attempt.port, family)
            attempt.note(ips=ips)
            details.append(", ".join(ips))
        with self._stage(attempt, ConnectionStage.TCP) as details:
            connected, failures = _connect_to_first(ips, attempt.port, every=attempt.every_ip)
            attempt.note(dead_ips=_dead_among(failures))
            reasons = [f"{ip}: {_error_text(error)}" for ip, error in failures.items()]
            if connected is None:
                alone = reasons[0].partition(": ")[2]
                raise OSError(None, alone if len(reasons) == 1 else "; ".join(reasons))
            ip = connected.getpeername()[0]
            details.append("; ".join([ip, *(f"not {reason}" for reason in reasons)]))
        if self._tls is None:
            return connected
        try:
            with self._stage(attempt, ConnectionStage.TLS) as details:
                secured = self._tls_handshake(attempt, connected, self._tls)
                presented = attempt.check.certificate
                subject = presented.subject if presented else ""
                details.append(f"{secured.version()}, {subject}".strip(", "))
        except BaseException:
            connected.close()
            raise
        return secured

    @cached_property
    def _untrusted_tls(self) -> ssl.SSLContext:
        return _trusting(self._tls_context())

    def _tls_context(self) -> ssl.SSLContext:
        return ssl_context(self._settings.librdkafka, where=self._settings.where)

    def _tls_handshake(
        self, attempt: _Attempt, connected: socket.socket, verifying: ssl.SSLContext
    ) -> ssl.SSLSocket:
        connected.settimeout(CONNECT_TIMEOUT_SECONDS)
        try:
            secured = verifying.wrap_socket(connected, server_hostname=attempt.host)
        except ssl.SSLError:
            # The certificate is read once more without trust, to name what is wrong with it;
            # nothing is sent over that connection.
            ips = attempt.check.ips
            certificate = self._read_untrusted_certificate(attempt.host, attempt.port, ips)
            attempt.note(certificate=certificate)
            raise
        attempt.note(certificate=presented_certificate(secured, attempt.host))
        return secured

    def _read_untrusted_certificate(
        self, host: str, port: int, ips: Sequence[str]
    ) -> Certificate | None:
        connected, _ = _connect_to_first(ips, port)
        if connected is None:
            return None
        connected.settimeout(CONNECT_TIMEOUT_SECONDS)
        try:
            with (
                closing(connected),
                self._untrusted_tls.wrap_socket(connected, server_hostname=host) as secured,
            ):
                return presented_certificate(secured, host)
        except (OSError, ValueError):
            return None

    def _request_metadata(
        self, attempt: _Attempt, connection: AddressConnection, topics: Sequence[str]
    ) -> None:
        with self._stage(attempt, ConnectionStage.METADATA) as details:
            metadata = read_metadata(connection, topics, self._response_seconds)
            brokers = self._brokers.setdefault(metadata.brokers, metadata.brokers)
            attempt.note(metadata=replace(metadata, brokers=brokers))
            live = pluralize(len(brokers), "broker")
            details.append(f"{live} live in cluster {metadata.cluster_id}")

    def _read_identity(
        self, attempt: _Attempt, connection: AddressConnection, expected: int | None
    ) -> None:
        """Find out which broker responds here, whether it is `expected`, and read its configs.

        A broker describes only its own configs. Asked for those of another broker, it refuses with
        a message that has its own id.
        """
        asked = _NO_BROKER if expected is None else expected
        result = self._own_configs(connection, asked)
        message = getattr(result, "error_message", None) or ""
        if result is not None and result.error_code == _INVALID_REQUEST:
            if expected is not None and "Unexpected broker id" in message:
                attempt.note(is_expected_broker=False)
            actual = _ACTUAL_ID.search(message)
            if actual is None:
                return
            attempt.note(actual_broker_id=int(actual[1]))
            result = self._own_configs(connection, int(actual[1]))
        elif result is not None and result.error_code == 0 and expected is not None:
            attempt.note(is_expected_broker=True, actual_broker_id=expected)
        if result is not None and result.error_code == 0:
            attempt.note(configs={entry.name: config_value(entry) for entry in result.configs})

    def _own_configs(self, connection: AddressConnection, broker_id: int) -> Any:
        """Return the result for one broker's configs; None where nothing comes back."""
        resource = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=_BROKER_RESOURCE,
            resource_name=str(broker_id),
            configuration_keys=list(WALK_CONFIGS),
        )
        try:
            request = DescribeConfigsRequest(resources=[resource])
            return connection.send(request, self._response_seconds).results[0]
        except (OSError, kafka_errors.KafkaError, IndexError):
            return None

    # -- inside

    @contextmanager
    def _stage(self, attempt: _Attempt, stage: ConnectionStage) -> Iterator[list[str]]:
        """Time a stage and record its result; the block appends what it found.

        Raises _StageFailedError when the block fails.
        """
        started_at = time.monotonic()
        details: list[str] = []
        stages = attempt.check.stages
        try:
            yield details
        except (OSError, ValueError, OverflowError, kafka_errors.KafkaError, ClusterError) as error:
            milliseconds = _milliseconds_since(started_at)
            failed, reason = self._explain(attempt, stage, error)
            if failed is not stage:
                # TLS 1.3: a broker refuses our certificate after the handshake seemed complete.
                stages = tuple(passed for passed in stages if passed.stage is not failed)
            detail = self._settings.without_secrets(reason)
            attempt.note(stages=(*stages, StageResult(failed, False, detail, milliseconds)))
            raise _StageFailedError from None
        detail = self._settings.without_secrets(" ".join(details))
        result = StageResult(stage, True, detail, _milliseconds_since(started_at))
        attempt.note(stages=(*stages, result))

    def _explain(
        self, attempt: _Attempt, stage: ConnectionStage, error: BaseException
    ) -> tuple[ConnectionStage, str]:
        """Return the stage that failed and the reason in words."""
        if stage in (ConnectionStage.RESOLVE, ConnectionStage.TCP):
            return stage, _error_text(error)
        if isinstance(error, ssl.SSLCertVerificationError):
            now = datetime.now(UTC)
            return stage, explain_refusal(error, attempt.check.certificate, attempt.host, now)
        if stage is ConnectionStage.TLS and speaks_tls(attempt.check.address) is False:
            return stage, no_tls_reason(self._settings)
        if isinstance(error, ssl.SSLError):
            has_own_certificate = any(
                key.startswith("ssl.certificate") for key in self._settings.librdkafka
            )
            return ConnectionStage.TLS, _explain_tls_error(error, has_own_certificate)
        if isinstance(error, TimeoutError):
            is_tls = stage is ConnectionStage.TLS
            seconds = CONNECT_TIMEOUT_SECONDS if is_tls else self._response_seconds
            return stage, f"{NO_RESPONSE} {seconds:g} s; it hangs, or no Kafka broker listens there"
        if isinstance(error, AuthenticationRefusedError | ClusterError):
            return stage, str(error)
        is_connection_error = isinstance(error, kafka_errors.KafkaError | OSError)
        if is_connection_error and stage is not ConnectionStage.TLS:
            return stage, no_response_reason(attempt.check.address, self._settings)
        return stage, _error_text(error)


def _connect_to_first(
    ips: Sequence[str], port: int, *, every: bool = False
) -> tuple[socket.socket | None, dict[str, OSError]]:
    """Connect to the first IP address that accepts, as clients do.

    The errors are those of the addresses before it, with `every` of those behind it, too: then all
    are tried in parallel.
    """
    connected: socket.socket | None = None
    failures: dict[str, OSError] = {}
    with ThreadPoolExecutor(_MAX_IPS_IN_PARALLEL) as pool:
        tries = (pool.map if every else map)(partial(_try_ip, port), ips)
        for ip, tried in zip(ips, tries, strict=False):
            if isinstance(tried, OSError):
                failures[ip] = tried
            elif connected is not None:
                tried.close()
            else:
                connected = tried
                if not every:
                    break
    return connected, failures


def _try_ip(port: int, ip: str) -> socket.socket | OSError:
    try:
        connected = socket.create_connection((ip, port), CONNECT_TIMEOUT_SECONDS)
    except OSError as error:
        return error
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


def _dead_among(failures: Mapping[str, OSError]) -> dict[str, str]:
    """Return the addresses with their reasons, but those to which this machine has no way, as one
    without IPv6: that says nothing about the broker.
    """
    return {
        ip: _error_text(error)
        for ip, error in failures.items()
        if error.errno not in _NO_WAY_FROM_HERE
    }


def _milliseconds_since(started_at: float) -> int:
    return round((time.monotonic() - started_at) * 1000)


def _error_text(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return NO_CONNECTION
    return str(getattr(error, "strerror", None) or error or type(error).__name__)


def _explain_tls_error(error: ssl.SSLError, has_own_certificate: bool) -> str:
    reason = str(error.reason or error.strerror or error).replace("_", " ").lower()
    if "alert" not in reason:
        return reason
    if "certificate" not in reason and "handshake failure" not in reason:
        return f"the broker ended the handshake: {reason}"
    if has_own_certificate:
        return (
            'the broker does not accept our certificate, "ssl.certificate.location" or ".pem" '
            f"({reason}); is it still valid, and from an authority that the brokers trust?"
        )
    return (
        'the broker requires a client certificate; set "ssl.certificate.location", '
        f'"ssl.key.location" ({reason})'
    )


# -- The certificate that a broker presents, and in plain words why it is not accepted
#
#     certificate = presented_certificate(secured, "kafka-1")
#     certificate.expires_at, certificate.matches_host
#
# Limits: the broker's own certificate; of the chain above it only what OpenSSL says.


# OpenSSL's numbers (x509_vfy.h).
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_NOT_TRUSTED: Final = frozenset({18, 19, 20, 21})
_WRONG_HOST: Final = frozenset({62, 64})


def presented_certificate(secured: ssl.SSLSocket, host: str) -> Certificate | None:
    """Return the broker's certificate, compared with `host`; None where it cannot be read."""
    try:
        der = secured.getpeercert(binary_form=True) or b""
        parsed = x509.load_der_x509_certificate(der)
        dns_names, ips = _alternative_names(parsed)
        attributes = parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        common_names = [str(attribute.value) for attribute in attributes]
        return Certificate(
            subject=parsed.subject.rfc4514_string(),
            issuer=parsed.issuer.rfc4514_string(),
            names=(*dns_names, *ips),
            expires_at=parsed.not_valid_after_utc,
            matches_host=is_valid_for(host, dns_names or common_names, ips),
            issued_at=parsed.not_valid_before_utc,
        )
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        return None


def explain_refusal(
    error: ssl.SSLCertVerificationError, certificate: Certificate | None, host: str, now: datetime
) -> str:
    """Say why OpenSSL does not accept the certificate, and what to do; `now` is in UTC."""
    code = error.verify_code
    if certificate is None:
        return f"the certificate was not accepted: {error.verify_message}"
    if code == _EXPIRED:
        if certificate.expires_at > now:
            return "a certificate above the broker's own has expired; renew it on the broker"
        return (
            f"the certificate expired on {format_moment(certificate.expires_at)}; renew it, and "
            "make the broker load the new one"
        )
    if code == _NOT_YET_VALID:
        return "the certificate is not valid yet; set the clocks here and on the broker right"
    if code in _WRONG_HOST:
        names = ", ".join(certificate.names) or certificate.subject
        return (
            f"the certificate is for {names}, not for {host}; connect by a name that it has, or "
            "have it name this host"
        )
    if code in _NOT_TRUSTED:
        return (
            f"the certificate was issued by {certificate.issuer}, which is not trusted here; "
            'name the certificate of that authority in "ssl.ca.location" or "ssl.ca.pem"'
        )
    return f"the certificate was not accepted: {error.verify_message}"


def _alternative_names(certificate: x509.Certificate) -> tuple[list[str], list[str]]:
    """Return the DNS names and the IP addresses of the certificate's extension."""
    extension_type = x509.SubjectAlternativeName
    try:
        names = certificate.extensions.get_extension_for_class(extension_type).value
    except x509.ExtensionNotFound:
        return [], []
    ips = [str(ip) for ip in names.get_values_for_type(x509.IPAddress)]
    return names.get_values_for_type(x509.DNSName), ips


def is_valid_for(host: str, dns_names: list[str], ips: list[str]) -> bool:
    """Compare as clients do (RFC 6125).

    IP addresses match exactly, names without regard to case, and `*` matches one whole label at the
    left: `*.example` matches kafka-1.example, not a.b.example.
    """
    try:
        return str(ip_address(host)) in ips
    except ValueError:
        pass
    name = host.lower().rstrip(".")
    return any(_matches(pattern.lower().rstrip("."), name) for pattern in dns_names)


def _matches(pattern: str, name: str) -> bool:
    if not pattern.startswith("*."):
        return pattern == name
    label, dot, domain = name.partition(".")
    return bool(label and dot) and domain == pattern[2:]


# -- What listens at an address, found out without a client: names, TLS, SASL mechanisms
#
#     speaks_tls("kafka-1:9093")     # True, False, or None when nothing comes back
#     no_response_reason("kafka-1:9093", settings)
#     # 'it speaks TLS, but "security.protocol" is PLAINTEXT; set SSL or SASL_SSL'
#
# Nothing but a handshake is sent, and no certificate is trusted or refused.


CONNECT_TIMEOUT_SECONDS: Final = 3.0
NO_CONNECTION: Final = (
    f"no TCP connection within {CONNECT_TIMEOUT_SECONDS:g} s; is a firewall in the way?"
)
# What listens at ports that are taken for a broker's: a request, and how the response begins.
_OTHER_SERVERS: Final = {
    "an HTTP server": (b"GET / HTTP/1.0\r\n\r\n", b"HTTP/"),
    "a ZooKeeper server": (b"srvr", b"Zookeeper version"),
}
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
    if not uses_sasl and (mechanisms := _sasl_mechanisms(address, settings)):
        wanted = "SASL_SSL" if uses_tls else "SASL_PLAINTEXT"
        return f'it wants SASL ({mechanisms}), but "security.protocol" is {protocol}; set {wanted}'
    for server, (request, response) in _OTHER_SERVERS.items():
        if not uses_tls and _responds(address, request, response):
            return f"{server} answers there, no Kafka broker; name the port of a broker's listener"
    return (
        "it accepts connections, but does not answer as a Kafka broker does to "
        f'"security.protocol" {protocol}; name the port of a broker\'s listener for this protocol'
    )


def no_tls_reason(settings: ConnectionSettings) -> str:
    """Say that an address does not speak TLS, where the settings want it."""
    protocol = settings.security_protocol
    without_tls = protocol.replace("SASL_SSL", "SASL_PLAINTEXT").replace("SSL", "PLAINTEXT")
    return (
        f'it does not speak TLS, but "security.protocol" is {protocol}; name the port of a TLS '
        f"listener, or set {without_tls}"
    )


def _trusting(context: ssl.SSLContext) -> ssl.SSLContext:
    """Have a context trust everybody: only to read a certificate, or to find out which protocol is
    spoken.
    """
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _trusting_everybody() -> ssl.SSLContext:
    return _trusting(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))


def speaks_tls(address: str) -> bool | None:
    """Return whether a TLS handshake is understood there; None when nothing comes back."""
    try:
        with socket.create_connection(split_address(address), CONNECT_TIMEOUT_SECONDS) as plain:
            _trusting_everybody().wrap_socket(plain).close()
    except ssl.SSLError as error:
        # A server that requires a client certificate speaks TLS, too.
        return "ALERT" in str(error.reason or "")
    except TimeoutError:
        return None
    except OSError:
        return False
    return True


def _responds(address: str, request: bytes, response: bytes) -> bool:
    """Return whether the response to this request begins so."""
    try:
        with socket.create_connection(split_address(address), CONNECT_TIMEOUT_SECONDS) as plain:
            plain.sendall(request)
            return plain.recv(len(response)) == response
    except OSError:
        return False


def _sasl_mechanisms(address: str, settings: ConnectionSettings) -> str:
    """Return the mechanisms of a SASL listener, as "PLAIN, SCRAM-SHA-256"; "" for another one."""
    try:
        plain = socket.create_connection(split_address(address), CONNECT_TIMEOUT_SECONDS)
        with closing(plain):
            connected = _trusting_everybody().wrap_socket(plain) if settings.uses_tls else plain
            with closing(AddressConnection(connected, address, settings)) as connection:
                return ", ".join(connection.offered_mechanisms(CONNECT_TIMEOUT_SECONDS))
    except (OSError, kafka_errors.KafkaError):
        return ""


# -- Tries one bootstrap address with librdkafka, as most clients of a cluster would
#
#     try_address("kafka-1:9092", settings).failure  # "" when a Kafka broker responds there
#
# First our own connection goes stage by stage (`check`): its reasons are the same for every
# client, and name what to do. Only an address that passes is tried with librdkafka.
#
# Limits: a few seconds per address; no topic is named, so nothing can be created.


HANDSHAKE_TIMEOUT_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.01

# librdkafka's errors name an address as `host:port/bootstrap`; a broker that it learnt of from a
# response has its id in place of "bootstrap".
_OF_ANOTHER_BROKER: Final = re.compile(r"\S+/\d+: ")

# librdkafka writes to stderr unless it has a logger; this one can be switched on.
LIBRDKAFKA_LOG: Final = logging.getLogger("counterpoise.librdkafka")
LIBRDKAFKA_LOG.addHandler(logging.NullHandler())


def try_address(address: str, settings: ConnectionSettings) -> EndpointCheck:
    """Connect to `address` and complete a handshake, with both.

    Raises ConfigurationError when the settings cannot be used.
    """
    check = EndpointChecker(settings).check(*split_address(address))
    started_at = time.monotonic()
    reason = _librdkafka_reason(address, settings) if check.is_reachable else ""
    return (
        with_failed_client(check, settings.without_secrets(reason), started_at) if reason else check
    )


def with_failed_client(check: EndpointCheck, reason: str, started_at: float) -> EndpointCheck:
    """Return the check of an address that responds to us, and not to one of the two clients."""
    milliseconds = _milliseconds_since(started_at)
    failed = StageResult(ConnectionStage.CLIENT, False, reason, milliseconds)
    return replace(check, stages=(*check.stages, failed))


def librdkafka_client(settings: ConnectionSettings, **extra: Any) -> AdminClient:
    """Return a client that writes nothing to stderr.

    Raises ConfigurationError when librdkafka refuses the settings.
    """
    try:
        return AdminClient({**librdkafka_arguments(settings), **extra}, logger=LIBRDKAFKA_LOG)
    except KafkaException as error:
        reason = settings.without_secrets(str(error.args[0].str()))
        complaint = f"librdkafka refuses the settings: {reason}"
        raise ConfigurationError(settings.where, (complaint,)) from None


def _librdkafka_reason(address: str, settings: ConnectionSettings) -> str:
    """Return why librdkafka's handshake fails; "" where it succeeds."""
    errors: list[KafkaError] = []
    statistics: list[str] = []
    client = librdkafka_client(
        settings.at(address),
        error_cb=errors.append,
        **{
            "socket.connection.setup.timeout.ms": int(CONNECT_TIMEOUT_SECONDS * 1000),
            "api.version.request.timeout.ms": int(CONNECT_TIMEOUT_SECONDS * 1000),
            "statistics.interval.ms": 500,
            "stats_cb": statistics.append,
        },
    )
    future: Future[Any] = client.describe_cluster(request_timeout=HANDSHAKE_TIMEOUT_SECONDS)
    deadline = time.monotonic() + HANDSHAKE_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        if future.done() or errors or _has_metadata(statistics):
            break
        client.poll(_POLL_SECONDS)  # it fetches tokens in here
    if future.done() and future.exception() is None:
        return ""
    # librdkafka sends the request to the broker that it believes to be the controller. In KRaft
    # that is any broker, also a dead or frozen one. The address has then responded all the same:
    # librdkafka learnt of that broker from it.
    if _has_metadata(statistics) or any(_OF_ANOTHER_BROKER.match(e.str()) for e in errors):
        return ""
    text = errors[0].str() if errors else f"nothing within {HANDSHAKE_TIMEOUT_SECONDS:g} s"
    return f"librdkafka does not connect, though a connection of our own does: {text}"


def _has_metadata(statistics: list[str]) -> bool:
    """Return whether librdkafka knows brokers by id: then the address responded with metadata."""
    if not statistics:
        return False
    brokers = json.loads(statistics[-1])["brokers"].values()
    return any(broker["nodeid"] >= 0 for broker in brokers)
