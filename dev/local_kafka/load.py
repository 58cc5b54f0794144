"""Topics and records for a local cluster, as uneven as a test needs.

    create_topics(bootstrap, [TopicSpec("orders", replica_assignments=[(1, 2, 3), (1, 3, 2)])])
    fill(bootstrap, "orders", {0: 100 * MB, 1: 5 * MB})
    with SteadyProducer(bootstrap, "orders", records_per_second=50) as producer:
        ...
    assert producer.failed == 0

Sizes are bytes of record values; a log is about 1 % larger.

Limits: plaintext; one process writes some 100 MB/s at best.
"""

import os
import random
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from dev.local_kafka.cluster import LocalKafkaError
from dev.local_processes import wait_until

MB = 1_000_000
TIMEOUT_SECONDS = 120.0
REQUEST_SECONDS = 30.0
FILL_TIMEOUT_SECONDS = 300.0
PACE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic to create, by `replica_assignments` or by counts.

    An assignment has the replicas of each partition, the preferred leader first.
    """

    name: str
    replica_assignments: Sequence[Sequence[int]] = ()
    partitions: int = 1
    replication_factor: int = 1
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def partition_count(self) -> int:
        """Return the number of partitions."""
        return len(self.replica_assignments) or self.partitions

    def as_new_topic(self) -> NewTopic:
        """Return the argument for confluent-kafka's admin client."""
        if self.replica_assignments:
            assignments = [list(replicas) for replicas in self.replica_assignments]
            return NewTopic(
                self.name,
                len(assignments),
                replica_assignment=assignments,
                config=dict(self.configs),
            )
        return NewTopic(
            self.name, self.partitions, self.replication_factor, config=dict(self.configs)
        )


def create_topics(bootstrap: str, topics: Sequence[TopicSpec]) -> None:
    """Create topics and wait until each broker of `bootstrap` knows a leader of every partition.

    Raises LocalKafkaError with the broker's reason.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    addresses = bootstrap.split(",")
    unanswered = _create(admin, topics)
    for _ in addresses:
        unanswered = _create(admin, unanswered, may_exist=True)
    if unanswered:
        raise LocalKafkaError(f"topic {unanswered[0].name} was not created: no broker answered")

    # A broker may learn of them later than the one that is asked next.
    def are_all_known() -> bool:
        while addresses and _knows_leaders(addresses[0], topics):
            addresses.pop(0)
        return not addresses

    wait_until(are_all_known, "leaders of the new topics at every broker", TIMEOUT_SECONDS)


def _create(
    admin: AdminClient, topics: Sequence[TopicSpec], *, may_exist: bool = False
) -> list[TopicSpec]:
    """Create topics; return those of which no answer came, which may exist.

    A request at a bootstrap address is given up when librdkafka learns which broker that is: each
    address may cost one request.
    """
    if not topics:
        return []
    admin.list_topics(timeout=TIMEOUT_SECONDS)
    futures = admin.create_topics(
        [topic.as_new_topic() for topic in topics], operation_timeout=TIMEOUT_SECONDS
    )
    unanswered = []
    for topic in topics:
        try:
            futures[topic.name].result()
        except KafkaException as raised:
            error = raised.args[0]
            if error.code() == KafkaError._DESTROY_BROKER:
                unanswered.append(topic)
            elif error.code() != KafkaError.TOPIC_ALREADY_EXISTS or not may_exist:
                why = f"topic {topic.name} was not created: {error.str()}"
                raise LocalKafkaError(why) from raised
    return unanswered


def _knows_leaders(address: str, topics: Sequence[TopicSpec]) -> bool:
    # A new client knows one broker, and asks that one.
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    # All topics are requested: naming one that does not exist yet could create it.
    try:
        described = admin.list_topics(timeout=REQUEST_SECONDS).topics
    except KafkaException:  # it is busy
        return False
    for topic in topics:
        if topic.name not in described:
            return False
        partitions = described[topic.name].partitions.values()
        if sum(partition.leader >= 0 for partition in partitions) != topic.partition_count:
            return False
    return True


def fill(
    bootstrap: str, topic: str, partition_bytes: Mapping[int, int], record_bytes: int = 10_000
) -> None:
    """Write so many bytes to each partition, and wait until all in-sync replicas have them.

    The records do not compress. Raises LocalKafkaError when a record is refused or not
    acknowledged.
    """
    errors: list[KafkaError] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "acks": "all",
            "linger.ms": 20,
            # As small as those of real producers: Kafka's throttle also counts the part of a batch
            # that a fetch cuts off.
            "batch.size": 32768,
            "queue.buffering.max.kbytes": 65536,
        }
    )
    values = _RandomValues(record_bytes)
    remaining = {partition: size for partition, size in sorted(partition_bytes.items()) if size > 0}
    while remaining and not errors:
        for partition in list(remaining):
            value = values.next_value(remaining[partition])
            _produce(producer, topic, value, partition, errors)
            remaining[partition] -= record_bytes
            if remaining[partition] <= 0:
                del remaining[partition]
    unsent = producer.flush(FILL_TIMEOUT_SECONDS)
    if errors:
        raise LocalKafkaError(
            f"{len(errors)} records for {topic} failed, the first one with: {errors[0].str()}"
        )
    if unsent:
        raise LocalKafkaError(
            f"{unsent} records for {topic} were not acknowledged in {FILL_TIMEOUT_SECONDS:g} s"
        )


def _produce(
    producer: Producer, topic: str, value: bytes, partition: int, errors: list[KafkaError]
) -> None:
    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            errors.append(error)

    while True:
        try:
            producer.produce(topic, value, partition=partition, on_delivery=delivered)
        except BufferError:  # the producer's queue is full: wait until some are sent
            producer.poll(PACE_SECONDS)
        else:
            producer.poll(0)
            return


class SteadyProducer:
    """Writes records in its own thread and counts them.

    `sent` = `acknowledged` + `failed` + those in flight; after `stop` none is in flight.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        records_per_second: float,
        record_bytes: int = 1_000,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        self.sent = 0
        self.acknowledged = 0
        self.failed = 0
        self.last_error: str | None = None
        self._topic = topic
        self._rate = records_per_second
        self._values = _RandomValues(record_bytes)
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "log_level": 0, "acks": "all", **(configs or {})}
        )
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"producer to {topic}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        """Stop, and wait for records in flight; those not acknowledged in time count as failed."""
        self._ending.set()
        self._thread.join()
        self._producer.flush(timeout_seconds)
        self.failed = self.sent - self.acknowledged

    def _run(self) -> None:
        started_at = time.monotonic()
        while not self._ending.wait(PACE_SECONDS):
            due_count = int((time.monotonic() - started_at) * self._rate)
            while self.sent < due_count and not self._ending.is_set():
                self._send_one()
            self._producer.poll(0)

    def _send_one(self) -> None:
        self.sent += 1
        try:
            self._producer.produce(
                self._topic, self._values.next_value(), on_delivery=self._delivered
            )
        except BufferError as error:  # the cluster has accepted nothing for a long time
            self.failed += 1
            self.last_error = str(error)
        self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failed += 1
            self.last_error = error.str()


class _RandomValues:
    """Record values that do not compress: slices of random bytes."""

    def __init__(self, record_bytes: int) -> None:
        self._record_bytes = record_bytes
        self._random_bytes = os.urandom(record_bytes + 4 * MB)
        self._random = random.Random()

    def next_value(self, max_bytes: int | None = None) -> bytes:
        size = self._record_bytes if max_bytes is None else min(self._record_bytes, max_bytes)
        start = self._random.randrange(len(self._random_bytes) - size + 1)
        return self._random_bytes[start : start + size]
