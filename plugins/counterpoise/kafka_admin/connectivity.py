"""Checks every bootstrap address, then every endpoint that brokers advertise, in parallel.

    connectivity = check_connectivity(settings, topics=["orders"])
    metadata = read_cluster_metadata(settings, connectivity)   # brokers, controller and topics

The metadata comes from the first reachable bootstrap address, and nothing but a check is sent to
advertised endpoints. So a cluster whose advertised endpoints are all wrong is described all the
same.
"""

import socket
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic, sleep
from typing import Any, Final, TypeVar

import kafka.errors as kafka_errors

from counterpoise.errors import BrokerUnresponsiveError, ClusterError, UnsupportedRequestError
from counterpoise.kafka_admin import reading
from counterpoise.kafka_admin.broker_client import is_refusal
from counterpoise.kafka_admin.connection import ConnectionSettings, join_address, split_address
from counterpoise.kafka_admin.endpoint import CONNECT_TIMEOUT_SECONDS, EndpointChecker
from counterpoise.model.acl import Acl
from counterpoise.model.connectivity import (
    CONTROLLERS,
    VOTERS,
    ClusterMetadata,
    ConnectivityCheck,
    EndpointCheck,
    MetadataResponse,
    QuorumCheck,
    VoterCheck,
)
from counterpoise.model.kafka import BrokerDescription

Place = TypeVar("Place", bound=Hashable)
Progress = Callable[[int, int], None]  # gets how many checks are done, of how many

_MAX_PARALLEL: Final = 128
_MAX_ASKED_FOR_QUORUM: Final = 20
_QUORUM_SECONDS: Final = 5.0  # longer than an election takes
_NOBODY: Final = -1
_TIME_SECONDS: Final = 60.0  # after that no further check is begun, however many are left
_LARGE_RESPONSE_SECONDS: Final = 60.0  # a million partitions take their time
_LARGE_RESPONSE_BYTES: Final = 1_000_000_000
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
    share_brokers = _broker_sharing()

    def check_bootstrap(address: str) -> EndpointCheck:
        host, port = split_address(address)
        check = checker.check(host, port, topics=topics, every_ip=True)
        return share_brokers(replace(check, address=address))

    def check_advertised(broker: BrokerDescription) -> EndpointCheck:
        expected = broker.broker_id
        check = checker.check(
            broker.host, broker.port, expected_broker=expected, topics=topics, every_ip=True
        )
        return share_brokers(check)

    with ThreadPoolExecutor(_MAX_PARALLEL) as pool:
        checks = _Checks(pool, progress)
        bootstrap = checks.of(settings.bootstrap_servers, check_bootstrap)
        brokers = _advertised_brokers(list(bootstrap.values()))
        advertised = checks.of(brokers, check_advertised)
        if _has_differing_metadata((*bootstrap.values(), *advertised.values())):
            sleep(STALE_AFTER_SECONDS)  # a change takes a moment to reach every broker
            bootstrap |= checks.of(_reachable(bootstrap), check_bootstrap)
            advertised |= checks.of(_reachable(advertised), check_advertised)
    unchecked = [address for address in settings.bootstrap_servers if address not in bootstrap]
    unchecked += [join_address(b.host, b.port) for b in brokers if b not in advertised]
    found = ConnectivityCheck(
        settings.security_protocol,
        tuple(bootstrap[address] for address in settings.bootstrap_servers if address in bootstrap),
        {broker.broker_id: check for broker, check in advertised.items()},
        settings.warnings,
        tuple(unchecked),
    )
    return replace(found, quorum=_check_quorum(checker, found))


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
        with closing(checker.connect(*split_address(address))) as connection:
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


class _Checks:
    """Checks places in parallel, until the time is over."""

    def __init__(self, pool: ThreadPoolExecutor, progress: Progress) -> None:
        self._pool, self._progress = pool, progress
        self._ends_at = monotonic() + _TIME_SECONDS
        self._done = self._total = 0

    def of(
        self, places: Sequence[Place], check_place: Callable[[Place], EndpointCheck]
    ) -> dict[Place, EndpointCheck]:
        """Return the check of each place; those for which there was no time are left out."""

        def check_in_time(place: Place) -> EndpointCheck | None:
            return check_place(place) if monotonic() < self._ends_at else None

        self._total += len(places)
        checks: dict[Place, EndpointCheck] = {}
        for place, check in zip(places, self._pool.map(check_in_time, places), strict=True):
            self._done += 1
            self._progress(self._done, self._total)
            if check is not None:
                checks[place] = check
        return checks


def _broker_sharing() -> Callable[[EndpointCheck], EndpointCheck]:
    """Return a function that keeps equal broker lists in memory only once.

    In a cluster of a thousand brokers each responds with the same thousand.
    """
    shared: dict[tuple[BrokerDescription, ...], tuple[BrokerDescription, ...]] = {}

    def share(check: EndpointCheck) -> EndpointCheck:
        if check.metadata is None:
            return check
        brokers = shared.setdefault(check.metadata.brokers, check.metadata.brokers)
        return replace(check, metadata=replace(check.metadata, brokers=brokers))

    return share


def _advertised_brokers(bootstrap: Sequence[EndpointCheck]) -> list[BrokerDescription]:
    """Return live brokers by id: all that are known to an address of the first one's cluster."""
    responses = [check.metadata for check in bootstrap if check.metadata is not None]
    brokers: dict[int, BrokerDescription] = {}
    for response in responses:
        if response.cluster_id == responses[0].cluster_id:
            for broker in response.brokers:
                brokers.setdefault(broker.broker_id, broker)
    return sorted(brokers.values(), key=lambda broker: broker.broker_id)


def _has_differing_metadata(checks: Iterable[EndpointCheck]) -> bool:
    compared = [_compared(check.metadata) for check in checks if check.metadata is not None]
    return any(response != compared[0] for response in compared)


def _compared(response: MetadataResponse) -> object:
    """Return what brokers that are up to date agree on: live brokers, leaders and their epochs."""
    leaders = {key: (p.leader, p.leader_epoch) for key, p in response.partitions.items()}
    return response.broker_ids, leaders


def _reachable(checks: Mapping[Place, EndpointCheck]) -> list[Place]:
    return [place for place, check in checks.items() if check.is_reachable]


def read_cluster_metadata(
    settings: ConnectionSettings, connectivity: ConnectivityCheck
) -> ClusterMetadata | None:
    """Return the whole cluster in the view of the first reachable bootstrap address.

    None where no address is reachable, or that one no longer is.
    """
    endpoint = connectivity.answered_by
    if endpoint is None or endpoint.metadata is None:
        return None
    unavailable: list[str] = []
    try:
        with closing(AddressClient(settings, endpoint.address)) as client:
            cluster = _read(client, reading.describe_cluster, "the fenced brokers", unavailable)
            topics = reading.describe_topics(client, None)
    except ClusterError:
        return None
    return ClusterMetadata(
        brokers=endpoint.metadata.brokers if cluster is None else cluster.brokers,
        topics=topics,
        controller_id=None if connectivity.quorum is None else connectivity.quorum.leader_id,
        unavailable=tuple(unavailable),
    )


def _read(
    client: "AddressClient", read: Callable[[Any], Any], what: str, unavailable: list[str]
) -> Any:
    """Return what `read` returns.

    None, with the reason noted, where the principal may not read it or the broker is too old.
    """
    try:
        return read(client)
    except BrokerUnresponsiveError:
        raise
    except ClusterError as error:
        unavailable.append(f"{what}: {error}")
        return None


class AddressClient:
    """Sends requests to one address alone, whatever it advertises.

    Raises ClusterError with the stage that failed.
    """

    def __init__(self, settings: ConnectionSettings, address: str) -> None:
        host, port = split_address(address)
        self._settings = settings
        self._address = join_address(host, port)
        checker = EndpointChecker(settings)
        self._connection = checker.connect(host, port, max_bytes=_LARGE_RESPONSE_BYTES)

    def read(self, request: Any, what: str) -> Any:
        """Return the response.

        Raises UnsupportedRequestError, and BrokerUnresponsiveError when the connection ends.
        """
        try:
            return self._connection.send(request, _LARGE_RESPONSE_SECONDS)
        except kafka_errors.IncompatibleBrokerVersion as error:
            raise UnsupportedRequestError(f"{what}: {error}") from None
        except (OSError, kafka_errors.KafkaError) as error:
            reason = self._settings.without_secrets(str(error) or type(error).__name__)
            raise BrokerUnresponsiveError(
                f"{what}: {self._address} does not respond: {reason}; check that broker, and the "
                "network to it"
            ) from None

    @property
    def principal(self) -> str:
        """Return who the cluster takes us for, as far as that can be known from here."""
        return self._settings.principal

    def acl_to_grant(self, acl: Acl) -> Acl:
        return self._settings.acl_to_grant(acl)

    def pause(self, attempt: int) -> None:
        sleep(0.1 * attempt)

    def close(self) -> None:
        self._connection.close()
