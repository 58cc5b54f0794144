"""For each rule of the audit a cluster on which it fires, and one a step away on which it does not.

fires, near = PAIRS["min-insync-1"]
assert findings_of("min-insync-1", fires())
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from counterpoise.audit.facts import AuditFacts
from counterpoise.model.acl import ELECT
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import (
    LEADER_RATE,
    LEADER_REPLICAS,
    BrokerVersion,
    ConfigResourceType,
)
from tests.support import audit_pairs as on
from tests.support.audits import facts

Make = Callable[[], AuditFacts]
TOPIC, BROKER = ConfigResourceType.TOPIC, ConfigResourceType.BROKER
ORDERS_0 = TopicPartition("orders", 0)
UNCLEAN = "unclean_leader_election_enable"


def each(make: Callable[[Any], AuditFacts], fires: object, near: object) -> tuple[Make, Make]:
    return partial(make, fires), partial(make, near)


def config(broker_id: int | None, key: str, fires: str, near: str) -> tuple[Make, Make]:
    of_broker = partial(on.configs, broker_id)
    return partial(of_broker, **{key: fires}), partial(of_broker, **{key: near})


def topic_config(key: str, fires: str, near: str) -> tuple[Make, Make]:
    return on.dynamic(TOPIC, "orders", **{key: fires}), on.dynamic(TOPIC, "orders", **{key: near})


def dynamic(kind: ConfigResourceType, name: str, fires: str, near: str | None) -> tuple[Make, Make]:
    key = LEADER_REPLICAS if kind is TOPIC else LEADER_RATE
    quiet = on.dynamic(kind, name, **{key: near}) if near else facts
    return on.dynamic(kind, name, **{key: fires}), quiet


def one_step(change: Callable[[Any], object], racks: str = "1=a 2=b 3=c") -> tuple[Make, Make]:
    return on.changed(change, racks), on.changed(lambda _: None, racks)


PAIRS: Final[dict[str, tuple[Make, Make]]] = {
    # bootstrap
    "bootstrap-few-addresses": each(on.bootstrap, on.LIST[:1], on.LIST),
    "bootstrap-dead-address": each(on.bootstrap, (*on.LIST, on.DEAD), on.LIST),
    "name-with-dead-addresses": each(on.dead_ips, {"10.9.9.9": "refused"}, {}),
    "bootstrap-removed-broker": each(on.removed_broker, "1=a 2=b 3=c", on.FOUR),
    "bootstrap-one-rack": each(on.bootstrap_of_rack, "1=a 2=a 3=b", "1=a 2=b 3=b"),
    "bootstrap-other-cluster": each(on.another_cluster, "another-id", "picture-id"),
    "metadata-differs": each(on.metadata, 9999, 9092),
    # advertised listeners
    "advertised-unreachable": each(on.advertised, on.CLOSED, on.certificate()),
    "advertised-wrong-broker": each(on.advertised, on.WRONG, on.certificate()),
    "advertised-loopback": each(on.listeners, "CLIENT://localhost:9092", "CLIENT://broker-2:9092"),
    "advertised-duplicate": each(on.listeners, "CLIENT://broker-1:9092", "CLIENT://broker-2:9092"),
    "advertised-ip-address": each(on.listeners, "CLIENT://10.0.0.2:9092", "CLIENT://broker-2:9092"),
    "listener-security-differs": config(
        2, "listener_security_protocol_map", "CLIENT:PLAINTEXT", "CLIENT:SSL"
    ),
    "listener-unencrypted": config(
        None, "listener_security_protocol_map", "CLIENT:SASL_PLAINTEXT", "CLIENT:SASL_SSL"
    ),
    "certificate-expires": each(on.with_certificate, {"days": 29}, {"days": 31}),
    "certificate-other-host": each(on.with_certificate, {"matches": False}, {"matches": True}),
    # controllers
    "quorum-no-leader": each(on.quorum_answered, (), ("broker-1:9092", "broker-2:9092")),
    "quorum-size": each(on.voters, (101, 102), (101, 102, 103)),
    "quorum-one-rack": each(on.quorum_racks, "aab", "abc"),
    "quorum-static": each(on.directory_id, None, "5f9d1c52-3c53-4b3e-8e5f-0d8d9d8f5b11"),
    "quorum-voter-lags": each(on.behind, {102: 11.0}, {102: 9.0}),
    "quorum-no-margin": each(on.behind, {102: 11.0}, {102: 9.0}),
    "controllers-combined": each(on.combined, 7, 6),
    "quorum-observer-lags": each(on.behind, {2: 11.0}, {2: 9.0}),
    # replication
    "replication-factor-1": each(on.picture, "t-0: 1", "t-0: 1 2"),
    "replication-factor-low": each(on.picture, "t-0: 1 2", "t-0: 1 2 3"),
    "replication-factor-mixed": each(on.picture, "t-0: 1 2 3\nt-1: 1 2", "t-0: 1 2 3\nt-1: 1 2 3"),
    "min-insync-blocks": each(on.picture, "t-0: 1 2", "t-0: 1 2 3"),
    "min-insync-1": config(None, "min_insync_replicas", "1", "2"),
    "default-replication-factor": config(None, "default_replication_factor", "1", "2"),
    "internal-replication-factor": each(on.offsets_factor, "1", "2"),
    "internal-min-isr": each(on.transactions_min_isr, "3", "2"),
    "replication-factor-above-brokers": config(None, "default_replication_factor", "4", "3"),
    # configs
    "auto-create-topics": config(1, "auto_create_topics_enable", "true", "false"),
    "controlled-shutdown-off": config(2, "controlled_shutdown_enable", "false", "true"),
    "offsets-retention-short": config(None, "offsets_retention_minutes", "1439", "1440"),
    "flush-each-record": config(3, "log_flush_interval_messages", "1", "2"),
    "no-authorizer": config(None, "authorizer_class_name", "", "org.example.Authorizer"),
    "segment-above-retention": (
        on.dynamic(TOPIC, "orders", retention_bytes="999", segment_bytes="1000"),
        on.dynamic(TOPIC, "orders", retention_bytes="1000", segment_bytes="1000"),
    ),
    "retention-typo": topic_config("retention_ms", "3599999", "3600000"),
    "messages-very-large": topic_config("max_message_bytes", "50000000", "49999999"),
    "default-retention-typo": config(None, "log_retention_ms", "604800", "3600000"),
    "tiered-storage-off": each(on.tiered_topic, "false", "true"),
    # access
    "acl-for-everybody": each(on.allowed_to_everybody, "*", "orders"),
    "acl-missing-allows": config(None, "allow_everyone_if_no_acl_found", "true", "false"),
    # replication, of topics that are there
    "eligible-leaders": each(on.eligible, {ORDERS_0: (2,)}, {}),
    "unclean-leader-election": config(None, UNCLEAN, "true", "false"),
    # availability now
    "partitions-offline": each(on.picture, "t-0: 1 2 3 @none", "t-0: 1 2 3 @2"),
    "partitions-under-replicated": each(on.isr, (1, 2), (1, 2, 3)),
    "partitions-under-min-isr": each(on.isr, (1,), (1, 2)),
    "partitions-at-min-isr": each(on.isr, (1, 2), (1, 2, 3)),
    "log-dir-offline": each(on.log_dir_error, "KAFKA_STORAGE_ERROR", None),
    "broker-fenced": one_step(lambda cluster: cluster.kill_broker(3)),
    "replica-long-out-of-sync": each(on.lagging, True, False),
    # racks
    "racks-missing": each(partial(on.picture, "t-0: 1 2 3"), "1=a 2=b 3", "1=a 2=b 3=c"),
    "partitions-in-one-rack": each(on.picture_on_four, "t-0: 1 4", "t-0: 1 2"),
    "partitions-uneven-over-racks": each(on.picture_on_four, "t-0: 1 4 2", "t-0: 1 2 3"),
    "racks-uneven": each(partial(on.picture, "t-0: 1 2 3"), "1=a 2=a 3=b", "1=a 2=b 3=c"),
    "racks-single": each(partial(on.picture, "t-0: 1 2 3"), "1=a 2=a 3=a", "1=a 2=a 3=b"),
    "replicas-on-one-host": each(on.hosts, ("kafka-a", "kafka-a"), ("kafka-a", "kafka-b")),
    # balance
    "idle-broker": each(on.picture_on_four, on.lines(["1 2 3"] * 4), on.lines(on.EVEN)),
    "leaders-uneven": each(on.leaders, 8, 4),
    "leaders-not-preferred": one_step(on.elected(2)),
    "topic-leaders-uneven": each(on.leaders, 8, 4),
    "replicas-uneven": each(on.picture_on_four, on.lines(on.ONE_HEAVY), on.lines(on.EVEN)),
    "bytes-uneven": each(
        on.picture_on_four, on.lines(on.HEAVIER, 9 * on.GB), on.lines(on.EVEN, 9 * on.GB)
    ),
    "bytes-in-uneven": each(on.rates, 30_000_000, 1_000_000),
    # partitions
    "hot-topic-few-partitions": each(on.hot_topic, 30_000_000, 900),
    "partitions-per-broker": each(on.limit_of_replicas, 6, 7),
    "topic-names-collide": each(on.picture, "a.b-0: 1 2 3\na_b-0: 1 2 3", "a.b-0: 1 2 3"),
    "topics-over-provisioned": each(on.wide_topic, 0, 30_000),
    # clients
    "group-near-retention": each(on.group, 498, 499),
    "group-lost-records": each(on.group_of_members, 98, 99),
    "group-abandoned": each(on.group, 98, 99),
    "client-quota-tiny": each(on.quota, 16_383.0, 16_384.0),
    "transactions-hanging": each(on.transactions, 1, 0),
    # leftovers
    "leftover-throttle": dynamic(TOPIC, "orders", "0:1", None),
    "throttle-rate-of-all-brokers": one_step(
        lambda cluster: cluster.configs.broker_defaults.update({LEADER_RATE: "1000"})
    ),
    "reassignment-old": each(on.moving_for, 24, 23),
    "reassignment-endless": each(on.redirected, (1, 3, 2), (1, 2, 4)),
    "reassignment-stalled": each(on.copied, 0.0, 5.0),
    "cordoned-log-dirs": each(partial(on.with_value, "cordoned.log.dirs"), "/data", ""),
    "mixed-versions": one_step(
        lambda cluster: cluster.versions.update({3: BrokerVersion("an-older-table", 29)})
    ),
    "features-below-possible": each(
        on.finalized, {"metadata.version": 29, "x": None}, {"metadata.version": 29, "x": 29}
    ),
    "static-configs-differ": config(3, "min_insync_replicas", "1", "2"),
    "dynamic-config-drift": each(on.broker_dynamic, ("2",), ("1", "2", "3")),
    "auto-leader-rebalance": config(2, "auto_leader_rebalance_enable", "false", "true"),
    # disk
    "disk-full-soon": each(on.forecast, 29.0, 31.0),
    "disk-nearly-full": each(on.disk, 86, 84),
    "retention-cannot-fit": each(on.retention, 1_000_000, 1_000),
    "retention-without-end": each(partial(on.retention_bytes, -1), -1, 604_800_000),
    "log-dirs-temporary": each(on.log_dir, "/tmp/kafka-logs", "/tmp/of-a-test/kafka-logs"),
    "log-dirs-uneven": each(on.log_dirs, 30, 40),
    # rights, waivers, unavailable data
    "rights-refused": each(on.refused, {ELECT: "CLUSTER_AUTHORIZATION_FAILED"}, {}),
    "waiver-expired": each(on.waiver, -1, 1),
    "not-answered": each(on.without_quorum, True, False),
}
