"""A zoo of healthy clusters: the audit finds nothing above info on any of them.

    for name, make in ZOO.items(): above_info(make()) == []

They differ in what platforms and teams choose: size, roles, names, racks, certificates, ways in.
`tests/integration/test_audit_zoo.py` has real ones.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

import pyarrow as pa

from counterpoise.audit.auditing import compare
from counterpoise.audit.facts import AuditFacts
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.connectivity import Certificate
from counterpoise.model.kafka import (
    FOLLOWER_RATE,
    LEADER_RATE,
    LEADER_REPLICAS,
    ConfigResource,
    ConfigResourceType,
)
from counterpoise.model.policy import AuditPolicy, BalancePolicy
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.model.severity import Severity, Waiver
from counterpoise.model.tables import TOPIC_LOAD
from counterpoise.planning import make_plan
from counterpoise.services.audits import findings_of
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.audits import (
    NOW,
    connectivity,
    endpoint,
    facts,
    healthy,
    keeping_empty,
    quorum,
    snapshot_of,
)
from tests.support.pictures import cluster as picture_of

GB: Final = 10**9
INTERNAL: Final = ("__consumer_offsets", "__transaction_state")
CONTROLLER_RACKS: Final = {101: "a", 102: "b", 103: "c"}


def above_info(given: AuditFacts) -> list[str]:
    """Return what nobody waived and is worse than an info."""
    report = compare(None, findings_of(given), given)
    return [
        f"{one.finding.rule} of {one.finding.subject}: {one.finding.summary}"
        for one in report.open_at(Severity.WARNING)
    ]


def racks_in_turn(count: int, first: int = 1, racks: str = "abc") -> str:
    return " ".join(f"{first + n}={racks[n % len(racks)]}" for n in range(count))


def topics_in_turn(
    broker_ids: Sequence[int], topics: Sequence[str], factor: int = 3, rounds: int = 2
) -> str:
    """Partitions whose replicas are the next brokers in turn, the same number of each leader."""
    count = len(broker_ids)
    lines = []
    for topic in topics:
        for number in range(count * rounds):
            replicas = [str(broker_ids[(number + step) % count]) for step in range(factor)]
            lines.append(f"{topic}-{number}: {' '.join(replicas)} size={GB} rate=10000")
    return "\n".join(lines)


def regular(
    count: int = 3,
    *,
    combined: bool = False,
    first: int = 1,
    topics: Sequence[str] = ("orders", "payments", *INTERNAL),
) -> SimulatedCluster:
    """So many brokers in three racks, everything even."""
    ids = range(first, first + count)
    cluster = healthy(topics_in_turn(ids, topics), racks=racks_in_turn(count, first))
    if combined:
        cluster.quorum = quorum(voters=tuple(ids)[:3], observers=tuple(ids)[3:])
    return cluster


def set_static(cluster: SimulatedCluster, **values: str) -> SimulatedCluster:
    for broker_id in cluster.brokers:
        named = {key.replace("_", "."): text.format(broker_id) for key, text in values.items()}
        cluster.configs.static[broker_id] = {**cluster.configs.static[broker_id], **named}
    return cluster


def two_on_purpose() -> AuditFacts:
    picture = topics_in_turn((1, 2), ("orders", *INTERNAL), factor=2)
    cluster = healthy(picture, racks="1=a 2=b")
    set_static(
        cluster,
        default_replication_factor="2",
        offsets_topic_replication_factor="2",
        transaction_state_log_replication_factor="2",
        min_insync_replicas="1",
    )
    return facts(cluster)


def uneven_racks(racks: str) -> AuditFacts:
    """As even as a plan can make it: brokers of small racks hold more."""
    ids = [int(word.partition("=")[0]) for word in racks.split()]
    picture = topics_in_turn(ids, ("orders", "clicks"), rounds=3)
    snapshot = picture_of(picture, racks=racks)
    plan = make_plan(snapshot, PlanRequest(Goal.REBALANCE, policy=BalancePolicy()))
    after = {move.topic_partition: move.replicas_after for move in plan.moves}
    lines = []
    for row in snapshot.partitions.to_pylist():
        key = TopicPartition(row["topic"], row["partition"])
        replicas = " ".join(map(str, after.get(key, row["replicas"])))
        lines.append(f"{key.topic}-{key.partition}: {replicas} size={GB} rate=10000")
    return facts(healthy("\n".join(lines), racks=racks))


def strimzi() -> AuditFacts:
    """Listeners, ids from 0, topics and certificates as the operator makes them; one service."""
    topics = ("orders", "__strimzi_store_topic", *INTERNAL)
    cluster = regular(first=0, topics=topics)
    host = "demo-kafka-{0}.demo-kafka-brokers.kafka.svc"
    listeners = f"REPLICATION-9091://{host}:9091,PLAIN-9092://{host}:9092,TLS-9093://{host}:9093"
    set_static(
        cluster,
        listeners=listeners,
        advertised_listeners=listeners,
        controller_listener_names="CONTROLPLANE-9090",
        listener_security_protocol_map="CONTROLPLANE-9090:SSL,REPLICATION-9091:SSL,"
        "PLAIN-9092:PLAINTEXT,TLS-9093:SSL",
        inter_broker_listener_name="REPLICATION-9091",
    )
    given = facts(cluster)
    address, issuer = "demo-kafka-bootstrap.kafka.svc:9093", "O=io.strimzi,CN=cluster-ca v0"
    return behind_one_address(given, address, days=40, of=365, issuer=issuer)


def confluent() -> AuditFacts:
    topics = ("orders", "_confluent-metrics", "_confluent-command", *INTERNAL)
    cluster = regular(6, topics=topics)
    listeners = (
        "INTERNAL://broker-{0}:9071,REPLICATION://broker-{0}:9072,EXTERNAL://broker-{0}:9092"
    )
    set_static(
        cluster,
        listeners=listeners,
        advertised_listeners=listeners,
        listener_security_protocol_map="INTERNAL:SASL_SSL,REPLICATION:SSL,EXTERNAL:SASL_SSL,"
        "CONTROLLER:SSL",
        metric_reporters="io.confluent.metrics.reporter.ConfluentMetricsReporter",
        confluent_balancer_enable="false",
    )
    return facts(cluster)


def managed() -> AuditFacts:
    """As of a managed service: no quorum, no listener map and no rights are shown."""
    cluster = regular(6, topics=("orders", "__amazon_msk_canary", *INTERNAL))
    host = "b-{0}.demo.kafka.eu-west-1.amazonaws.com"
    listeners = f"CLIENT_SECURE://{host}:9094,REPLICATION_SECURE://{host}:9095"
    set_static(cluster, listeners=listeners, advertised_listeners=listeners)
    for configs in cluster.configs.static.values():
        del configs["listener.security.protocol.map"]
    given = facts(cluster)
    return replace(given, inspection=replace(given.inspection, quorum=None, refused=None))


def behind_one_address(
    given: AuditFacts, address: str, *, days: float, of: float, issuer: str = "CN=authority"
) -> AuditFacts:
    """All brokers behind one address; each certificate has some days left, of so many."""
    expires_at = NOW + timedelta(days=days)
    issued_at = expires_at - timedelta(days=of)
    usual = connectivity(given.snapshot)
    certificate = Certificate("CN=kafka", issuer, (), expires_at, True, issued_at)
    checks = {
        broker_id: replace(check, certificate=certificate)
        for broker_id, check in usual.advertised.items()
    }
    entry = endpoint(address, metadata=usual.bootstrap[0].metadata, certificate=certificate)
    return replace(given, connectivity=replace(usual, bootstrap=(entry,), advertised=checks))


def waived_pairs() -> AuditFacts:
    """Scratch topics have two replicas, and their team says why."""
    picture = topics_in_turn((1, 2, 3), ("orders", *INTERNAL))
    scratch = topics_in_turn((1, 2, 3), ("scratch-1", "scratch-2"), factor=2)
    cluster = healthy(f"{picture}\n{scratch}")
    for topic in ("scratch-1", "scratch-2"):
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        cluster.configs.dynamic[resource] = {"min.insync.replicas": "1"}
    waiver = Waiver("replication-factor-low", "made anew each night", ("topic scratch-*",))
    return facts(cluster, audit=AuditPolicy(controller_racks=CONTROLLER_RACKS, waivers=(waiver,)))


def during_a_run() -> AuditFacts:
    """A fourth broker is being filled: moves in flight, throttles, uneven counts."""
    cluster = healthy(
        topics_in_turn((1, 2, 3), ("orders", "payments", *INTERNAL)), racks=racks_in_turn(4)
    )
    moves = {TopicPartition("orders", 0): (4, 2, 3), TopicPartition("payments", 3): (4, 2, 3)}
    assert not cluster.alter_reassignments(moves).errors
    for broker_id in cluster.brokers:
        resource = ConfigResource(ConfigResourceType.BROKER, str(broker_id))
        cluster.configs.dynamic[resource] = {LEADER_RATE: "1000000", FOLLOWER_RATE: "1000000"}
    for topic in ("orders", "payments"):
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        cluster.configs.dynamic[resource] = {LEADER_REPLICAS: "0:1,0:2,0:3"}
    cluster.advance(5.0)
    return facts(cluster, snapshot=snapshot_of(cluster), active_run_id="demo-1")


def one_large_partition() -> AuditFacts:
    """It is somewhere, and no plan makes that much better."""
    picture = topics_in_turn(range(1, 7), INTERNAL)
    large = f"large-0: 1 2 3 size={500 * GB} rate=10000"
    return facts(healthy(f"{picture}\n{large}", racks=racks_in_turn(6)))


def emptied() -> AuditFacts:
    """A run has emptied broker 4, which is about to be stopped."""
    picture = topics_in_turn((1, 2, 3), ("orders", *INTERNAL))
    kept_empty = {4: keeping_empty(4, "run demo-7 emptied it")}
    return facts(healthy(picture, racks=racks_in_turn(4)), kept_empty=kept_empty)


def one_broker() -> AuditFacts:
    """Broker and controller in one process, as for development."""
    cluster = healthy("orders-0: 1\norders-1: 1\n__consumer_offsets-0: 1", racks="1")
    set_static(
        cluster,
        default_replication_factor="1",
        offsets_topic_replication_factor="1",
        transaction_state_log_replication_factor="1",
        min_insync_replicas="1",
    )
    cluster.quorum = quorum(voters=(1,))
    return facts(cluster)


def wide_topics() -> AuditFacts:
    """40 brokers, 20 topics that each take in a twentieth of all with 30 partitions."""
    names = [f"events-{number}" for number in range(20)]
    lines = []
    for shift, name in enumerate(names):
        for number in range(30):
            replicas = [str((shift * 30 + number + step) % 40 + 1) for step in range(3)]
            lines.append(f"{name}-{number}: {' '.join(replicas)} size={GB} rate=100000")
    given = facts(healthy("\n".join(lines), racks=racks_in_turn(40)))
    assert given.past is not None
    keys = {"cluster": "demo", "snapshot_id": "demo-1", "observed_at": NOW}
    loads = [
        {**keys, "topic": name, "partition_count": 30, "bytes_in_per_second": 3_000_000}
        for name in names
    ]
    past = replace(given.past, topic_load=pa.Table.from_pylist(loads, schema=TOPIC_LOAD))
    return replace(given, past=past)


ZOO: Final[Mapping[str, Callable[[], AuditFacts]]] = {
    "3 combined": lambda: facts(regular(3, combined=True)),
    "6 combined": lambda: facts(regular(6, combined=True)),
    "3 with dedicated controllers": lambda: facts(regular(3)),
    "12 with dedicated controllers": lambda: facts(regular(12)),
    "30 with dedicated controllers": lambda: facts(regular(30)),
    "ids like addresses": lambda: facts(regular(3, first=172016001)),
    "two on purpose": two_on_purpose,
    "racks a a b c": lambda: uneven_racks("1=a 2=a 3=b 4=c"),
    "racks a a a b b c": lambda: uneven_racks("1=a 2=b 3=c 4=a 5=b 6=a"),
    "strimzi": strimzi,
    "confluent": confluent,
    "managed service": managed,
    "certificates of 72 hours": lambda: behind_one_address(
        facts(regular(3)), "kafka.example:9092", days=1.0, of=3.0
    ),
    "load balancer": lambda: behind_one_address(
        facts(regular(6)), "kafka.example:9092", days=100.0, of=365.0
    ),
    "two replicas by waiver": waived_pairs,
    "a run under way": during_a_run,
    "one large partition": one_large_partition,
    "a broker that a run emptied": emptied,
    "one broker": one_broker,
    "topics of 30 partitions on 40 brokers": wide_topics,
}
