"""The state of a real cluster, read by Kafka's own tools and clients and not by our code."""

import re
from collections import Counter
from collections.abc import Iterable

from confluent_kafka.admin import AdminClient

from local_kafka import LocalKafka
from local_processes import wait_until

CONFIGS = "kafka.admin.ConfigCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
CLUSTER_TOOL = "org.apache.kafka.tools.ClusterTool"
DUMP = "org.apache.kafka.tools.DumpLogSegments"

# For the policy of a test's cluster: all brokers share the disk of this machine, which may be full.
ON_A_SHARED_DISK = "balance: {disk_limit_percent: 100}"

AGREEMENT_SECONDS = 120.0

Placement = dict[str, tuple[tuple[int, ...], int]]


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
    # A new client knows one broker, and asks that one.
    client = AdminClient({"bootstrap.servers": address, "log_level": 0})
    metadata = client.list_topics(timeout=AGREEMENT_SECONDS)
    return {
        f"{topic}-{number}": (tuple(partition.replicas), partition.leader)
        for topic, described in metadata.topics.items()
        for number, partition in described.partitions.items()
    }


def leaders_per_broker(kafka: LocalKafka) -> Counter[int]:
    counts = Counter(dict.fromkeys(kafka.live_brokers, 0))
    counts.update(leader for _, leader in placement(kafka).values())
    return counts


def replicas_per_broker(kafka: LocalKafka) -> Counter[int]:
    counts = Counter(dict.fromkeys(kafka.live_brokers, 0))
    counts.update(broker_id for replicas, _ in placement(kafka).values() for broker_id in replicas)
    return counts


def throttle_lines(kafka: LocalKafka) -> list[str]:
    """Return every throttle key that kafka-configs finds on any topic or broker."""
    options = ("--bootstrap-server", kafka.bootstrap_string, "--describe", "--entity-type")
    lines: list[str] = []
    for kind in ("topics", "brokers"):
        output = kafka.tool(CONFIGS, *options, kind).stdout
        lines += [line.strip() for line in output.splitlines() if "throttled" in line]
    return lines


def ongoing_reassignments(kafka: LocalKafka) -> str:
    """Return the output of kafka-reassign-partitions --list; "" when it finds none."""
    options = ("--bootstrap-server", kafka.bootstrap_string, "--list")
    output = kafka.tool(REASSIGN, *options).stdout.strip()
    return "" if "No partition reassignments found" in output else output


def times_added(
    kafka: LocalKafka, broker_id: int, controllers: Iterable[int] = (1, 2, 3)
) -> Counter[tuple[str, int]]:
    """Return how often the metadata log starts to add a broker, by (topic id, partition)."""
    texts = []
    for controller in controllers:
        for log in kafka.home(controller).directory.rglob("__cluster_metadata-0/*.log"):
            files = ("--files", str(log))
            texts.append(kafka.tool(DUMP, "--cluster-metadata-decoder", *files).stdout)
    longest = max(texts, key=len)  # every controller has the same log, but may lag
    added: Counter[tuple[str, int]] = Counter()
    for record in re.findall(r'payload: \{"type":"PARTITION_CHANGE_RECORD".*', longest):
        partition = int(re.search(r'"partitionId":(\d+)', record).group(1))  # type: ignore[union-attr]
        topic_id = re.search(r'"topicId":"([^"]+)"', record).group(1)  # type: ignore[union-attr]
        adding = re.search(r'"addingReplicas":\[([\d,]*)\]', record)
        if adding and str(broker_id) in adding.group(1).split(","):
            added[topic_id, partition] += 1
    return added
