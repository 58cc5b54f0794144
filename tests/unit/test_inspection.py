"""The inspection of simulated clusters: all that is asked, never written, and one question never
spoils another.
"""

from collections.abc import Callable

import pytest

from counterpoise.errors import (
    BrokerUnresponsiveError,
    ClusterError,
    ClusterUnreachableError,
    UnsupportedRequestError,
)
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.inspection import (
    TOPIC_KEYS,
    ConsumerGroup,
    FeatureLevel,
    Inspection,
    InspectionItem,
    LogOffsets,
)
from counterpoise.model.kafka import ConfigResource, ConfigResourceType, ConfigSource, ConfigValue
from counterpoise.snapshot import inspect
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.audits import healthy, quorum, snapshot_of

CHANGING = {"alter_configs", "alter_reassignments", "elect_preferred_leaders"}
SOURCES: dict[InspectionItem, tuple[str, Callable[[Inspection], object]]] = {
    InspectionItem.VERSIONS: ("describe_versions", lambda found: found.versions),
    InspectionItem.FEATURES: ("describe_features", lambda found: found.features),
    InspectionItem.QUORUM: ("describe_quorum", lambda found: found.quorum),
    InspectionItem.REASSIGNMENTS: (
        "list_reassignments",
        lambda found: found.reassignments,
    ),
    InspectionItem.ELIGIBLE_LEADERS: (
        "list_eligible_leaders",
        lambda found: found.eligible_leaders,
    ),
    InspectionItem.GROUPS: ("describe_groups", lambda found: found.groups),
    InspectionItem.ACLS: (
        "describe_acls_for_everybody",
        lambda found: found.acls_for_everybody,
    ),
    InspectionItem.QUOTAS: ("describe_default_quotas", lambda found: found.default_quotas),
    InspectionItem.PERMISSIONS: ("refused_operations", lambda found: found.refused),
}


def inspection_of(cluster: SimulatedCluster) -> Inspection:
    return inspect(cluster, snapshot_of(cluster), operator=cluster)


def test_everything_is_told_and_nothing_written() -> None:
    cluster = healthy()
    cluster.groups = [ConsumerGroup("shop", "Stable", 7, ("orders",), {"orders": {0: 90}})]
    cluster.denied = {"elect leaders": "CLUSTER_AUTHORIZATION_FAILED"}
    cluster.configs.broker_defaults["log.cleaner.threads"] = "2"
    inspection = inspection_of(cluster)
    assert inspection.unavailable == {}
    assert inspection.broker_configs[1]["broker.rack"] == ConfigValue(
        "a", ConfigSource.STATIC_BROKER
    )
    assert (
        inspection.broker_configs[1]["log.cleaner.threads"].source
        is ConfigSource.DYNAMIC_DEFAULT_BROKER
    )
    assert inspection.cluster_defaults == {
        "log.cleaner.threads": ConfigValue("2", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    }
    assert sorted(inspection.topic_configs["orders"]) == sorted(TOPIC_KEYS)
    assert inspection.topic_configs["orders"]["min.insync.replicas"] == ConfigValue(
        "2", ConfigSource.STATIC_BROKER
    )
    assert inspection.features[3] == {"metadata.version": FeatureLevel(29, 7, 29)}
    assert inspection.quorum == quorum(observers=(1, 2, 3))
    assert (inspection.groups[1], inspection.refused) == (tuple(cluster.groups), cluster.denied)
    assert inspection.logs[TopicPartition("orders", 0)] == LogOffsets(0, 100_000)
    assert not CHANGING & {call.name for call in cluster.calls}


@pytest.mark.parametrize("what", SOURCES)
@pytest.mark.parametrize(
    "error", [ClusterError("not allowed"), ClusterUnreachableError((("kafka:1", "refused"),))]
)
def test_one_question_without_an_answer_spoils_no_other(
    what: InspectionItem, error: ClusterError
) -> None:
    cluster = healthy()
    snapshot = snapshot_of(cluster)
    call, answer = SOURCES[what]
    cluster.fail_next(call, error)
    inspection = inspect(cluster, snapshot, operator=cluster)
    assert inspection.unavailable == {what: str(error)}
    assert not answer(inspection)
    assert all(
        other(inspection) is not None for name, (_, other) in SOURCES.items() if name is not what
    )


def test_configs_are_three_questions() -> None:
    cluster = healthy()
    snapshot = snapshot_of(cluster)
    for what in (
        InspectionItem.BROKER_CONFIGS,
        InspectionItem.CLUSTER_DEFAULTS,
        InspectionItem.TOPIC_CONFIGS,
    ):
        cluster.fail_next("describe_configs", BrokerUnresponsiveError(f"{what} failed"))
    inspection = inspect(cluster, snapshot, operator=cluster)
    assert sorted(inspection.unavailable) == sorted(
        (
            InspectionItem.BROKER_CONFIGS,
            InspectionItem.CLUSTER_DEFAULTS,
            InspectionItem.TOPIC_CONFIGS,
        )
    )
    assert inspection.quorum is not None


def test_a_silent_broker_is_noted_by_name() -> None:
    cluster = healthy()
    cluster.freeze_broker(2)
    inspection = inspection_of(cluster)
    assert sorted(inspection.broker_configs) == sorted(inspection.versions) == [1, 3]
    assert inspection.unavailable == dict.fromkeys(
        (
            InspectionItem.BROKER_CONFIGS,
            InspectionItem.VERSIONS,
            InspectionItem.FEATURES,
            InspectionItem.GROUPS,
        ),
        "no answer from broker 2",
    )


def test_eligible_leaders_are_asked_of_topics_below_their_min_isr_alone() -> None:
    cluster = healthy()
    cluster.partitions[TopicPartition("orders", 1)].isr = {1}
    cluster.partitions[TopicPartition("payments", 1)].isr = {
        1,
        2,
    }  # at its min ISR: it has none (KIP-966)
    cluster.eligible_leaders = {TopicPartition("orders", 1): (3,)}
    inspection = inspection_of(cluster)
    asked = [call.argument for call in cluster.calls if call.name == "list_eligible_leaders"]
    assert asked == [("orders",)]
    assert inspection.eligible_leaders == {TopicPartition("orders", 1): (3,)}


def test_rights_are_none_without_somebody_to_ask_and_without_anything_to_ask_about() -> None:
    cluster = healthy()
    for found in (
        inspect(cluster, snapshot_of(cluster)),
        inspection_of(healthy("", racks="1=a")),
    ):
        assert (found.refused, dict(found.unavailable)) == (None, {})


def test_rights_are_unknown_where_the_operator_cannot_connect() -> None:
    cluster = healthy()
    inspection = inspect(cluster, snapshot_of(cluster), operator_failure="wrong password")
    assert inspection.unavailable == {InspectionItem.PERMISSIONS: "wrong password"}


def test_what_brokers_are_too_old_for_is_none_and_not_unavailable() -> None:
    cluster = healthy()
    snapshot = snapshot_of(cluster)
    cluster.fail_next("list_eligible_leaders", UnsupportedRequestError("too old"))
    inspection = inspect(cluster, snapshot, operator=cluster)
    assert (inspection.eligible_leaders, dict(inspection.unavailable)) == (None, {})


def test_a_secret_has_no_value_in_the_simulated_answer_that_it_does_not_give() -> None:
    """A named key is absent unless it is set or Kafka has a default."""
    cluster = healthy()
    resource = ConfigResource(ConfigResourceType.BROKER, "1")
    every = cluster.describe_configs([resource], None)[resource]
    assert every.keys() >= {"default.replication.factor", "broker.rack", "min.insync.replicas"}
    assert cluster.describe_configs([resource], ["ssl.keystore.password"])[resource] == {}
