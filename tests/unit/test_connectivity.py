"""What a connectivity check finds, with made-up values and with servers that are no Kafka.

Real brokers: the integration tests.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from counterpoise.audit.auditing import resolve
from counterpoise.audit.facts import AuditFacts
from counterpoise.kafka_admin import connectivity as kafka_admin_connectivity
from counterpoise.kafka_admin.connection import ConnectionSettings, split_address
from counterpoise.kafka_admin.connectivity import check_connectivity, read_cluster_metadata
from counterpoise.kafka_admin.endpoint import EndpointChecker, is_valid_for
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.connectivity import (
    Certificate,
    ClusterMetadata,
    ConnectionStage,
    ConnectivityCheck,
    EndpointCheck,
    MetadataResponse,
    StageResult,
)
from counterpoise.model.finding import Finding
from counterpoise.model.kafka import BrokerDescription, PartitionDescription
from counterpoise.model.policy import AuditPolicy, ClusterPolicy
from counterpoise.model.severity import Severity
from counterpoise.services.doctor import open_findings
from counterpoise.snapshot import snapshot_of_metadata
from tests.support.no_kafka import (
    HTTP_RESPONSE,
    TLS_ALERT,
    Behaviour,
    never_respond,
    respond_with,
    servers,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)
PLAINTEXT = ConnectionSettings.parse({"bootstrap.servers": "a:9092"})


# -- values


def broker(broker_id: int, *, is_fenced: bool = False) -> BrokerDescription:
    return BrokerDescription(broker_id, f"kafka{broker_id}.internal", 9092, None, is_fenced)


def metadata(
    *broker_ids: int, cluster_id: str = "this", leaders: Mapping[str, tuple[int, int]] | None = None
) -> MetadataResponse:
    """`leaders`: partition -> (leader, epoch)."""
    partitions = {}
    for name, (leader, epoch) in (leaders or {}).items():
        topic, _, number = name.rpartition("-")
        partitions[TopicPartition(topic, int(number))] = PartitionDescription(
            int(number), leader, epoch, (1, 2), (1, 2)
        )
    return MetadataResponse(cluster_id, tuple(map(broker, broker_ids)), partitions)


def answered(
    address: str, answer: MetadataResponse, *, certificate: Certificate | None = None
) -> EndpointCheck:
    stages = tuple(
        StageResult(name, True, "", 1)
        for name in (ConnectionStage.RESOLVE, ConnectionStage.TCP, ConnectionStage.METADATA)
    )
    return EndpointCheck(
        address, stages, certificate=certificate, metadata=answer, is_expected_broker=True
    )


def failed(address: str, name: ConnectionStage, said: str) -> EndpointCheck:
    return EndpointCheck(address, (StageResult(name, False, said, 1),))


def found(connectivity: ConnectivityCheck) -> tuple[Finding, ...]:
    """What doctor finds about connections, without what is not known."""
    facts = AuditFacts(
        now=NOW,
        snapshot=snapshot_of_metadata(
            ClusterMetadata((), ()),
            cluster="demo",
            cluster_id=connectivity.cluster_id or "",
        ),
        policy=ClusterPolicy(),
        thresholds=resolve(AuditPolicy()),
        connectivity=connectivity,
        snapshot_failure="none is made",
    )
    findings = open_findings(facts)
    return tuple(one for one in findings if one.severity is not Severity.UNKNOWN)


# -- what is concluded: the rules are in unit/audit/test_audit_endpoints.py


def test_a_broker_that_does_not_see_another_and_one_with_old_leaders_are_named() -> None:
    new, old = {"orders-0": (2, 5), "orders-1": (1, 3)}, {"orders-0": (1, 4), "orders-1": (1, 3)}
    connectivity = ConnectivityCheck(
        "PLAINTEXT",
        (answered("a:9092", metadata(1, 2, leaders=new)),),
        {
            1: answered("kafka1.internal:9092", metadata(1, leaders=old)),
            2: answered("b:9092", metadata(1, 2, leaders=new)),
        },
    )
    blind, stale = found(connectivity)
    assert "brokers reported 2 different lists of live brokers" in blind.summary
    assert "kafka1.internal:9092 reports older leaders of orders-0 than" in stale.summary


# -- the check itself


def test_a_certificate_is_listed_once_with_every_address_that_presents_it() -> None:
    one, other = (
        Certificate(name, "CN=authority", ("a",), NOW, True) for name in ("CN=one", "CN=other")
    )
    connectivity = ConnectivityCheck(
        "SSL",
        (
            answered("a:9092", metadata(1), certificate=one),
            answered("b:9092", metadata(1), certificate=other),
        ),
        {
            1: answered("a:9092", metadata(1), certificate=one),
            2: answered("c:9092", metadata(1), certificate=one),
        },
    )
    assert connectivity.certificates == {one: ("a:9092", "c:9092"), other: ("b:9092",)}
    assert one.expires_in_words == "2026-03-01 00:00 UTC"


# -- checking again


def test_metadata_that_differs_for_a_moment_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked: list[str] = []

    def check(self: EndpointChecker, host: str, port: int, **_: object) -> EndpointCheck:
        checked.append(host)
        if host == "dead":
            return failed("dead:9092", ConnectionStage.TCP, "Connection refused")
        knows_it = host != "kafka2.internal" or checked.count(host) > 1
        return answered(
            f"{host}:{port}", metadata(1, 2, leaders={"orders-0": (2, 5) if knows_it else (1, 4)})
        )

    monkeypatch.setattr(EndpointChecker, "check", check)
    monkeypatch.setattr(kafka_admin_connectivity, "STALE_AFTER_SECONDS", 0.0)
    settings = ConnectionSettings.parse({"bootstrap.servers": "dead:9092,a:9092"})
    connectivity = check_connectivity(settings, topics=("orders",))
    assert [finding.rule for finding in found(connectivity)] == ["bootstrap-dead-address"]
    assert (checked.count("kafka2.internal"), checked.count("dead")) == (2, 1)


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
    assert is_valid_for(host, names, ips) is matches


# -- real sockets


@pytest.mark.parametrize(
    ("behave", "said"),
    [
        (respond_with(HTTP_RESPONSE), "an HTTP server answers there, no Kafka broker"),
        (respond_with(b"Zookeeper version: 3.8.4"), "a ZooKeeper server answers there, no Kafka"),
        (respond_with(b""), "does not answer as a Kafka broker does"),
        (
            respond_with(b"\x00\x00\x00\x04\x00\x00\x00\x01"),
            "does not answer as a Kafka broker does",
        ),
        (respond_with(TLS_ALERT), 'it speaks TLS, but "security.protocol" is PLAINTEXT'),
        (never_respond, "no response within 0.2 s"),
    ],
    ids=["http", "zookeeper", "hangs up", "nonsense", "tls", "silent"],
)
def test_servers_that_are_no_kafka_are_named(behave: Behaviour, said: str) -> None:
    with servers() as serve:
        host, port = split_address(serve(behave))
        stage = EndpointChecker(PLAINTEXT, response_seconds=0.2).check(host, port).failed_stage
    assert stage is not None
    assert stage.stage is ConnectionStage.API_VERSIONS
    assert said in stage.detail


def test_a_check_without_a_reachable_address_is_a_value() -> None:
    settings = ConnectionSettings.parse({"bootstrap.servers": "no-such-host.invalid:9092"})
    connectivity = check_connectivity(settings, topics=("orders",))
    assert (
        connectivity.answered_by,
        len(connectivity.unreachable),
        dict(connectivity.advertised),
    ) == (None, 1, {})
    assert read_cluster_metadata(settings, connectivity) is None


@given(
    st.text(st.characters(categories=["Cc", "Zs", "Lo", "Sm"]), max_size=80),
    st.integers(-(2**31), 2**31 - 1),
)
@example("1\x00.invalid", 9092)  # the resolver stops at the null, and finds an address
@example("a" * 64 + ".invalid", 9092)
@example("kafka.invalid", 0)
def test_whatever_a_broker_advertises_is_a_failed_stage(host: str, port: int) -> None:
    """None of these names exists: none may lead to a traceback."""
    connectivity = EndpointChecker(PLAINTEXT).check(
        host if host.endswith(".invalid") else f"{host}\n", port
    )
    assert connectivity.failed_stage is not None
    assert connectivity.failed_stage.stage is ConnectionStage.RESOLVE
