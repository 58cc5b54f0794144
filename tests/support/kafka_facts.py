"""The state of a real cluster, read by Kafka's own tools and clients and not by our code.

    before = configs(kafka)         # ["broker 4: leader.replication.throttled.rate=15000", ...]
    assert throttles(before) == [...]

Each tool is a JVM of its own: more than a second of processor time, where a client needs
hundredths. So configs are read by a client; `configs_by_tool` is for clusters with ZooKeeper, and
where a test is about what Kafka's tool shows.
"""

import base64
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from uuid import UUID

from confluent_kafka.admin import (
    AdminClient,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    TopicMetadata,
)

from dev.local_kafka import LocalKafka
from dev.local_processes import wait_until

CONFIGS = "kafka.admin.ConfigCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
CLUSTER_TOOL = "org.apache.kafka.tools.ClusterTool"
DUMP = "org.apache.kafka.tools.DumpLogSegments"

# For the policy of a test's cluster: all brokers share the disk of this machine, which may be full.
ON_A_SHARED_DISK = "balance: {disk_limit_percent: 100}"
# And all brokers advertise an address of this machine, where the tests are.
CLIENTS_HERE = "{rule: advertised-loopback, reason: clients are here, subjects: ['broker *']}"
ON_THIS_MACHINE = f"audit: {{waivers: [{CLIENTS_HERE}]}}"

AGREEMENT_SECONDS = 120.0
EVERY_BROKER: Final = "every broker"  # the default of all brokers, among configs

_MARKERS = itertools.count()

Placement = dict[str, tuple[tuple[int, ...], int]]
Additions = Counter[tuple[int, str, int]]  # by broker, topic id and partition


def placement(kafka: LocalKafka) -> Placement:
    """Return replicas and leader of every partition, by name, once all live brokers tell the same:
    right after a change one of them may not know of it yet.
    """
    told: list[Placement] = []

    def is_agreed() -> bool:
        told[:] = map(_placement_at, kafka.bootstrap)
        return all(one == told[0] for one in told)

    wait_until(is_agreed, "all brokers to tell the same placement", AGREEMENT_SECONDS)
    return told[0]


def _placement_at(address: str) -> Placement:
    return {
        f"{topic}-{number}": (tuple(partition.replicas), partition.leader)
        for topic, described in _topics_at(address).items()
        for number, partition in described.partitions.items()
    }


def _topics_at(address: str) -> dict[str, TopicMetadata]:
    # A new client knows one broker, and asks that one.
    return _client(address).list_topics(timeout=AGREEMENT_SECONDS).topics


def _client(addresses: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": addresses, "log_level": 0})


def leaders_per_broker(kafka: LocalKafka) -> Counter[int]:
    counts = Counter(dict.fromkeys(kafka.live_brokers, 0))
    counts.update(leader for _, leader in placement(kafka).values())
    return counts


def replicas_per_broker(kafka: LocalKafka) -> Counter[int]:
    counts = Counter(dict.fromkeys(kafka.live_brokers, 0))
    counts.update(broker_id for replicas, _ in placement(kafka).values() for broker_id in replicas)
    return counts


def configs(kafka: LocalKafka) -> list[str]:
    """Return what `configs_now` does, once all live brokers act on whatever was changed before."""
    _await_metadata(kafka)
    return configs_now(kafka)


def configs_now(kafka: LocalKafka) -> list[str]:
    """Return a line for each dynamic config of a topic, a broker, and the default of all brokers.

    A default that every broker overrides is not seen.
    """
    client = _client(kafka.bootstrap_string)
    metadata = client.list_topics(timeout=AGREEMENT_SECONDS)
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in metadata.topics]
    requests = [client.describe_configs(resources)] if resources else []
    # A call has room for one broker, which is the one that is asked.
    for broker_id in metadata.brokers:
        broker = ConfigResource(ConfigResource.Type.BROKER, str(broker_id))
        requests.append(client.describe_configs([broker]))
    return sorted(
        {
            line
            for responses in requests
            for resource, response in responses.items()
            for line in _dynamic_configs(resource, response.result(AGREEMENT_SECONDS))
        }
    )


def _dynamic_configs(resource: ConfigResource, entries: Mapping[str, ConfigEntry]) -> Iterator[str]:
    owner = f"{resource.restype.name.lower()} {resource.name}"
    owners = {
        ConfigSource.DYNAMIC_TOPIC_CONFIG.value: owner,
        ConfigSource.DYNAMIC_BROKER_CONFIG.value: owner,
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value: EVERY_BROKER,
    }
    for entry in entries.values():
        if entry.source in owners:
            yield f"{owners[entry.source]}: {entry.name}={entry.value}"


def configs_by_tool(kafka: LocalKafka) -> list[str]:
    """Return the lines of `configs_now`, as kafka-configs finds them."""
    where = ("--bootstrap-server", kafka.bootstrap_string, "--describe", "--entity-type")
    with ThreadPoolExecutor(2) as pool:
        outputs = pool.map(
            lambda kind: kafka.tool(CONFIGS, *where, kind).stdout, ("topics", "brokers")
        )
    lines, owner = [], ""
    for line in "".join(outputs).splitlines():
        if heading := re.fullmatch(r"Dynamic configs for (.*) are:", line):
            owner = heading.group(1)
        elif line == "Default configs for brokers in the cluster are:":
            owner = EVERY_BROKER
        else:
            config, is_config, _ = line.strip().rpartition(" sensitive=")
            assert is_config, f"kafka-configs printed: {line}"
            lines.append(f"{owner}: {config}")
    return sorted(lines)


def throttles(lines: Iterable[str]) -> list[str]:
    """Return, of the lines of `configs`, those that a run could have left behind."""
    return [line for line in lines if "throttled" in line]


def is_copying(kafka: LocalKafka, replication_factor: int) -> bool:
    """Return whether a partition has a replica more: while it moves, it has old and new ones."""
    return any(len(replicas) > replication_factor for replicas, _ in placement(kafka).values())


def throttle_lines(kafka: LocalKafka) -> list[str]:
    """Return every throttle key that kafka-configs finds on any topic or broker."""
    return throttles(configs_by_tool(kafka))


def _await_metadata(kafka: LocalKafka) -> None:
    """Wait until all live brokers act on what the controller has written by now.

    They apply its log in order. Each that shows a topic made after that has read it; each that
    then shows the topic's end, too, has done with all that came before it.
    """
    marker = f"marker-{next(_MARKERS)}"
    client = _client(kafka.bootstrap_string)

    def is_shown(address: str) -> bool:
        return marker in _topics_at(address)

    client.create_topics([NewTopic(marker, 1, 1)])[marker].result(AGREEMENT_SECONDS)
    wait_until(
        lambda: all(map(is_shown, kafka.bootstrap)),
        "all brokers to show a topic",
        AGREEMENT_SECONDS,
    )
    client.delete_topics([marker])[marker].result(AGREEMENT_SECONDS)
    wait_until(
        lambda: not any(map(is_shown, kafka.bootstrap)),
        "all brokers to show a topic's end",
        AGREEMENT_SECONDS,
    )


def ongoing_reassignments(kafka: LocalKafka) -> str:
    """Return the output of kafka-reassign-partitions --list; "" when it finds none."""
    options = ("--bootstrap-server", kafka.bootstrap_string, "--list")
    output = kafka.tool(REASSIGN, *options).stdout.strip()
    return "" if "No partition reassignments found" in output else output


def times_added(kafka: LocalKafka, broker_id: int) -> Counter[tuple[str, int]]:
    """Return how often a broker was added, by (topic id, partition)."""
    return Counter(
        {
            (topic_id, partition): times
            for (added_id, topic_id, partition), times in additions(kafka).items()
            if added_id == broker_id
        }
    )


def additions(kafka: LocalKafka, controllers: Iterable[int] = (1, 2, 3)) -> Additions:
    """Return how often the metadata log starts to add each broker to each partition.

    Every controller has the same log, but may lag: the longest one is read.
    """
    logs = [
        log
        for controller in controllers
        for log in kafka.home(controller).directory.rglob("__cluster_metadata-0/*.log")
    ]
    longest = max(logs, key=lambda log: log.stat().st_size)
    text = kafka.tool(DUMP, "--cluster-metadata-decoder", "--files", str(longest)).stdout
    added: Additions = Counter()
    for record in re.findall(r'payload: \{"type":"PARTITION_CHANGE_RECORD".*', text):
        partition = int(re.search(r'"partitionId":(\d+)', record).group(1))  # type: ignore[union-attr]
        encoded_id = re.search(r'"topicId":"([^"]+)"', record).group(1)  # type: ignore[union-attr]
        topic_id = str(UUID(bytes=base64.urlsafe_b64decode(f"{encoded_id}==")))
        adding = re.search(r'"addingReplicas":\[([\d,]*)\]', record)
        for broker_id in filter(None, adding.group(1).split(",")) if adding else ():
            added[int(broker_id), topic_id, partition] += 1
    return added


def configs_but_of_topics(kafka: LocalKafka) -> list[str]:
    """Return the lines of `configs` about brokers, and any throttle of a topic."""
    is_of_topic = re.compile(r"topic (?!.*throttled)")
    return [line for line in configs(kafka) if not is_of_topic.match(line)]


def leave_empty(kafka: LocalKafka, configs_before: list[str]) -> None:
    """Delete all topics of a shared cluster, for the next tests.

    Fails where a reassignment is under way, or where brokers have other configs than before.
    """
    assert ongoing_reassignments(kafka) == "", "a reassignment was left behind"
    assert configs_but_of_topics(kafka) == configs_before, "configs were left behind"
    delete_topics(kafka, set(_topics_at(kafka.bootstrap[0])))


def delete_topics(kafka: LocalKafka, names: set[str]) -> None:
    """Delete topics, and wait until no broker tells of them."""
    client = _client(kafka.bootstrap_string)
    for deleted in client.delete_topics(list(names)).values() if names else ():
        deleted.result(AGREEMENT_SECONDS)

    def are_gone() -> bool:
        return all(names.isdisjoint(_topics_at(address)) for address in kafka.bootstrap)

    wait_until(are_gone, "topics to be gone", AGREEMENT_SECONDS)
