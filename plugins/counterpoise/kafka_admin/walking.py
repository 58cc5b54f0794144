"""Walks the whole way: every bootstrap address, then every endpoint that the brokers advertise,
side by side.

    walk = walk_cluster(settings, topics=["orders"])
    sight = look_around(settings, walk)      # brokers, controller, topics, told by the address that answered

Limits: nothing is asked through advertised endpoints but whether they answer, so a cluster that
advertises nothing that can be reached from here is seen all the same.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any, Final

import kafka.errors as kafka_errors

from counterpoise.errors import BrokerSilentError, ClusterError
from counterpoise.kafka_admin import reading
from counterpoise.kafka_admin.bare import BareConnection
from counterpoise.kafka_admin.broker_client import UnsupportedRequestError
from counterpoise.kafka_admin.connection import SASL_MECHANISMS, ConnectionSettings, split_address
from counterpoise.kafka_admin.endpoint import EndpointWalker, host_and_port
from counterpoise.kafka_admin.quorum import describe_quorum
from counterpoise.model.kafka import BrokerDescription
from counterpoise.model.walk import ClusterSight, EndpointWalk, MetadataAnswer, Walk

_SIDE_BY_SIDE: Final = 32
_LONG_ANSWER_SECONDS: Final = 60.0  # a million partitions take their time
_LONG_ANSWER_BYTES: Final = 1_000_000_000
STALE_AFTER_SECONDS: Final = (
    2.0  # what brokers tell differently for longer than this is no change under way
)


def walk_cluster(settings: ConnectionSettings, *, topics: Sequence[str] = ()) -> Walk:
    """Walks every bootstrap address and every advertised endpoint; `topics`: whose leaders each is
    asked for.

    What is wrong there is in the values; a dead one costs 3 s. Raises ConfigurationError for
    settings that cannot be used.
    """
    walker = EndpointWalker(settings)
    shared: dict[tuple[BrokerDescription, ...], tuple[BrokerDescription, ...]] = {}

    def sharing(one: EndpointWalk) -> EndpointWalk:
        """A thousand brokers tell the same thousand each: kept once."""
        if one.told is None:
            return one
        return replace(
            one,
            told=replace(one.told, brokers=shared.setdefault(one.told.brokers, one.told.brokers)),
        )

    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:

        def at_bootstrap(address: str) -> EndpointWalk:
            host, port = split_address(address)
            return sharing(replace(walker.walk(host, port, topics=topics), address=address))

        def at_broker(broker: BrokerDescription) -> EndpointWalk:
            return sharing(
                walker.walk(
                    broker.host, broker.port, expected_broker=broker.broker_id, topics=topics
                )
            )

        bootstrap = tuple(pool.map(at_bootstrap, settings.bootstrap_servers))
        brokers = _advertised(bootstrap)
        advertised = dict(zip(brokers, pool.map(at_broker, brokers.values()), strict=True))
        walk = Walk(settings.security_protocol, bootstrap, advertised)
        if _disagree(walk):
            time.sleep(STALE_AFTER_SECONDS)  # a change takes a moment to reach every broker
            walk = replace(
                walk,
                bootstrap=tuple(
                    _again(walk.bootstrap, settings.bootstrap_servers, at_bootstrap, pool)
                ),
                advertised=dict(
                    zip(
                        brokers,
                        _again(tuple(advertised.values()), list(brokers.values()), at_broker, pool),
                        strict=True,
                    )
                ),
            )
    return walk


def _advertised(bootstrap: Sequence[EndpointWalk]) -> dict[int, BrokerDescription]:
    """Live brokers by id: those that any bootstrap address of the first one's cluster tells of."""
    told = [one.told for one in bootstrap if one.told is not None]
    found: dict[int, BrokerDescription] = {}
    for answer in told:
        if answer.cluster_id == told[0].cluster_id:
            for broker in answer.brokers:
                found.setdefault(broker.broker_id, broker)
    return dict(sorted(found.items()))


def _disagree(walk: Walk) -> bool:
    told = [one.told for one in walk.ends if one.told is not None]
    return any(_compared(answer) != _compared(told[0]) for answer in told)


def _compared(answer: MetadataAnswer) -> object:
    return answer.broker_ids, {
        key: (p.leader, p.leader_epoch) for key, p in answer.partitions.items()
    }


def _again(
    walks: Sequence[EndpointWalk],
    where: Sequence[Any],
    walk: Callable[[Any], EndpointWalk],
    pool: ThreadPoolExecutor,
) -> list[EndpointWalk]:
    """Those that answered are asked once more; a dead one is dead."""
    answered = [place for place, one in zip(where, walks, strict=True) if one.answered]
    fresh = iter(list(pool.map(walk, answered)))
    return [next(fresh) if one.answered else one for one in walks]


def look_around(settings: ConnectionSettings, walk: Walk) -> ClusterSight | None:
    """The whole cluster as the address that answered tells it; None where none did, or when it no
    longer does.
    """
    if walk.answered_by is None or walk.answered_by.told is None:
        return None
    if settings.sasl_mechanism not in (None, *SASL_MECHANISMS):
        brokers = walk.answered_by.told.brokers
        return ClusterSight(
            brokers, (), not_told=(f"controller, topics: not with {settings.sasl_mechanism}",)
        )
    try:
        with closing(OneAddress(settings, walk.answered_by.address)) as one:
            not_told: list[str] = []
            cluster = _told(one, reading.describe_cluster, "the fenced brokers", not_told)
            quorum = _told(one, describe_quorum, "the active controller", not_told)
            topics = reading.describe_topics(one, None)
    except ClusterError:
        return None
    return ClusterSight(
        brokers=walk.answered_by.told.brokers if cluster is None else cluster.brokers,
        topics=topics,
        controller_id=None if quorum is None else reading.or_none(quorum.leader_id),
        not_told=tuple(not_told),
    )


def _told(one: "OneAddress", ask: Callable[[Any], Any], what: str, not_told: list[str]) -> Any:
    """The answer; None, with the reason noted, where this principal or this broker's version has
    none.
    """
    try:
        return ask(one)
    except BrokerSilentError:
        raise
    except ClusterError as error:
        not_told.append(f"{what}: {error}")
        return None


class OneAddress:
    """Requests to one address alone, whatever it advertises.

    Raises ClusterError with the step that failed.
    """

    def __init__(
        self,
        settings: ConnectionSettings,
        address: str,
        *,
        answer_seconds: float = _LONG_ANSWER_SECONDS,
    ) -> None:
        host, port = split_address(address)
        self._answer_seconds = answer_seconds
        self._settings = settings
        self._address = host_and_port(host, port)
        self._connection: BareConnection = EndpointWalker(settings).connect(
            host, port, most_bytes=_LONG_ANSWER_BYTES
        )

    def read(self, request: Any, what: str) -> Any:
        """The answer.

        Raises UnsupportedRequestError, and BrokerSilentError when the connection ends.
        """
        try:
            return self._connection.ask(request, self._answer_seconds)
        except kafka_errors.IncompatibleBrokerVersion as error:
            raise UnsupportedRequestError(f"{what}: {error}") from None
        except (OSError, kafka_errors.KafkaError) as error:
            reason = self._settings.without_secrets(str(error) or type(error).__name__)
            raise BrokerSilentError(f"{what}: {self._address} gives no answer: {reason}") from None

    def pause(self, attempt: int) -> None:
        time.sleep(0.1 * attempt)

    def close(self) -> None:
        self._connection.close()
