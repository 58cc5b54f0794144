"""Whether clients can reach a cluster: every bootstrap address and every advertised endpoint.

    connectivity.answered_by                 # the first reachable bootstrap address, or None
    connectivity.advertised[3].failed_stage  # where a client that is sent to broker 3 fails

Plain values: `kafka_admin.connectivity` fills them, `audit` and `cli` read them.

Limits: what is reachable from here; another network may resolve and route otherwise.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from counterpoise.model.cluster import TopicPartition
from counterpoise.model.grouping import grouped
from counterpoise.model.kafka import (
    BrokerDescription,
    ConfigValue,
    PartitionDescription,
    TopicDescription,
)
from counterpoise.units import format_moment

# A certificate expires soon with less left than so many days, and than this share of its lifetime.
EXPIRY_DAYS: Final = 30
EXPIRY_PERCENT: Final = 20
# What RESOLVE says of text that is no address at all, like a port of 70000.
NOT_AN_ADDRESS = "cannot be an address"
# The configs that each broker is asked for while its endpoint is checked: it alone knows its own.
VOTERS: Final = "controller.quorum.voters"  # `1@kafka-1:9093,2@kafka-2:9093`
CONTROLLERS: Final = "controller.quorum.bootstrap.servers"  # KIP-853: `kafka-1:9093,kafka-2:9093`
WALK_CONFIGS: Final = (
    "node.id",
    "listeners",
    "advertised.listeners",
    "listener.security.protocol.map",
    "controller.listener.names",
    VOTERS,
    CONTROLLERS,
)


class ConnectionStage(StrEnum):
    """A stage of opening a connection to a broker, in the order of a client.

    TLS and SASL exist only where the security protocol asks for them. CLIENT is the handshake of
    librdkafka or kafka-python, once a connection of our own has passed all others.
    """

    RESOLVE = "resolve"
    TCP = "tcp"
    TLS = "tls"
    SASL = "sasl"
    API_VERSIONS = "api versions"
    METADATA = "metadata"
    CLIENT = "client"


NO_RESPONSE: Final = "no response within"
_BEFORE_THE_BROKER: Final = (ConnectionStage.RESOLVE, ConnectionStage.TCP)
_OF_THE_PROTOCOL: Final = (ConnectionStage.API_VERSIONS, ConnectionStage.METADATA)
_AS_NAMED: Final = "put right what the failed step names, in these settings or at that listener"


@dataclass(frozen=True, slots=True)
class StageResult:
    """How one stage of one connection went."""

    stage: ConnectionStage
    is_ok: bool
    detail: str  # what was found, or why it failed; no secrets, but maybe text from outside
    milliseconds: int


@dataclass(frozen=True, slots=True)
class Certificate:
    """The certificate that a broker presents, trusted or not."""

    subject: str
    issuer: str
    names: tuple[str, ...]  # DNS names and IP addresses that it is valid for
    expires_at: datetime  # UTC
    matches_host: bool
    issued_at: datetime | None = None  # UTC

    def is_near_its_end(self, now: datetime, days: int, percent_of_lifetime: int) -> bool:
        """Return whether it has expired, or has less left than both of the limits.

        With 30 days and 20 percent: a certificate of 90 days in its last 18, one of a year in its
        last 30.
        """
        left = self.expires_at - now
        limit = timedelta(days=days)
        if self.issued_at is not None:
            limit = min(limit, (self.expires_at - self.issued_at) * percent_of_lifetime / 100)
        return left < limit or left <= timedelta(0)

    @property
    def expires_in_words(self) -> str:
        """Return `2026-12-01 00:00 UTC`."""
        return format_moment(self.expires_at)


@dataclass(frozen=True, slots=True)
class MetadataResponse:
    """One broker's response to a metadata request."""

    cluster_id: str
    brokers: tuple[BrokerDescription, ...]  # live, in the view of this broker; by id
    # Of the topics that were asked for.
    partitions: Mapping[TopicPartition, PartitionDescription] = field(default_factory=dict)

    @property
    def broker_ids(self) -> frozenset[int]:
        return frozenset(broker.broker_id for broker in self.brokers)


@dataclass(frozen=True, slots=True)
class EndpointCheck:
    """One connection to one address; `stages` ends with the first stage that failed."""

    address: str  # host:port
    stages: tuple[StageResult, ...]
    ips: tuple[str, ...] = ()  # that the name resolved to
    dead_ips: Mapping[str, str] = field(default_factory=dict)  # of them, each with the reason
    certificate: Certificate | None = None
    metadata: MetadataResponse | None = None
    # Of an advertised endpoint. None: not known, or no broker was expected.
    is_expected_broker: bool | None = None
    actual_broker_id: int | None = None  # of the broker that responds there, where it tells
    configs: Mapping[str, ConfigValue] = field(default_factory=dict)  # WALK_CONFIGS of that broker

    @property
    def failed_stage(self) -> StageResult | None:
        return next((stage for stage in self.stages if not stage.is_ok), None)

    @property
    def is_reachable(self) -> bool:
        return self.failed_stage is None

    @property
    def is_as_expected(self) -> bool:
        """Return whether clients that are sent there reach the broker that they expect."""
        return self.is_reachable and self.is_expected_broker is not False

    @property
    def failure(self) -> str:
        """Return the failed stage with its reason, as `tcp: Connection refused`; "" if none."""
        failed = self.failed_stage
        return "" if failed is None else f"{failed.stage}: {failed.detail}"

    @property
    def remedy(self) -> str:
        """Return what mends the failed stage, where the cause is between client and broker: the
        end of its reason. "" where the broker is down, or its address or the network is wrong.
        """
        failed = self.failed_stage
        if failed is None or failed.stage in _BEFORE_THE_BROKER or NO_RESPONSE in failed.detail:
            return ""
        return failed.detail.partition("; ")[2] or _AS_NAMED

    @property
    def is_of_another_listener(self) -> bool:
        """Return whether the port belongs to something else than a listener for these security
        settings: to a listener with another protocol, a controller, another service.
        """
        failed = self.failed_stage
        if failed is None or self.remedy in ("", _AS_NAMED):
            return False
        has_no_tls = failed.stage is ConnectionStage.TLS and self.certificate is None
        return has_no_tls or failed.stage in _OF_THE_PROTOCOL

    @property
    def cluster_id(self) -> str | None:
        """Return the id of the cluster behind this address; None if there was no metadata."""
        return self.metadata.cluster_id if self.metadata else None

    @property
    def actual_broker(self) -> str:
        """Return who responds in place of the expected broker: `broker 4`, or `another broker`."""
        if self.actual_broker_id is None:
            return "another broker"
        return f"broker {self.actual_broker_id}"


@dataclass(frozen=True, slots=True)
class VoterCheck:
    """A controller of the metadata quorum, by the configs of a broker, and whether it listens."""

    address: str  # host:port
    node_id: int | None  # None where the configs name addresses alone (KIP-853)
    is_listening: bool | None  # None: not known from here
    detail: str

    @property
    def name(self) -> str:
        """Return `controller 101 (kafka-1:9093)`."""
        number = "" if self.node_id is None else f" {self.node_id}"
        return f"controller{number} ({self.address})"


@dataclass(frozen=True, slots=True)
class QuorumCheck:
    """Whether brokers get an answer from the active controller: they forward DescribeQuorum to it.

    `voters` are checked where no broker gets an answer.
    """

    answered: tuple[str, ...]  # addresses of brokers
    unanswered: tuple[str, ...]
    leader_id: int | None = None  # None: not known, or it may not be read
    seconds: float = 0.0  # that each of `unanswered` had
    voters: tuple[VoterCheck, ...] = ()

    @property
    def is_lost(self) -> bool:
        """Return whether no broker reaches an active controller."""
        return bool(self.unanswered) and not self.answered

    @property
    def stopped_voters(self) -> frozenset[int]:
        """Return the ids of the voters at whose address nobody listens."""
        voters = [voter for voter in self.voters if voter.is_listening is False]
        return frozenset(voter.node_id for voter in voters if voter.node_id is not None)


@dataclass(frozen=True, slots=True)
class ListenerCertificate:
    """What a broker presents at a listener with TLS that we do not connect through."""

    listener: str
    broker_id: int
    address: str  # host:port
    certificate: Certificate


@dataclass(frozen=True, slots=True)
class ConnectivityCheck:
    """The checks of every bootstrap address and of every endpoint that brokers advertise."""

    security_protocol: str
    bootstrap: tuple[EndpointCheck, ...]  # in the order of the list
    advertised: Mapping[int, EndpointCheck] = field(default_factory=dict)  # by live broker
    warnings: tuple[str, ...] = ()  # what the connection's settings leave unprotected
    unchecked: tuple[str, ...] = ()  # addresses for which there was no time; neither list has them
    quorum: QuorumCheck | None = None  # None: with ZooKeeper, or no address responds
    # Of other listeners, as far as they can be connected to from here; by listener and broker.
    other_certificates: tuple[ListenerCertificate, ...] = ()

    @property
    def answered_by(self) -> EndpointCheck | None:
        """Return the first reachable bootstrap address: the one that clients use."""
        return next((check for check in self.bootstrap if check.is_reachable), None)

    @property
    def unreachable(self) -> tuple[EndpointCheck, ...]:
        """Return the bootstrap addresses that failed.

        Clients work as long as one address is reachable, so the others go unnoticed.
        """
        return tuple(check for check in self.bootstrap if not check.is_reachable)

    @property
    def cluster_id(self) -> str | None:
        """Return the id of the cluster that clients reach; None if no address is reachable."""
        return self.answered_by.cluster_id if self.answered_by else None

    @property
    def has_lost_quorum(self) -> bool:
        """Return whether brokers respond and none of them reaches an active controller."""
        return self.quorum is not None and self.quorum.is_lost

    @property
    def controller_id(self) -> int | None:
        """Return the leader of the metadata quorum; None where it is not known."""
        return None if self.quorum is None else self.quorum.leader_id

    @property
    def broker_configs(self) -> Mapping[int, Mapping[str, ConfigValue]]:
        """Return WALK_CONFIGS of each broker of the cluster that told them, by id."""
        return {
            check.actual_broker_id: check.configs
            for check in self.endpoints
            if check.actual_broker_id is not None
            and check.configs
            and check.cluster_id == self.cluster_id
        }

    @property
    def endpoints(self) -> tuple[EndpointCheck, ...]:
        """Return bootstrap addresses, then advertised endpoints; an address may be both."""
        return (*self.bootstrap, *self.advertised.values())

    def metadata_of(self, cluster_id: str | None) -> tuple[tuple[str, MetadataResponse], ...]:
        """Return (address, metadata) of every endpoint that belongs to that cluster."""
        return tuple(
            (check.address, check.metadata)
            for check in self.endpoints
            if check.metadata and check.metadata.cluster_id == cluster_id
        )

    @property
    def certificates(self) -> Mapping[Certificate, tuple[str, ...]]:
        """Return each certificate with the addresses that present it."""
        by_certificate = grouped(
            (check.certificate, check.address) for check in self.endpoints if check.certificate
        )
        return {
            certificate: tuple(dict.fromkeys(addresses))
            for certificate, addresses in by_certificate.items()
        }


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """The whole cluster, in the view of the bootstrap address that answered."""

    brokers: tuple[BrokerDescription, ...]  # registered, by id; before 4.0 only the live ones
    topics: tuple[TopicDescription, ...]  # all, by name
    unavailable: tuple[str, ...] = ()  # what could not be read, with the reason

    @property
    def leader_counts(self) -> Counter[int | None]:
        """Return how many partitions each broker leads; None: those without a leader."""
        return Counter(partition.leader for topic in self.topics for partition in topic.partitions)
