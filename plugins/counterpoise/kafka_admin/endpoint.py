"""Walks one address step by step, as a client does: name, TCP, TLS, SASL, ApiVersions, Metadata;
each timed.

    walk = EndpointWalker(settings).walk("kafka-1", 9092, expected_broker=1)
    walk.failed_step    # None: a Kafka broker answered us there

All steps are taken on one connection, so the answer is that of whoever sits at this address,
whatever it advertises. No topic is asked for in a way that could create it.

Limits: mechanisms other than PLAIN and SCRAM are left to librdkafka, which does not tell which
broker answered.
"""

import re
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import kafka.errors as kafka_errors
from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.metadata import MetadataRequest

from counterpoise.errors import ClusterError
from counterpoise.kafka_admin.bare import AuthenticationRefusedError, BareConnection
from counterpoise.kafka_admin.certificates import read_certificate, refusal_in_words
from counterpoise.kafka_admin.connection import SASL_MECHANISMS, ConnectionSettings, ssl_context
from counterpoise.kafka_admin.probe import (
    CONNECT_TIMEOUT_SECONDS,
    librdkafka_walk,
    resolve,
    silence_reason,
    speaks_tls,
)
from counterpoise.kafka_admin.reading import partitions_of
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import BrokerDescription
from counterpoise.model.walk import Certificate, EndpointWalk, MetadataAnswer, Step, StepName

ANSWER_SECONDS: Final = 5.0
_BROKER: Final = 4  # the number of that kind of resource
_INVALID_REQUEST: Final = 42
_ACTUAL_ID: Final = re.compile(
    r"\bexpected (\d{1,9})\b"
)  # "Unexpected broker id, expected 1 or empty string, but ..."


class _StoppedError(Exception):
    """A step failed; it is noted already."""


@dataclass
class _Taken:
    """What the steps so far have found."""

    host: str
    port: int
    steps: list[Step] = field(default_factory=list)
    ips: tuple[str, ...] = ()
    certificate: Certificate | None = None
    told: MetadataAnswer | None = None
    actual_broker_id: int | None = None
    is_expected_broker: bool | None = None

    @property
    def address(self) -> str:
        return host_and_port(self.host, self.port)

    def as_walk(self) -> EndpointWalk:
        return EndpointWalk(
            self.address,
            tuple(self.steps),
            ips=self.ips,
            certificate=self.certificate,
            told=self.told,
            is_expected_broker=self.is_expected_broker,
            actual_broker_id=self.actual_broker_id,
        )


class EndpointWalker:
    """Threads may share it.

    Raises ConfigurationError when the settings' certificates cannot be read.
    """

    def __init__(
        self, settings: ConnectionSettings, *, answer_seconds: float = ANSWER_SECONDS
    ) -> None:
        self._settings = settings
        self._answer_seconds = answer_seconds
        self._uses_tls = settings.security_protocol.endswith("SSL")
        self._verifying = ssl_context(settings.librdkafka) if self._uses_tls else None
        self._looking = ssl_context(settings.librdkafka) if self._uses_tls else None
        if self._looking is not None:
            self._looking.check_hostname = False
            self._looking.verify_mode = ssl.CERT_NONE

    def walk(
        self,
        host: str,
        port: int,
        *,
        expected_broker: int | None = None,
        topics: Sequence[str] = (),
    ) -> EndpointWalk:
        """Never raises for what is wrong at the address: it is in the steps.

        `topics`: whose leaders to ask for.
        """
        taken = _Taken(host, port)
        try:
            if self._settings.sasl_mechanism in (None, *SASL_MECHANISMS):
                with closing(self._connect(taken)) as connection:
                    self._ask_metadata(taken, connection, topics)
                    if expected_broker is not None:
                        self._ask_identity(taken, connection, expected_broker)
            else:
                self._leave_to_librdkafka(taken)
        except _StoppedError:
            pass
        return taken.as_walk()

    def connect(self, host: str, port: int, *, most_bytes: int = 100_000_000) -> BareConnection:
        """A connection that has passed all steps but the last.

        Raises ClusterError with the reason.
        """
        taken = _Taken(host, port)
        try:
            return self._connect(taken, most_bytes)
        except _StoppedError:
            failed = taken.steps[-1]
            raise ClusterError(f"{taken.address}: {failed.name}: {failed.said}") from None

    # -- the steps

    def _connect(self, taken: _Taken, most_bytes: int = 100_000_000) -> BareConnection:
        connected = self._open(taken)
        connection = BareConnection(
            connected,
            client_id=self._settings.librdkafka.get("client.id", "counterpoise"),
            most_bytes=most_bytes,
        )
        try:
            if mechanism := self._settings.sasl_mechanism:
                with self._step(taken, StepName.SASL) as said:
                    connection.log_in(self._settings, self._answer_seconds)
                    said.append(
                        f"{mechanism} as {self._settings.librdkafka.get('sasl.username', '')}"
                    )
            with self._step(taken, StepName.API_VERSIONS) as said:
                connection.ask_versions(self._answer_seconds)
                said.append(
                    "as Kafka "
                    + ".".join(map(str, connection.versions.broker_version))
                    + " or later"
                )
        except BaseException:
            connection.close()
            raise
        return connection

    def _open(self, taken: _Taken) -> socket.socket:
        with self._step(taken, StepName.RESOLVE) as said:
            family = self._settings.librdkafka.get("broker.address.family", "any")
            taken.ips = resolve(taken.host, taken.port, family)
            said.append(", ".join(taken.ips))
        with self._step(taken, StepName.TCP) as said:
            connected = _connect_to_one(taken.ips, taken.port, said)
        if self._verifying is None:
            return connected
        try:
            with self._step(taken, StepName.TLS) as said:
                secured = self._handshake(taken, connected)
                said.append(
                    f"{secured.version()}, {taken.certificate.subject if taken.certificate else ''}".strip(
                        ", "
                    )
                )
        except BaseException:
            connected.close()
            raise
        return secured

    def _handshake(self, taken: _Taken, connected: socket.socket) -> ssl.SSLSocket:
        assert self._verifying is not None
        connected.settimeout(CONNECT_TIMEOUT_SECONDS)
        try:
            secured = self._verifying.wrap_socket(connected, server_hostname=taken.host)
        except ssl.SSLError:
            # Refused or broken off; what was shown is looked at without trusting it, and nothing is
            # sent there.
            taken.certificate = self._look_at_certificate(taken)
            raise
        taken.certificate = read_certificate(
            secured.getpeercert(binary_form=True) or b"", taken.host
        )
        return secured

    def _look_at_certificate(self, taken: _Taken) -> Certificate | None:
        assert self._looking is not None
        try:
            with (
                closing(_connect_to_one(taken.ips, taken.port, [])) as plain,
                self._looking.wrap_socket(plain, server_hostname=taken.host) as secured,
            ):
                return read_certificate(secured.getpeercert(binary_form=True) or b"", taken.host)
        except (OSError, ValueError):
            return None

    def _ask_metadata(
        self, taken: _Taken, connection: BareConnection, topics: Sequence[str]
    ) -> None:
        with self._step(taken, StepName.METADATA) as said:
            taken.told = read_metadata(connection, topics, self._answer_seconds)
            said.append(
                f"{len(taken.told.brokers)} brokers live in cluster {taken.told.cluster_id}"
            )

    def _ask_identity(self, taken: _Taken, connection: BareConnection, expected: int) -> None:
        """A broker tells its own configs only: asked for another's, it says whose they would be."""
        resource = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=_BROKER, resource_name=str(expected), configuration_keys=["node.id"]
        )
        try:
            answer = connection.ask(
                DescribeConfigsRequest(resources=[resource]), self._answer_seconds
            )
            code, message = answer.results[0].error_code, answer.results[0].error_message or ""
        except (OSError, kafka_errors.KafkaError, IndexError):
            return
        if code == 0:
            taken.is_expected_broker = True
        elif code == _INVALID_REQUEST and "Unexpected broker id" in message:
            taken.is_expected_broker = False
            actual = _ACTUAL_ID.search(message)
            taken.actual_broker_id = int(actual[1]) if actual else None

    def _leave_to_librdkafka(self, taken: _Taken) -> None:
        self._open(taken).close()
        began = time.monotonic()
        found = librdkafka_walk(taken.address, self._settings)
        milliseconds = round((time.monotonic() - began) * 1000)
        is_answer = isinstance(found, MetadataAnswer)
        if not is_answer and not str(found).startswith("SASL"):
            taken.steps.append(Step(StepName.API_VERSIONS, False, str(found), milliseconds))
            return
        said = str(self._settings.sasl_mechanism) if is_answer else str(found)
        taken.steps.append(Step(StepName.SASL, is_answer, said, milliseconds))
        if isinstance(found, MetadataAnswer):
            taken.told = found
            said = f"{len(found.brokers)} brokers live in cluster {found.cluster_id}"
            taken.steps += [
                Step(StepName.API_VERSIONS, True, "by librdkafka", 0),
                Step(StepName.METADATA, True, said, 0),
            ]

    # -- inside

    @contextmanager
    def _step(self, taken: _Taken, name: StepName) -> Iterator[list[str]]:
        """Times a step; what it appends is what was found.

        A failure is noted, and ends the walk.
        """
        began = time.monotonic()
        said: list[str] = []
        try:
            yield said
        except (OSError, ValueError, OverflowError, kafka_errors.KafkaError, ClusterError) as error:
            milliseconds = round((time.monotonic() - began) * 1000)
            where, reason = self._reason(taken, name, error)
            if (
                where is not name
            ):  # TLS 1.3: a broker refuses our certificate when we believe to be through
                taken.steps = [step for step in taken.steps if step.name is not where]
            taken.steps.append(
                Step(where, False, self._settings.without_secrets(reason), milliseconds)
            )
            raise _StoppedError from None
        milliseconds = round((time.monotonic() - began) * 1000)
        taken.steps.append(
            Step(name, True, self._settings.without_secrets(" ".join(said)), milliseconds)
        )

    def _reason(self, taken: _Taken, name: StepName, error: BaseException) -> tuple[StepName, str]:
        """The step that failed, and why, in words."""
        if name in (StepName.RESOLVE, StepName.TCP):
            return name, _words(error)
        if isinstance(error, ssl.SSLCertVerificationError):
            return name, refusal_in_words(error, taken.certificate, taken.host, datetime.now(UTC))
        if name is StepName.TLS and speaks_tls(taken.address) is False:
            return (
                name,
                f'it does not speak TLS, but "security.protocol" is {self._settings.security_protocol}',
            )
        if isinstance(error, ssl.SSLError):
            return StepName.TLS, _tls_words(
                error, "ssl.certificate.location" in self._settings.librdkafka
            )
        if isinstance(error, TimeoutError):
            return name, f"no answer within {self._seconds_of(name):g} s"
        if isinstance(error, AuthenticationRefusedError | ClusterError):
            return name, str(error)
        if isinstance(error, kafka_errors.KafkaError | OSError) and name is not StepName.TLS:
            return name, silence_reason(taken.address, self._settings)
        return name, _words(error)

    def _seconds_of(self, name: StepName) -> float:
        return CONNECT_TIMEOUT_SECONDS if name is StepName.TLS else self._answer_seconds


def read_metadata(
    connection: BareConnection, topics: Sequence[str], seconds: float
) -> MetadataAnswer:
    """Live brokers, and the partitions of `topics`; an unknown one is absent, and not created."""
    topic_type = MetadataRequest.MetadataRequestTopic
    request = MetadataRequest(
        topics=[topic_type(name=name) for name in topics], allow_auto_topic_creation=False
    )
    answer = connection.ask(request, seconds)
    brokers = [
        BrokerDescription(b.node_id, b.host, b.port, b.rack, is_fenced=False)
        for b in answer.brokers
    ]
    partitions = {
        TopicPartition(str(topic.name), p.partition): p
        for topic in answer.topics
        for p in partitions_of(topic)
    }
    return MetadataAnswer(
        answer.cluster_id or "", tuple(sorted(brokers, key=lambda b: b.broker_id)), partitions
    )


def host_and_port(host: str, port: int) -> str:
    """`host:port`; an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _connect_to_one(ips: Sequence[str], port: int, said: list[str]) -> socket.socket:
    """To the first that takes the connection, as clients do; those before it are named.

    Raises OSError of the last.
    """
    failed: list[str] = []
    for ip in ips:
        try:
            connected = socket.create_connection((ip, port), CONNECT_TIMEOUT_SECONDS)
        except OSError as error:
            failed.append(f"{ip}: {_words(error)}")
            continue
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        said.append("; ".join([ip, *(f"not {one}" for one in failed)]))
        return connected
    raise OSError(None, "; ".join(failed) if len(failed) > 1 else failed[0].partition(": ")[2])


def _words(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return f"no TCP connection within {CONNECT_TIMEOUT_SECONDS:g} s; is a firewall in the way?"
    strerror = getattr(error, "strerror", None)
    return str(strerror or error or type(error).__name__)


def _tls_words(error: ssl.SSLError, has_own_certificate: bool) -> str:
    reason = str(error.reason or error.strerror or error).replace("_", " ").lower()
    if "alert" not in reason:
        return reason
    if "certificate" not in reason and "handshake failure" not in reason:
        return f"the broker broke off: {reason}"
    if has_own_certificate:
        return f'the broker does not accept our certificate, "ssl.certificate.location" ({reason})'
    return f'the broker wants a certificate of ours; set "ssl.certificate.location", "ssl.key.location" ({reason})'
