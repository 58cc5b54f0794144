"""The walk that every client takes, from a bootstrap address to the brokers: what each step said,
and how long it took.

    walk.answered_by                  # the first bootstrap address that led to the cluster; None: none did
    walk.advertised[3].failed_step    # where a client that was sent to broker 3 stops; None: it gets through

Plain values; `kafka_admin` takes the steps, `audit` and the pages read them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import BrokerDescription, PartitionDescription, TopicDescription
from counterpoise.units import format_moment


class StepName(StrEnum):
    """In the order in which they are taken; TLS and SASL only where the connection asks for them."""

    RESOLVE = "resolve"
    TCP = "tcp"
    TLS = "tls"
    SASL = "sasl"
    API_VERSIONS = "api versions"
    METADATA = "metadata"


@dataclass(frozen=True, slots=True)
class Step:
    name: StepName
    is_ok: bool
    said: str  # what was found, or why it failed; without secrets, may hold text from outside
    milliseconds: int


@dataclass(frozen=True, slots=True)
class Certificate:
    """The one that a broker shows, whether or not it is trusted."""

    subject: str
    issuer: str
    names: tuple[str, ...]  # DNS names and IP addresses that it is for
    expires_at: datetime  # UTC
    matches_host: bool

    @property
    def expires_in_words(self) -> str:
        """`2026-12-01 00:00 UTC`."""
        return format_moment(self.expires_at)


@dataclass(frozen=True, slots=True)
class MetadataAnswer:
    """What one broker told of the cluster."""

    cluster_id: str
    brokers: tuple[BrokerDescription, ...]  # the live ones, as this broker sees them; by id
    partitions: Mapping[TopicPartition, PartitionDescription] = field(
        default_factory=dict
    )  # of the topics asked for

    @property
    def broker_ids(self) -> frozenset[int]:
        return frozenset(broker.broker_id for broker in self.brokers)


@dataclass(frozen=True, slots=True)
class EndpointWalk:
    """One address, walked once; the steps end with the first that failed."""

    address: str  # host:port
    steps: tuple[Step, ...]
    ips: tuple[str, ...] = ()  # that the name resolved to
    certificate: Certificate | None = None
    told: MetadataAnswer | None = None
    is_expected_broker: bool | None = (
        None  # of an advertised endpoint; None: not known, or nobody was expected
    )
    actual_broker_id: int | None = None  # where it is another one, and says which

    @property
    def failed_step(self) -> Step | None:
        return next((step for step in self.steps if not step.is_ok), None)

    @property
    def answered(self) -> bool:
        return self.failed_step is None

    @property
    def failure(self) -> str:
        """The step that failed, and what it said; "" where none did."""
        step = self.failed_step
        return "" if step is None else f"{step.name}: {step.said}"

    @property
    def cluster_id(self) -> str | None:
        """Of the cluster that whoever answered belongs to; None: nobody told."""
        return self.told.cluster_id if self.told else None

    @property
    def actual_broker(self) -> str:
        """Who answers where another broker was expected: `broker 4`, or `another broker`."""
        return (
            "another broker" if self.actual_broker_id is None else f"broker {self.actual_broker_id}"
        )


@dataclass(frozen=True, slots=True)
class Walk:
    """From every bootstrap address to every endpoint that the brokers advertise."""

    security_protocol: str
    bootstrap: tuple[EndpointWalk, ...]  # in the order of the list
    advertised: Mapping[int, EndpointWalk] = field(default_factory=dict)  # by live broker

    @property
    def answered_by(self) -> EndpointWalk | None:
        """The first that answered: the one that clients use."""
        return next((one for one in self.bootstrap if one.answered), None)

    @property
    def silent(self) -> tuple[EndpointWalk, ...]:
        """Bootstrap addresses that lead nowhere. A half-dead list works, until it is dead."""
        return tuple(one for one in self.bootstrap if not one.answered)

    @property
    def cluster_id(self) -> str | None:
        """Of the cluster that clients are led to; None: no bootstrap address answered."""
        return self.answered_by.cluster_id if self.answered_by else None

    @property
    def ends(self) -> tuple[EndpointWalk, ...]:
        """Bootstrap addresses, then advertised endpoints; an address may be both."""
        return (*self.bootstrap, *self.advertised.values())

    def told_of(self, cluster_id: str | None) -> tuple[tuple[str, MetadataAnswer], ...]:
        """What each end of that cluster told, with its address."""
        return tuple(
            (one.address, one.told)
            for one in self.ends
            if one.told and one.told.cluster_id == cluster_id
        )

    @property
    def certificates(self) -> Mapping[Certificate, tuple[str, ...]]:
        """Each that was shown, and at which addresses."""
        shown: dict[Certificate, dict[str, None]] = {}
        for one in self.ends:
            if one.certificate:
                shown.setdefault(one.certificate, {})[one.address] = None
        return {certificate: tuple(addresses) for certificate, addresses in shown.items()}


@dataclass(frozen=True, slots=True)
class ClusterSight:
    """What the address that answered tells of the whole cluster."""

    brokers: tuple[
        BrokerDescription, ...
    ]  # registered, by id; brokers before 4.0 leave the fenced ones out
    topics: tuple[TopicDescription, ...]  # all, by name
    controller_id: int | None = None  # the leader of the metadata quorum
    not_told: tuple[str, ...] = ()  # what could not be asked, with the reason

    @property
    def leaders(self) -> Mapping[int, tuple[TopicPartition, ...]]:
        """By broker, live ones that lead nothing included."""
        found: dict[int, list[TopicPartition]] = {
            b.broker_id: [] for b in self.brokers if not b.is_fenced
        }
        for topic in self.topics:
            for p in topic.partitions:
                if p.leader is not None:
                    found.setdefault(p.leader, []).append(TopicPartition(topic.topic, p.partition))
        return {broker_id: tuple(partitions) for broker_id, partitions in sorted(found.items())}


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """A partition's leader is another one than at the look before."""

    topic_partition: TopicPartition
    before: int | None
    after: int | None  # None: nobody leads it now
    was_in_sync: (
        bool  # whether the new one was in the ISR while the old one led; None leads nothing: False
    )
    seconds: float  # since the last look that had the old leader
    silent_seconds: float | None = (
        None  # since the old leader's broker last answered; None: it answers
    )
