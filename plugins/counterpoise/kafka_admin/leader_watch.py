"""Follows who leads what, by asking for metadata again and again, as clients do.

    with closing(LeaderWatch(settings, walk, topics=("orders",))) as watch:
        for change in watch.look(): ...     # orders-1: 3 -> 1, 4.2 s after broker 3 last answered

Beside each look, the brokers that lead are asked something small: so it is known how long an old
leader had been silent.

Limits: brokers are knocked on only where at most 50 lead; changes that come and go between two
looks are not seen.
"""

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import kafka.errors as kafka_errors

from counterpoise.errors import BrokerSilentError, ClusterError
from counterpoise.kafka_admin import reading
from counterpoise.kafka_admin.bare import BareConnection
from counterpoise.kafka_admin.connection import ConnectionSettings
from counterpoise.kafka_admin.endpoint import EndpointWalker
from counterpoise.kafka_admin.walking import OneAddress
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import PartitionDescription, TopicDescription
from counterpoise.model.walk import LeaderChange, Walk

_ANSWER_SECONDS: Final = 2.0
_LONG_ANSWER_SECONDS: Final = 30.0  # of all topics
_MOST_KNOCKED_ON: Final = 50
_SILENT_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class _Led:
    """The last look at which a partition had this leader."""

    topic_id: str  # one that was deleted and made anew starts from the beginning
    state: PartitionDescription
    at: float


class LeaderWatch:
    """One thread looks. The first look learns; each later one tells what changed since."""

    def __init__(
        self, settings: ConnectionSettings, walk: Walk, *, topics: Sequence[str] = ()
    ) -> None:
        self._settings = settings
        self._topics = tuple(topics) or None
        self._addresses = list(dict.fromkeys(one.address for one in walk.ends if one.answered))
        self._one: OneAddress | None = None
        self._led: dict[TopicPartition, _Led] = {}
        self._now_led_by: dict[TopicPartition, int | None] = {}
        self._knocks = _Knocks(settings, walk)

    def close(self) -> None:
        self._knocks.close()
        if self._one is not None:
            self._one.close()

    def look(self) -> tuple[LeaderChange, ...]:
        """What changed since the look before, by partition.

        Raises ClusterError when no address answers.
        """
        topics = self._describe()
        now = time.monotonic()
        changes: list[LeaderChange] = []
        leaders = set()
        for topic in topics:
            for p in topic.partitions:
                key = TopicPartition(topic.topic, p.partition)
                led = self._led.get(key)
                if (
                    led
                    and led.topic_id == topic.topic_id
                    and (p.leader_epoch or 0) < (led.state.leader_epoch or 0)
                ):
                    continue  # told by a broker that is behind
                if key in self._now_led_by and self._now_led_by[key] != p.leader:
                    changes.append(self._change(key, p, now))
                self._now_led_by[key] = p.leader
                if p.leader is not None:
                    self._led[key] = _Led(topic.topic_id, p, now)
                    leaders.add(p.leader)
        self._knocks.knock(leaders)
        return tuple(sorted(changes, key=lambda change: change.topic_partition))

    def _change(self, key: TopicPartition, state: PartitionDescription, now: float) -> LeaderChange:
        led = self._led.get(key)
        before = led.state.leader if led else None
        return LeaderChange(
            key,
            before=before,
            after=state.leader,
            was_in_sync=led is not None and state.leader in led.state.isr,
            seconds=now - led.at if led else 0.0,
            silent_seconds=None if before is None else self._knocks.silent_seconds(before, now),
        )

    def _describe(self) -> tuple[TopicDescription, ...]:
        """From the address that answered last, else from the next that does: what clients do, too."""
        reasons: list[tuple[str, str]] = []
        for _ in range(len(self._addresses)):
            try:
                if self._one is None:
                    seconds = _ANSWER_SECONDS if self._topics else _LONG_ANSWER_SECONDS
                    self._one = OneAddress(
                        self._settings, self._addresses[0], answer_seconds=seconds
                    )
                return reading.describe_topics(self._one, self._topics)
            except ClusterError as error:
                reasons.append((self._addresses[0], str(error)))
                if self._one is not None:
                    self._one.close()
                    self._one = None
                self._addresses.append(self._addresses.pop(0))
        said = "; ".join(reason for _, reason in reasons)
        raise BrokerSilentError(f"no address answers any more: {said}")


class _Knocks:
    """When each broker last answered; every knock has a thread of its own, so a frozen broker holds
    up nothing.
    """

    def __init__(self, settings: ConnectionSettings, walk: Walk) -> None:
        self._walker = EndpointWalker(settings, answer_seconds=_ANSWER_SECONDS)
        told = walk.answered_by.told if walk.answered_by else None
        self._brokers = {broker.broker_id: broker for broker in (told.brokers if told else ())}
        just_now = time.monotonic()
        self._answered_at = {
            broker_id: just_now for broker_id, one in walk.advertised.items() if one.answered
        }
        self._connections: dict[int, BareConnection] = {}
        self._under_way: dict[int, Future[None]] = {}
        self._pool = ThreadPoolExecutor(_MOST_KNOCKED_ON)

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        for connection in self._connections.values():
            connection.close()

    def knock(self, broker_ids: set[int]) -> None:
        """Ask each that is not being asked already."""
        known = sorted(broker_ids & self._brokers.keys())
        for broker_id in known if len(known) <= _MOST_KNOCKED_ON else ():
            under_way = self._under_way.get(broker_id)
            if under_way is None or under_way.done():
                self._under_way[broker_id] = self._pool.submit(self._ask, broker_id)

    def silent_seconds(self, broker_id: int, now: float) -> float | None:
        """Since it last answered, where that is a while ago; None: it answers, or never did."""
        at = self._answered_at.get(broker_id)
        return None if at is None or now - at < _SILENT_SECONDS else now - at

    def _ask(self, broker_id: int) -> None:
        broker = self._brokers[broker_id]
        connection = self._connections.pop(broker_id, None)
        try:
            connection = connection or self._walker.connect(broker.host, broker.port)
            connection.ask_versions(_ANSWER_SECONDS)
        except (OSError, kafka_errors.KafkaError, ClusterError):
            if connection is not None:
                connection.close()
            return
        self._answered_at[broker_id] = time.monotonic()
        self._connections[broker_id] = connection
