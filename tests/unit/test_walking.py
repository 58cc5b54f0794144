"""What a walk means, at addresses made up and at sockets that are no Kafka.

Real brokers: the integration tests.
"""

from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from counterpoise.discovery.diagnosis import diagnose
from counterpoise.errors import ConfigurationError
from counterpoise.kafka_admin import walking
from counterpoise.kafka_admin.certificates import is_for
from counterpoise.kafka_admin.connection import ConnectionSettings, split_address
from counterpoise.kafka_admin.endpoint import EndpointWalker
from counterpoise.kafka_admin.leader_watch import LeaderWatch
from counterpoise.kafka_admin.walking import look_around, walk_cluster
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.finding import Finding
from counterpoise.model.kafka import BrokerDescription, PartitionDescription, TopicDescription
from counterpoise.model.severity import Severity
from counterpoise.model.walk import (
    Certificate,
    ClusterSight,
    EndpointWalk,
    MetadataAnswer,
    Step,
    StepName,
    Walk,
)
from tests.no_kafka import HTTP_ANSWER, TLS_ALERT, Behaviour, answering, keep_silent, servers

NOW = datetime(2026, 3, 1, tzinfo=UTC)
PLAINTEXT = ConnectionSettings.parse({"bootstrap.servers": "a:9092"})


# -- values to look at


def broker(broker_id: int, *, is_fenced: bool = False) -> BrokerDescription:
    return BrokerDescription(broker_id, f"kafka{broker_id}.internal", 9092, None, is_fenced)


def told(
    *broker_ids: int, cluster_id: str = "this", leaders: Mapping[str, tuple[int, int]] | None = None
) -> MetadataAnswer:
    """`leaders`: partition -> (leader, epoch)."""
    partitions = {}
    for name, (leader, epoch) in (leaders or {}).items():
        topic, _, number = name.rpartition("-")
        partitions[TopicPartition(topic, int(number))] = PartitionDescription(
            int(number), leader, epoch, (1, 2), (1, 2)
        )
    return MetadataAnswer(cluster_id, tuple(map(broker, broker_ids)), partitions)


def answered(
    address: str, answer: MetadataAnswer, *, certificate: Certificate | None = None
) -> EndpointWalk:
    steps = tuple(
        Step(name, True, "", 1) for name in (StepName.RESOLVE, StepName.TCP, StepName.METADATA)
    )
    return EndpointWalk(
        address, steps, certificate=certificate, told=answer, is_expected_broker=True
    )


def failed(address: str, name: StepName, said: str) -> EndpointWalk:
    return EndpointWalk(address, (Step(name, False, said, 1),))


def sight(
    *brokers: BrokerDescription, leaders: Mapping[str, tuple[int | None, ...]]
) -> ClusterSight:
    """`leaders`: topic -> the leader of each partition."""
    topics = [
        TopicDescription(
            topic,
            "id",
            False,
            tuple(
                PartitionDescription(n, leader, 1, (1, 2, 3), (1, 2, 3))
                for n, leader in enumerate(of_topic)
            ),
        )
        for topic, of_topic in leaders.items()
    ]
    return ClusterSight(brokers, tuple(topics), controller_id=1)


def found(
    walk: Walk, seen: ClusterSight | None = None, *topics: str, pinned: str | None = None
) -> tuple[Finding, ...]:
    return diagnose(walk, seen, topics=topics, now=NOW, pinned_cluster_id=pinned)


# -- what is concluded


def test_a_name_that_does_not_resolve_and_the_partitions_that_fail() -> None:
    everybody = told(1, 2, 3)
    walk = Walk(
        "PLAINTEXT",
        (answered("a:9092", everybody),),
        {
            1: answered("kafka1.internal:9092", everybody),
            2: answered("kafka2.internal:9092", everybody),
            3: failed("kafka3.internal:9092", StepName.RESOLVE, "it does not resolve"),
        },
    )
    seen = sight(*map(broker, (1, 2, 3)), leaders={"orders": (1, 3, 2, 1, 3), "clicks": (3,)})
    (finding,) = found(walk, seen, "orders")
    assert finding.seen == (
        "bootstrap answers, but broker 3 advertises kafka3.internal:9092, which does not resolve from here: "
        "producing to orders-1, orders-4 will fail"
    )
    assert finding.fix == ("fix advertised.listeners on 3",)
    (finding,) = found(walk, seen)
    assert "clients of the 3 partition(s) of 2 topic(s) that it leads will fail" in finding.seen


def test_other_clusters_are_named_wherever_they_answer() -> None:
    this, other = told(1, 2), told(1, cluster_id="other")
    walk = Walk(
        "PLAINTEXT",
        (answered("a:9092", this), answered("b:9092", other)),
        {1: answered("kafka1.internal:9092", this), 2: answered("kafka2.internal:9092", other)},
    )
    assert [(one.rule, one.subject) for one in found(walk)] == [
        ("another-cluster", "bootstrap address b:9092"),
        ("another-cluster", "broker 2"),
    ]
    assert any("pins wanted" in one.seen for one in found(walk, pinned="wanted"))
    assert not any("pins" in one.seen for one in found(walk, pinned="this"))


def test_a_broker_that_does_not_see_another_and_one_with_old_leaders_are_named() -> None:
    new, old = {"orders-0": (2, 5), "orders-1": (1, 3)}, {"orders-0": (1, 4), "orders-1": (1, 3)}
    walk = Walk(
        "PLAINTEXT",
        (answered("a:9092", told(1, 2, leaders=new)),),
        {
            1: answered("kafka1.internal:9092", told(1, leaders=old)),
            2: answered("b:9092", told(1, 2, leaders=new)),
        },
    )
    blind, stale = found(walk)
    assert "kafka1.internal:9092 does not see broker(s) 2" in blind.seen
    assert "kafka1.internal:9092 tells older leaders of orders-0 than" in stale.seen


@pytest.mark.parametrize(
    ("days", "rule"), [(31, None), (29, "certificate-expires-soon"), (-1, "certificate-expired")]
)
def test_certificates_are_findings_when_they_end(days: int, rule: str | None) -> None:
    certificate = Certificate("CN=kafka", "CN=authority", ("a",), NOW + timedelta(days=days), True)
    walk = Walk("SSL", (answered("a:9092", told(1), certificate=certificate),), {})
    assert [(one.rule, one.subject) for one in found(walk)] == (
        [(rule, "certificate CN=kafka")] if rule else []
    )


def test_fenced_brokers_missing_leaders_and_unknown_topics() -> None:
    walk = Walk("PLAINTEXT", (answered("a:9092", told(1)),), {1: answered("b:9092", told(1))})
    seen = sight(
        broker(1), broker(2, is_fenced=True), leaders={"orders": (1, None), "clicks": (None,)}
    )
    assert [one.rule for one in found(walk, seen, "orders", "nope")] == [
        "no-leader",
        "broker-fenced",
        "topic-unknown",
    ]
    assert "1 partition(s) have no leader" in found(walk, seen, "orders")[0].seen
    assert "2 partition(s) have no leader" in found(walk, seen)[0].seen


def test_a_list_without_any_answer_is_critical_and_a_half_dead_one_a_warning() -> None:
    dead = failed("a:9092", StepName.TCP, "Connection refused")
    assert [one.severity for one in found(Walk("PLAINTEXT", (dead,)))] == [Severity.CRITICAL]
    half = Walk("PLAINTEXT", (dead, answered("b:9092", told(1))), {1: answered("b:9092", told(1))})
    assert [one.severity for one in found(half)] == [Severity.WARNING]


# -- what a walk tells by itself


def test_a_failure_is_the_step_and_what_it_said() -> None:
    assert failed("a:9092", StepName.TCP, "Connection refused").failure == "tcp: Connection refused"
    assert answered("a:9092", told(1)).failure == ""


def test_what_the_ends_of_one_cluster_told_the_others_left_out() -> None:
    this, newer, other = told(1), told(1, 2), told(1, cluster_id="other")
    dead = failed("dead:9092", StepName.TCP, "Connection refused")
    bootstrap = (dead, answered("a:9092", this), answered("b:9092", other))
    walk = Walk("PLAINTEXT", bootstrap, {1: answered("a:9092", newer), 2: dead})
    assert walk.cluster_id == "this"
    assert [one.address for one in walk.ends] == [
        "dead:9092",
        "a:9092",
        "b:9092",
        "a:9092",
        "dead:9092",
    ]
    assert walk.told_of("this") == (("a:9092", this), ("a:9092", newer))
    assert walk.told_of(None) == ()
    assert Walk("PLAINTEXT", (dead,)).cluster_id is None


def test_a_certificate_is_told_once_with_every_address_that_shows_it() -> None:
    one, other = (
        Certificate(name, "CN=authority", ("a",), NOW, True) for name in ("CN=one", "CN=other")
    )
    walk = Walk(
        "SSL",
        (
            answered("a:9092", told(1), certificate=one),
            answered("b:9092", told(1), certificate=other),
        ),
        {
            1: answered("a:9092", told(1), certificate=one),
            2: answered("c:9092", told(1), certificate=one),
        },
    )
    assert walk.certificates == {one: ("a:9092", "c:9092"), other: ("b:9092",)}
    assert one.expires_in_words == "2026-03-01 00:00 UTC"


# -- looking again


def test_what_brokers_tell_differently_for_a_moment_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[str] = []

    def walk(self: EndpointWalker, host: str, port: int, **_: object) -> EndpointWalk:
        looks.append(host)
        if host == "dead":
            return failed("dead:9092", StepName.TCP, "Connection refused")
        knows_it = host != "kafka2.internal" or looks.count(host) > 1
        return answered(
            f"{host}:{port}", told(1, 2, leaders={"orders-0": (2, 5) if knows_it else (1, 4)})
        )

    monkeypatch.setattr(EndpointWalker, "walk", walk)
    monkeypatch.setattr(walking, "STALE_AFTER_SECONDS", 0.0)
    settings = ConnectionSettings.parse({"bootstrap.servers": "dead:9092,a:9092"})
    walked = walk_cluster(settings, topics=("orders",))
    assert [finding.rule for finding in found(walked)] == ["bootstrap-silent"]
    assert (looks.count("kafka2.internal"), looks.count("dead")) == (2, 1)


def test_leaders_are_followed_and_old_metadata_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def topic(
        topic_id: str, leader: int | None, epoch: int, *isr: int
    ) -> tuple[TopicDescription, ...]:
        return (
            TopicDescription(
                "orders", topic_id, False, (PartitionDescription(0, leader, epoch, (1, 2, 3), isr),)
            ),
        )

    looks = iter(
        [
            topic("x", 1, 4, 1, 2),
            topic("x", 2, 5, 2),
            topic("x", 1, 4, 1, 2),  # told by a broker that is behind
            topic("x", None, 6),
            topic("x", 3, 7, 3),
            topic("y", 1, 0, 1, 2, 3),  # deleted, and made anew
            topic("y", 1, 0, 1, 2, 3),
        ]
    )
    monkeypatch.setattr(LeaderWatch, "_describe", lambda _: next(looks))
    with closing(LeaderWatch(PLAINTEXT, Walk("PLAINTEXT", ()))) as watch:
        changes = [[(c.before, c.after, c.was_in_sync) for c in watch.look()] for _ in range(7)]
    assert changes == [
        [],
        [(1, 2, True)],
        [],
        [(2, None, False)],
        [(2, 3, False)],
        [(3, 1, False)],
        [],
    ]


# -- certificates and connections


@pytest.mark.parametrize(
    ("host", "names", "ips", "matches"),
    [
        ("kafka-1.example", ["Kafka-1.Example"], [], True),
        ("kafka-1.example.", ["kafka-1.example"], [], True),
        ("kafka-1.example", ["*.example"], [], True),
        ("a.b.example", ["*.example"], [], False),
        ("example", ["*.example"], [], False),
        ("127.0.0.1", ["127.0.0.1"], [], False),
        ("127.0.0.1", [], ["127.0.0.1"], True),
        ("0:0:0:0:0:0:0:1", [], ["::1"], True),
    ],
)
def test_host_names_are_compared_as_clients_do(
    host: str, names: list[str], ips: list[str], matches: bool
) -> None:
    assert is_for(host, names, ips) is matches


def test_a_walk_takes_mechanisms_that_the_calls_do_not() -> None:
    extra = {
        "bootstrap.servers": "a:9092",
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.client.secret": "hush-hush",
        "ssl.ca.location": "ca.pem",
    }
    settings = ConnectionSettings.parse_for_walk(extra)
    assert (settings.security_protocol, settings.sasl_mechanism) == ("SASL_SSL", "OAUTHBEARER")
    assert settings.without_secrets("no hush-hush here") == "no *** here"
    with pytest.raises(ConfigurationError, match=r"sasl\.mechanism"):
        ConnectionSettings.parse(extra)
    with pytest.raises(ConfigurationError, match=r"ssl\.keystore\.location"):
        ConnectionSettings.parse_for_walk(extra | {"ssl.keystore.location": "k.p12"})


# -- real sockets


@pytest.mark.parametrize(
    ("behave", "said"),
    [
        (answering(HTTP_ANSWER), "does not answer as a Kafka broker does"),
        (answering(b""), "does not answer as a Kafka broker does"),
        (answering(b"\x00\x00\x00\x04\x00\x00\x00\x01"), "does not answer as a Kafka broker does"),
        (answering(TLS_ALERT), 'it speaks TLS, but "security.protocol" is PLAINTEXT'),
        (keep_silent, "no answer within 0.2 s"),
    ],
    ids=["http", "hangs up", "nonsense", "tls", "silent"],
)
def test_servers_that_are_no_kafka_are_named(behave: Behaviour, said: str) -> None:
    with servers() as serve:
        host, port = split_address(serve(behave))
        step = EndpointWalker(PLAINTEXT, answer_seconds=0.2).walk(host, port).failed_step
    assert step is not None
    assert step.name is StepName.API_VERSIONS
    assert said in step.said


def test_a_walk_that_leads_nowhere_is_a_value() -> None:
    settings = ConnectionSettings.parse({"bootstrap.servers": "no-such-host.invalid:9092"})
    walk = walk_cluster(settings, topics=("orders",))
    assert (walk.answered_by, len(walk.silent), dict(walk.advertised)) == (None, 1, {})
    assert look_around(settings, walk) is None


@given(
    st.text(st.characters(categories=["Cc", "Zs", "Lo", "Sm"]), max_size=80),
    st.integers(-(2**31), 2**31 - 1),
)
@example("1\x00.invalid", 9092)  # the resolver stops at the null, and finds an address
@example("a" * 64 + ".invalid", 9092)
@example("kafka.invalid", 0)
def test_whatever_a_broker_advertises_is_a_failed_step(host: str, port: int) -> None:
    """None of these names exists: none may lead to a traceback."""
    walk = EndpointWalker(PLAINTEXT).walk(host if host.endswith(".invalid") else f"{host}\n", port)
    assert walk.failed_step is not None
    assert walk.failed_step.name is StepName.RESOLVE
