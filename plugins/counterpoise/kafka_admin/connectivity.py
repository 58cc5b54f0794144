"""Checks every bootstrap address, then every endpoint that brokers advertise, in parallel.

    connectivity = check_connectivity(settings, topics=["orders"])
    metadata = read_cluster_metadata(settings, connectivity)   # brokers, controller and topics

The metadata comes from the first reachable bootstrap address, and nothing but a check is sent to
advertised endpoints. So a cluster whose advertised endpoints are all wrong is described all the
same.
"""

import socket
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic, sleep
from typing import Final

import kafka.errors as kafka_errors

from counterpoise.errors import BrokerUnresponsiveError, ClusterError
from counterpoise.kafka_admin import reading
from counterpoise.kafka_admin.broker_client import is_refusal
from counterpoise.kafka_admin.connection import ConnectionSettings, join_address, split_address
from counterpoise.kafka_admin.endpoint import CONNECT_TIMEOUT_SECONDS, EndpointChecker
from counterpoise.model.connectivity import (
    CONTROLLERS,
    VOTERS,
    Certificate,
    ClusterMetadata,
    ConnectivityCheck,
    EndpointCheck,
    ListenerCertificate,
    MetadataResponse,
    QuorumCheck,
    VoterCheck,
)
from counterpoise.model.kafka import BrokerDescription
from counterpoise.model.listeners import Listener, tls_listeners

Progress = Callable[[int, int], None]  # gets how many checks are done, of how many

_MAX_PARALLEL: Final = 128
_MAX_ASKED_FOR_QUORUM: Final = 20
_QUORUM_SECONDS: Final = 5.0  # longer than an election takes
_CERTIFICATES_SECONDS: Final = 6.0  # after that no further listener is connected to
_NOBODY: Final = -1
_TIME_SECONDS: Final = 60.0  # after that no further check is begun, however many are left
_MAX_BYTES: Final = 1_000_000_000  # of a response with a million partitions
# Metadata that still differs between brokers after this time is no change under way.
STALE_AFTER_SECONDS: Final = 2.0


def check_connectivity(
    settings: ConnectionSettings,
    *,
    topics: Sequence[str] = (),
    progress: Progress = lambda _done, _total: None,
) -> ConnectivityCheck:
    """Check every bootstrap address and every advertised endpoint, as far as there is time.

    Each is asked for the leaders of `topics`. What is wrong is in the values; a dead address costs
    3 s. `progress` is told how many checks are done. Raises ConfigurationError for settings that
    cannot be used.
    """
    checker = EndpointChecker(settings)
    listed = [_Place(*split_address(address)) for address in settings.bootstrap_servers]
    with ThreadPoolExecutor(_MAX_PARALLEL) as pool:
        checks = _Checks(checker, topics, pool, progress)
        checks.add(listed)
        advertised = _advertised_places(list(checks.done.values()))
        checks.add(list(advertised.values()))
        if _has_differing_metadata(checks.done.values()):
            sleep(STALE_AFTER_SECONDS)  # a change takes a moment to reach every broker
            checks.add([place for place, check in checks.done.items() if check.is_reachable])
    done, places = checks.done, (*listed, *advertised.values())
    found = ConnectivityCheck(
        settings.security_protocol,
        tuple(done[place] for place in listed if place in done),
        {number: done[place] for number, place in advertised.items() if place in done},
        settings.warnings,
        tuple(join_address(p.host, p.port) for p in places if p not in done),
    )
    with ThreadPoolExecutor(2) as pool:
        quorum = pool.submit(_check_quorum, checker, found)
        certificates = pool.submit(_other_certificates, checker, found)
    return replace(found, quorum=quorum.result(), other_certificates=certificates.result())


@dataclass(frozen=True, slots=True)
class _Place:
    """An address to check, and the broker that advertises it; None for a bootstrap address."""

    host: str
    port: int
    broker_id: int | None = None


class _Checks:
    """Checks places in parallel, until the time is over: those left are not `done`."""

    def __init__(
        self,
        checker: EndpointChecker,
        topics: Sequence[str],
        pool: ThreadPoolExecutor,
        progress: Progress,
    ) -> None:
        self._checker, self._topics, self._pool = checker, topics, pool
        self._progress = progress
        self._ends_at = monotonic() + _TIME_SECONDS
        self._count = self._total = 0
        self.done: dict[_Place, EndpointCheck] = {}

    def add(self, places: Sequence[_Place]) -> None:
        self._total += len(places)
        for place, check in zip(places, self._pool.map(self._check, places), strict=True):
            self._count += 1
            self._progress(self._count, self._total)
            if check is not None:
                self.done[place] = check

    def _check(self, place: _Place) -> EndpointCheck | None:
        if monotonic() >= self._ends_at:
            return None
        return self._checker.check(
            place.host,
            place.port,
            expected_broker=place.broker_id,
            topics=self._topics,
            every_ip=True,
        )


def _advertised_places(bootstrap: Sequence[EndpointCheck]) -> dict[int, _Place]:
    """Return the endpoints of live brokers by id: all that are known to an address of the first
    one's cluster.
    """
    responses = [check.metadata for check in bootstrap if check.metadata is not None]
    brokers: dict[int, BrokerDescription] = {}
    for response in responses:
        if response.cluster_id == responses[0].cluster_id:
            for broker in response.brokers:
                brokers.setdefault(broker.broker_id, broker)
    return {number: _Place(b.host, b.port, number) for number, b in sorted(brokers.items())}


def _has_differing_metadata(checks: Iterable[EndpointCheck]) -> bool:
    compared = [_compared(check.metadata) for check in checks if check.metadata is not None]
    return any(response != compared[0] for response in compared)


def _compared(response: MetadataResponse) -> object:
    """Return what brokers that are up to date agree on: live brokers, leaders and their epochs."""
    leaders = {key: (p.leader, p.leader_epoch) for key, p in response.partitions.items()}
    return response.broker_ids, leaders


# -- Certificates of the listeners with TLS that we do not connect through
#
# Brokers tell their listeners with their configs. Most of those for brokers are out of reach, and
# then nothing is known of them.


def _other_certificates(
    checker: EndpointChecker, connectivity: ConnectivityCheck
) -> tuple[ListenerCertificate, ...]:
    checked = {check.address for check in connectivity.endpoints}
    others = [
        (listener, broker_id)
        for broker_id, configs in connectivity.broker_configs.items()
        for listener in tls_listeners(configs)
        if listener.endpoint_in_config not in checked and listener.port.isdigit()
    ]
    ends_at = monotonic() + _CERTIFICATES_SECONDS

    def certificate_of(listener: Listener) -> Certificate | None:
        if monotonic() >= ends_at:
            return None
        return checker.certificate_at(listener.host, int(listener.port))

    with ThreadPoolExecutor(_MAX_PARALLEL) as pool:
        certificates = pool.map(certificate_of, [listener for listener, _ in others])
        found = [
            ListenerCertificate(listener.name, broker_id, listener.endpoint_in_config, certificate)
            for (listener, broker_id), certificate in zip(others, certificates, strict=True)
            if certificate is not None
        ]
    return tuple(sorted(found, key=lambda one: (one.listener, one.broker_id)))


# -- Whether brokers reach the active controller, and which controllers listen
#
# A broker forwards DescribeQuorum to the active controller. Without one it waits for 60 s and then
# responds with REQUEST_TIMED_OUT, while it responds to Metadata at once.


def _check_quorum(checker: EndpointChecker, connectivity: ConnectivityCheck) -> QuorumCheck | None:
    """Ask brokers of the cluster, in parallel, who leads the metadata quorum.

    None: the cluster has ZooKeeper, or nobody can be asked.
    """
    endpoints = (*connectivity.advertised.values(), *connectivity.bootstrap)
    addresses = dict.fromkeys(
        endpoint.address
        for endpoint in endpoints
        if endpoint.is_reachable and endpoint.cluster_id == connectivity.cluster_id
    )
    asked = list(addresses)[:_MAX_ASKED_FOR_QUORUM]
    if not asked:
        return None
    with ThreadPoolExecutor(_MAX_PARALLEL) as pool:
        pairs = zip(asked, pool.map(partial(_ask_quorum, checker), asked), strict=True)
        responses = {address: response for address, response in pairs if response is not None}
        answered = tuple(a for a, response in responses.items() if response.is_answered)
        is_lost = bool(responses) and not answered
        voters = tuple(pool.map(_check_voter, *_voters_of(connectivity))) if is_lost else ()
    if not responses:
        return None
    told = (responses[address].leader_id for address in answered)
    leader_ids = [leader_id for leader_id in told if leader_id is not None]
    return QuorumCheck(
        answered,
        tuple(address for address in responses if address not in answered),
        leader_ids[0] if leader_ids else None,
        _QUORUM_SECONDS,
        voters,
    )


@dataclass(frozen=True, slots=True)
class _QuorumResponse:
    """What one broker said about the metadata quorum."""

    is_answered: bool  # by the active controller
    leader_id: int | None = None  # None: not told


def _ask_quorum(checker: EndpointChecker, address: str) -> _QuorumResponse | None:
    """Return whether the active controller answered; None where that does not show.

    It does not with ZooKeeper, and where the broker does not respond any more.
    """
    try:
        with closing(checker.connect(address)) as connection:
            response = connection.send(reading.quorum_request(), _QUORUM_SECONDS)
    except TimeoutError:
        return _QuorumResponse(is_answered=False)
    except (OSError, kafka_errors.KafkaError, ClusterError):
        return None
    if is_refusal(response.error_code):
        return _QuorumResponse(is_answered=True)
    leader_ids = [p.leader_id for topic in response.topics for p in topic.partitions]
    is_answered = response.error_code == 0 and max(leader_ids, default=_NOBODY) > _NOBODY
    return _QuorumResponse(is_answered, leader_ids[0] if is_answered else None)


def _voters_of(connectivity: ConnectivityCheck) -> tuple[list[int | None], list[str]]:
    """Return ids and addresses of the voters, by the configs of the first broker with some."""
    for configs in connectivity.broker_configs.values():
        texts = (configs[key].value for key in (VOTERS, CONTROLLERS) if key in configs)
        entries = [entry.strip() for text in texts for entry in (text or "").split(",")]
        pairs = [entry.rpartition("@") for entry in entries if entry]
        if pairs:
            ids = [int(node_id) if node_id.isdigit() else None for node_id, _, _ in pairs]
            return ids, [address for _, _, address in pairs]
    return [], []


def _check_voter(node_id: int | None, address: str) -> VoterCheck:
    """Find out whether anybody listens at a voter's address; nothing is sent there."""
    try:
        socket.create_connection(split_address(address), CONNECT_TIMEOUT_SECONDS).close()
    except ConnectionRefusedError:
        return VoterCheck(address, node_id, False, "nobody listens there")
    except (OSError, ValueError) as error:
        return VoterCheck(address, node_id, None, f"not known from here ({error})")
    return VoterCheck(address, node_id, True, "it accepts connections")


def read_cluster_metadata(
    settings: ConnectionSettings, connectivity: ConnectivityCheck
) -> ClusterMetadata | None:
    """Return the whole cluster in the view of the first reachable bootstrap address.

    None where no address is reachable, or that one no longer is.
    """
    endpoint = connectivity.answered_by
    if endpoint is None or endpoint.metadata is None:
        return None
    unavailable: tuple[str, ...] = ()
    brokers = endpoint.metadata.brokers
    checker = EndpointChecker(settings)
    try:
        with closing(checker.connect(endpoint.address, max_bytes=_MAX_BYTES)) as connection:
            try:
                brokers = reading.describe_cluster(connection).brokers
            except BrokerUnresponsiveError:
                raise
            except ClusterError as error:  # not permitted, or the broker is too old
                unavailable = (f"the fenced brokers: {error}",)
            topics = reading.describe_all_topics(connection)
    except ClusterError:
        return None
    return ClusterMetadata(
        brokers=brokers,
        topics=topics,
        unavailable=unavailable,
    )
