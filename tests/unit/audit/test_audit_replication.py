"""Rules about replication: factors, min.insync.replicas and the settings that decide what a failure
costs.
"""

from collections.abc import Callable, Mapping

import pyarrow as pa
import pytest

from counterpoise.audit.facts import AuditFacts
from counterpoise.errors import ClusterError
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.finding import WantedPlan
from counterpoise.model.kafka import ConfigResource, ConfigResourceType
from counterpoise.model.request import Goal
from counterpoise.model.severity import Severity
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.audits import facts, findings_of, healthy, quorum

MIN_ISR = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"


def of(
    picture: str, racks: str = "1=a 2=b 3=c", configs: Mapping[str, dict[str, str]] | None = None
) -> AuditFacts:
    cluster = healthy(picture, racks=racks)
    for topic, values in (configs or {}).items():
        cluster.configs.dynamic[ConfigResource(ConfigResourceType.TOPIC, topic)] = values
    return facts(cluster)


def subjects(rule: str, found: AuditFacts) -> list[tuple[str, Severity]]:
    return [(finding.subject, finding.severity) for finding in findings_of(rule, found)]


BEFORE_INTERNAL_TOPICS = "orders-0: 1 2 3\npayments-0: 2 3 1\nclicks-0: 3 1 2\nshop-0: 1 3 2"


@pytest.mark.parametrize(
    ("rule", "picture", "expected"),
    [
        ("replication-factor-1", "orders-0: 1\norders-1: 2 3 1", ["topic orders"]),
        ("replication-factor-1", "__consumer_offsets-0: 1", ["topic __consumer_offsets"]),
        ("replication-factor-1", "orders-0: 1 2", []),
        ("replication-factor-1", "orders-0: 1 2 3 +2 +3", []),  # on its way to three
        ("replication-factor-1", "orders-0: 1 2 -2", ["topic orders"]),  # on its way to one
        ("replication-factor-low", "orders-0: 1 2", ["topic orders"]),
        ("replication-factor-low", "orders-0: 1", []),  # a finding of its own
        ("replication-factor-low", "orders-0: 1 2 3", []),
        ("replication-factor-mixed", "orders-0: 1 2 3\norders-1: 1 2", ["topic orders"]),
        ("replication-factor-mixed", "orders-0: 1 2 3\ninventory-0: 1 2", []),
        (
            "replication-factor-mixed",
            "orders-0: 1 2 3\norders-1: 4 2 3 1 +4 -1",
            [],
        ),  # a union while it moves
    ],
)
def test_replication_factors(rule: str, picture: str, expected: list[str]) -> None:
    found = of(picture, "1=a 2=b 3=c 4=a")
    assert [finding.subject for finding in findings_of(rule, found)] == expected


def test_one_replica_is_one_finding_per_topic_with_rows_and_a_plan() -> None:
    finding = findings_of(
        "replication-factor-1", of("\n".join(f"orders-{n}: 1" for n in range(30)))
    )[0]
    assert finding.severity is Severity.CRITICAL
    assert finding.summary.startswith("30 of 30 partitions of topic orders")
    assert finding.plan == WantedPlan(
        Goal.REPLICATION_FACTOR, topics=("orders",), replication_factor=3
    )
    assert finding.evidence is not None
    assert (finding.evidence.rows[0], len(finding.evidence.rows), finding.evidence.total) == (
        ("0", "1", "1"),
        20,
        30,
    )


def test_no_plan_is_offered_for_more_replicas_than_brokers() -> None:
    finding = findings_of("replication-factor-low", of("orders-0: 1 2", "1=a 2=b"))[0]
    assert finding.plan is None
    assert "only 2 live brokers" in finding.summary


@pytest.mark.parametrize(
    ("picture", "least", "expected"),
    [
        ("orders-0: 1 2 3", "3", [("topic orders", Severity.WARNING)]),
        ("orders-0: 1 2 3", "2", []),
        ("orders-0: 1 2", "2", [("topic orders", Severity.WARNING)]),
        ("orders-0: 1 2", "3", [("topic orders", Severity.WARNING)]),
        ("orders-0: 1 2", "1", []),
        ("orders-0: 1", "2", []),  # one replica is a finding of its own
    ],
)
def test_min_insync_replicas_as_high_as_the_factor(
    picture: str, least: str, expected: list[object]
) -> None:
    assert (
        subjects("min-insync-blocks", of(picture, configs={"orders": {MIN_ISR: least}})) == expected
    )


def test_min_insync_one_is_a_finding_by_the_level_that_sets_it() -> None:
    """A topic's own value topic by topic; all that follow the cluster's in one finding, which one
    line mends.
    """
    cluster = healthy()
    cluster.configs.dynamic[ConfigResource(ConfigResourceType.TOPIC, "orders")] = {MIN_ISR: "1"}
    own = findings_of("min-insync-1", facts(cluster))
    assert [finding.subject for finding in own] == ["topic orders"]
    assert "--entity-type topics --entity-name orders" in own[0].fix[0]
    cluster.configs.broker_defaults[MIN_ISR] = "1"
    both = findings_of("min-insync-1", facts(cluster))
    assert [finding.subject for finding in both] == ["cluster", "topic orders"]
    assert both[0].evidence is not None
    assert ("payments", "1", "the default of all brokers") in both[0].evidence.rows
    assert "--entity-default" in both[0].fix[0]
    assert (
        findings_of("min-insync-1", of("orders-0: 1 2", configs={"orders": {MIN_ISR: "1"}})) == ()
    )


def test_what_mends_mixed_factors_is_more_replicas_and_no_lower_min_insync_replicas() -> None:
    picture = "orders-0: 1 2\norders-1: 1 2 3"
    (finding,) = findings_of("min-insync-blocks", of(picture, configs={"orders": {MIN_ISR: "2"}}))
    assert finding.fix == ()
    assert finding.plan is not None and finding.plan.replication_factor == 3
    lowered = of(picture, configs={"orders": {MIN_ISR: "1"}})
    assert findings_of("min-insync-1", lowered) == ()


@pytest.mark.parametrize("rule", ["min-insync-1", "min-insync-blocks", "partitions-under-min-isr"])
def test_a_topic_without_known_min_insync_replicas_is_unknown(rule: str) -> None:
    found = facts()
    topics = found.snapshot.topics
    at = topics.schema.get_field_index("min_insync_replicas")
    nothing = topics.set_column(at, topics.schema.field(at), pa.nulls(len(topics), pa.int32()))
    snapshot = type(found.snapshot)(
        "x", "demo", "id", None, {**found.snapshot.tables, "topics": nothing}
    )
    assert subjects(rule, facts(snapshot=snapshot)) == [("cluster", Severity.UNKNOWN)]


def static(**values: str) -> Callable[[SimulatedCluster], None]:
    def change(cluster: SimulatedCluster) -> None:
        cluster.configs.static[2] |= {key.replace("_", "."): value for key, value in values.items()}

    return change


def topic_unclean(value: str) -> Callable[[SimulatedCluster], None]:
    def change(cluster: SimulatedCluster) -> None:
        cluster.configs.dynamic[ConfigResource(ConfigResourceType.TOPIC, "orders")] = {
            UNCLEAN: value
        }

    return change


def cluster_unclean(cluster: SimulatedCluster) -> None:
    cluster.configs.broker_defaults[UNCLEAN] = "true"


@pytest.mark.parametrize(
    ("rule", "change", "expected"),
    [
        (
            "default-replication-factor",
            static(default_replication_factor="1"),
            ["default.replication.factor"],
        ),
        ("default-replication-factor", static(default_replication_factor="2"), []),
        (
            "internal-replication-factor",
            static(
                offsets_topic_replication_factor="1", transaction_state_log_replication_factor="1"
            ),
            ["offsets.topic.replication.factor", "transaction.state.log.replication.factor"],
        ),
        ("internal-replication-factor", static(offsets_topic_replication_factor="2"), []),
        (
            "auto-create-topics",
            static(auto_create_topics_enable="true"),
            ["config auto.create.topics.enable"],
        ),
        ("auto-create-topics", static(auto_create_topics_enable="false"), []),
        ("unclean-leader-election", topic_unclean("true"), ["topic orders"]),
        ("unclean-leader-election", topic_unclean("false"), []),
        ("unclean-leader-election", cluster_unclean, ["cluster"]),
        ("unclean-leader-election", static(unclean_leader_election_enable="true"), ["cluster"]),
    ],
)
def test_settings_of_brokers_and_topics(
    rule: str, change: Callable[[SimulatedCluster], None], expected: list[str]
) -> None:
    cluster = healthy(BEFORE_INTERNAL_TOPICS)
    cluster.quorum = quorum(voters=(1, 2, 3))
    change(cluster)
    assert [finding.subject for finding in findings_of(rule, facts(cluster))] == expected


def test_the_factor_of_an_internal_topic_that_exists_is_no_finding() -> None:
    cluster = healthy()
    static(offsets_topic_replication_factor="1")(cluster)
    assert findings_of("internal-replication-factor", facts(cluster)) == ()


def test_a_topic_of_mixed_factors_is_one_finding() -> None:
    given = facts(healthy("t-0: 1 2 3\nt-1: 1 2"))
    assert findings_of("replication-factor-low", given) == ()
    assert len(findings_of("replication-factor-mixed", given)) == 1


def test_the_topics_of_a_balancer_have_two_replicas_on_purpose() -> None:
    given = facts(healthy("__KafkaCruiseControlPartitionMetricSamples-0: 1 2"))
    assert findings_of("replication-factor-low", given) == ()
    assert findings_of("min-insync-blocks", given) == ()


def test_a_topic_that_switches_unclean_elections_off_is_not_counted_among_the_clusters() -> None:
    cluster = healthy()
    cluster_unclean(cluster)
    topic_unclean("false")(cluster)
    assert "for 3 topics" in findings_of("unclean-leader-election", facts(cluster))[0].summary


def test_one_broker_alone_needs_no_factor_of_three() -> None:
    cluster = healthy("orders-0: 1", racks="1=a")
    cluster.configs.static[1] |= {
        "default.replication.factor": "1",
        "offsets.topic.replication.factor": "1",
    }
    assert (
        findings_of("default-replication-factor", facts(cluster))
        == findings_of("internal-replication-factor", facts(cluster))
        == ()
    )


@pytest.mark.parametrize(
    "rule",
    [
        "default-replication-factor",
        "internal-replication-factor",
        "auto-create-topics",
        "unclean-leader-election",
    ],
)
def test_configs_of_an_unresponsive_broker_are_unknown(rule: str) -> None:
    cluster = healthy()
    cluster.freeze_broker(2)
    finding = findings_of(rule, facts(cluster))[0]
    assert finding.severity is Severity.UNKNOWN
    assert "broker 2" in finding.summary


def test_eligible_leaders_are_findings_and_unknown_where_brokers_do_not_report_them() -> None:
    cluster = healthy()
    assert findings_of("eligible-leaders", facts(cluster)) == ()
    cluster.partitions[TopicPartition("orders", 2)].isr = {1}
    cluster.eligible_leaders = {TopicPartition("orders", 2): (3,)}
    finding = findings_of("eligible-leaders", facts(cluster))[0]
    assert finding.subject == "cluster"
    assert finding.evidence is not None
    assert finding.evidence.rows == (("orders", "2", "3"),)
    cluster.fail_next("list_eligible_leaders", ClusterError("brokers do not know the request"))
    assert subjects("eligible-leaders", facts(cluster)) == [("cluster", Severity.UNKNOWN)]
