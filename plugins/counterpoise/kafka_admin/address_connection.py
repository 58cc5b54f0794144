"""One TCP connection to one address: every request goes to whoever listens there.

    with closing(AddressConnection(sock, "kafka-1:9092", settings)) as connection:
        connection.request_api_versions(seconds=5.0)
        connection.send(MetadataRequest(topics=[], allow_auto_topic_creation=False), seconds=5.0)

A Kafka client follows the endpoints that brokers advertise. This connection does not, so it still
works where brokers advertise something wrong. Messages and SASL tokens are those of kafka-python.

Limits: one request at a time; one thread uses one connection.
"""

import logging
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any, Final

import kafka.errors as kafka_errors
from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from kafka.version import __version__ as kafka_python_version

from counterpoise.errors import BrokerUnresponsiveError, ClusterError, UnsupportedRequestError
from counterpoise.kafka_admin.connection import (
    OAUTHBEARER,
    PASSWORD_MECHANISMS,
    ConnectionSettings,
    sasl_arguments,
    split_address,
)
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.connectivity import MetadataResponse
from counterpoise.model.kafka import (
    BrokerDescription,
    ConfigSource,
    ConfigValue,
    PartitionDescription,
)
from counterpoise.model.words import join_ids

MAX_BYTES: Final = 100_000_000  # of one response; what is longer is not Kafka's protocol
_READ_SECONDS: Final = 60.0  # a million partitions take their time
_CHUNK_BYTES: Final = 1 << 18
_UNSUPPORTED_VERSION: Final = 35
_UNSUPPORTED_MECHANISM: Final = 33
_VOTE: Final = 52  # the API key of a request among controllers (KIP-595)
_SASL_EXCHANGES: Final = 8  # PLAIN takes one, SCRAM two, Kerberos some more


class AuthenticationRefusedError(ClusterError):
    """The broker refuses the SASL authentication; the message has its reason."""


def keep_secrets_out_of_logs() -> None:
    """Raise kafka-python's log level to WARNING.

    At DEBUG it logs its configuration and SASL tokens, at INFO every connection.
    """
    for name in ("kafka.admin.client", "kafka.net.connection", "kafka.net.sasl", "kafka.protocol"):
        logger = logging.getLogger(name)
        logger.setLevel(max(logger.level, logging.WARNING))


class AddressConnection:
    """An open connection to one address, with the settings of a connection.

    Every method but `read` raises OSError (TimeoutError after `seconds`) and kafka-python's
    KafkaError.
    """

    def __init__(
        self,
        connected: socket.socket,
        address: str,
        settings: ConnectionSettings,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        keep_secrets_out_of_logs()
        self.settings = settings
        self._socket = connected
        self._address = address
        self._protocol = KafkaProtocol(
            client_id=settings.librdkafka.get("client.id", "counterpoise"),
            receive_message_max_bytes=max_bytes,
        )
        self._versions: BrokerVersionData | None = None

    def close(self) -> None:
        self._socket.close()

    def read(self, request: Any, what: str) -> Any:
        """Return the response, as `BrokerClient.read` does.

        Raises UnsupportedRequestError, and BrokerUnresponsiveError when the connection ends.
        """
        try:
            return self.send(request, _READ_SECONDS)
        except kafka_errors.IncompatibleBrokerVersion as error:
            raise UnsupportedRequestError(f"{what}: {error}") from None
        except (OSError, kafka_errors.KafkaError) as error:
            reason = self.settings.without_secrets(str(error) or type(error).__name__)
            raise BrokerUnresponsiveError(
                f"{what}: {self._address} does not respond: {reason}; check that broker, and the "
                "network to it"
            ) from None

    def send(self, request: Any, seconds: float) -> Any:
        """Return the response to `request`, which waits `seconds` at most.

        The request has a version, or gets the highest one that both sides know; for that,
        `request_api_versions` comes first.
        """
        if request.API_VERSION is None:
            request.API_VERSION = self.versions.api_version(request)
        deadline = time.monotonic() + seconds
        self._protocol.send_request(request)
        self._socket.settimeout(seconds)
        self._socket.sendall(self._protocol.send_bytes())
        while True:
            remaining_seconds = deadline - time.monotonic()
            if remaining_seconds <= 0:
                raise TimeoutError
            self._socket.settimeout(remaining_seconds)
            data = self._socket.recv(_CHUNK_BYTES)
            if not data:
                raise ConnectionResetError("the other side closed the connection")
            if responses := self._decode(data):
                return responses[0][1]

    def _decode(self, data: bytes) -> Any:
        try:
            return self._protocol.receive_bytes(data)
        except (struct.error, ValueError, TypeError, LookupError, EOFError, MemoryError) as error:
            reason = f"the response is not one of Kafka's protocol ({error})"
            raise kafka_errors.KafkaProtocolError(reason) from None

    @property
    def versions(self) -> BrokerVersionData:
        """Return the API versions of the broker; `request_api_versions` comes first."""
        assert self._versions is not None, "call request_api_versions first"
        return self._versions

    @property
    def is_controller(self) -> bool:
        """Return whether a controller responds: it votes, and serves no metadata to clients."""
        known = self.versions.api_versions
        return _VOTE in known and MetadataRequest.API_KEY not in known

    def request_api_versions(self, seconds: float) -> None:
        """Read which API versions the broker supports (KIP-35); every other request needs it."""
        version = ApiVersionsRequest.max_version
        response = self.send(api_versions_request(version), seconds)
        if response.error_code == _UNSUPPORTED_VERSION:
            # KIP-511: the broker then responds in version 0, with the versions it supports.
            max_versions = {api.api_key: api.max_version for api in response.api_keys}
            version = min(version, max_versions.get(ApiVersionsRequest.API_KEY, 0))
            response = self.send(api_versions_request(version), seconds)
        if response.error_code:
            raise kafka_errors.for_code(response.error_code)()
        ranges = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        self._versions = BrokerVersionData(api_versions=ranges)

    def offered_mechanisms(self, seconds: float) -> tuple[str, ...]:
        """Return the mechanisms of a SASL listener; () where it is none.

        A SaslHandshake without a mechanism is refused with the list of mechanisms.
        """
        handshake = self.send(SaslHandshakeRequest(version=1, mechanism=""), seconds)
        is_sasl = handshake.error_code == _UNSUPPORTED_MECHANISM
        return tuple(handshake.mechanisms) if is_sasl else ()

    def authenticate(self, seconds: float) -> None:
        """Authenticate by SASL as the settings say; Kerberos needs the broker's host for it.

        Raises AuthenticationRefusedError with the broker's reason, and TokenError.
        """
        settings, (host, _) = self.settings, split_address(self._address)
        name = str(settings.sasl_mechanism)
        if settings.tokens is not None:
            settings.tokens.token()  # before the broker waits for it
        handshake = self.send(SaslHandshakeRequest(version=1, mechanism=name), seconds)
        if handshake.error_code:
            raise AuthenticationRefusedError(_handshake_reason(handshake, name))
        try:
            mechanism = get_sasl_mechanism(name)(host=host, **sasl_arguments(settings))
        except RuntimeError as error:  # Kerberos' library is not there
            raise AuthenticationRefusedError(f"{name}: {error} Install gssapi.") from None
        for _ in range(_SASL_EXCHANGES):
            self._exchange_token(mechanism, seconds)
            if mechanism.is_done():
                break
        if not mechanism.is_authenticated():
            raise AuthenticationRefusedError(f"{name}: the exchange did not come to an end")

    def _exchange_token(self, mechanism: Any, seconds: float) -> None:
        name = str(self.settings.sasl_mechanism)
        token = mechanism.auth_bytes()
        response = self.send(SaslAuthenticateRequest(version=0, auth_bytes=token), seconds)
        if response.error_code:
            error_name = kafka_errors.for_code(response.error_code).__name__
            reason = response.error_message or error_name
            raise AuthenticationRefusedError(_refusal(self.settings, reason))
        try:
            mechanism.receive(response.auth_bytes)
        except (ValueError, KeyError) as error:
            reason = f"{name}: the broker's token is malformed ({error})"
            raise AuthenticationRefusedError(reason) from None


def _refusal(settings: ConnectionSettings, reason: str) -> str:
    """Say who was refused by the broker, why, and what to check."""
    name = settings.sasl_mechanism
    who = settings.principal.removeprefix("User:")
    if name in PASSWORD_MECHANISMS:
        return (
            f'{name} failed: the broker refuses user "{who}" ({reason}); check "sasl.username" and '
            '"sasl.password"'
        )
    if name == OAUTHBEARER:
        return (
            f'{name} failed: the broker refuses the token of "{who}" ({reason}); check its issuer, '
            "audience, scope and end against the broker's sasl.oauthbearer settings"
        )
    return f"{name} failed: {reason}; check the Kerberos ticket (klist)"


def _handshake_reason(handshake: Any, mechanism: str) -> str:
    if not handshake.mechanisms:
        error_name = kafka_errors.for_code(handshake.error_code).__name__
        return (
            f"the broker does not accept SASL on this listener ({error_name}); name the port of a "
            'SASL listener, or set "security.protocol" without SASL'
        )
    offered = ", ".join(handshake.mechanisms)
    return (
        f"the broker does not offer {mechanism}; it offers {offered}: set one of them in "
        '"sasl.mechanism"'
    )


# The classes of all versions of Kafka's responses are made when this module is imported:
# kafka-python makes the class of a version when it is first needed, and its registry knows the
# class that was made last by a weak reference (`ApiMessage.__init_subclass__`, 3.0.12). Where two
# clients of a new process make one at the same time, each in its own thread, the one in the
# registry may be the one that is not kept: every later response of that kind then raises
# ReferenceError. An import runs once, so what it has made is not made again (some 260 classes,
# 6 ms).
for _response_class in list(ResponseClassRegistry._response_class_registry.values()):
    for _version in range(_response_class.max_version + 1):
        _response_class[_version]


def api_versions_request(version: int | None = None) -> Any:
    """Return an ApiVersionsRequest: the smallest request there is.

    `version` is needed where kafka-python does not choose it by what the broker supports.
    """
    return ApiVersionsRequest(
        version=version,
        client_software_name="kafka-python",
        client_software_version=kafka_python_version,
    )


# -- Brokers and partitions in a metadata response, as values
#
#     read_metadata(connection, ["orders"], 5.0).partitions     # {TopicPartition("orders", 0): ...}
#
# Limits: no topic can be created by the request; one that is unknown is left out.


def read_metadata(
    connection: AddressConnection, topics: Sequence[str], seconds: float
) -> MetadataResponse:
    """Return live brokers and the partitions of `topics` as one address reports them.

    An unknown topic is left out, and not created. Raises ClusterError for a response that no
    cluster gives which clients can use: librdkafka 2.x crashes where it has no cluster id.
    """
    topic_type = MetadataRequest.MetadataRequestTopic
    wanted = [topic_type(name=name) for name in topics]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    response = connection.send(request, seconds)
    if complaint := _complaint(response):
        raise ClusterError(complaint)
    brokers = [
        BrokerDescription(b.node_id, b.host, b.port, b.rack, is_fenced=False)
        for b in response.brokers
    ]
    partitions = {
        TopicPartition(str(topic.name), partition.partition): partition
        for topic in response.topics
        for partition in partitions_of(topic)
    }
    return MetadataResponse(response.cluster_id, by_id(brokers), partitions)


def _complaint(response: Any) -> str | None:
    """Return why no client can use the response; None where it can be used."""
    if not response.brokers:
        return (
            "it reports no broker at all, itself neither; has it just started, and does it reach "
            "the controllers?"
        )
    if not response.cluster_id:
        return "it reports no cluster id, which every Kafka broker has; what listens there?"
    broken = [b.node_id for b in response.brokers if not _is_host(b.host) or b.node_id < 0]
    if broken:
        return f"it reports brokers without a host or with a wrong id: {join_ids(broken)}"
    return None


def _is_host(host: str | None) -> bool:
    """Return whether the text may be a name or an IP address, as every resolver needs it."""
    try:
        return bool(host) and str(host).isprintable() and bool(str(host).encode("idna"))
    except UnicodeError:  # a label that is too long, or empty
        return False


def partitions_of(topic: Any) -> tuple[PartitionDescription, ...]:
    """Return the partitions of a topic in a metadata response, by number."""
    partitions = [
        PartitionDescription(
            partition=p.partition_index,
            leader=none_if_negative(p.leader_id),
            leader_epoch=none_if_negative(p.leader_epoch),
            replicas=tuple(p.replica_nodes),
            isr=tuple(p.isr_nodes),
        )
        for p in topic.partitions
    ]
    return tuple(sorted(partitions, key=lambda partition: partition.partition))


def by_id(brokers: Sequence[BrokerDescription]) -> tuple[BrokerDescription, ...]:
    return tuple(sorted(brokers, key=lambda broker: broker.broker_id))


def none_if_negative(number: int | None) -> int | None:
    """Return None for -1, which is Kafka's "not known"."""
    return None if number is None or number < 0 else number


# -- Configs in a response, as values


_SOURCES: Final = {
    1: ConfigSource.DYNAMIC_TOPIC,
    2: ConfigSource.DYNAMIC_BROKER,
    3: ConfigSource.DYNAMIC_DEFAULT_BROKER,
    4: ConfigSource.STATIC_BROKER,
    5: ConfigSource.DEFAULT,
}


def config_value(entry: Any) -> ConfigValue:
    """Return a config with the level that its value is from, and with Kafka's own value, where the
    broker tells the levels below the one in force.
    """
    levels = {_SOURCES.get(synonym.source): synonym.value for synonym in entry.synonyms or ()}
    source = _SOURCES.get(entry.config_source, ConfigSource.OTHER)
    return ConfigValue(entry.value, source, levels.get(ConfigSource.DEFAULT))
