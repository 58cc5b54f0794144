"""Rules of the areas bootstrap and advertised listeners: each fires for its fault, and for nothing
else.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from counterpoise.audit.facts import AuditFacts
from counterpoise.model.connectivity import (
    Certificate,
    ConnectionStage,
    ConnectivityCheck,
    EndpointCheck,
    ListenerCertificate,
    MetadataResponse,
)
from counterpoise.model.kafka import BrokerDescription, ConfigSource, ConfigValue
from counterpoise.model.listeners import tls_listeners
from counterpoise.model.severity import Severity
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.audits import (
    NOW,
    connectivity,
    endpoint,
    facts,
    findings_of,
    healthy,
    past,
    snapshot_of,
)


def with_bootstrap(*entries: EndpointCheck, cluster: SimulatedCluster | None = None) -> AuditFacts:
    found = facts(cluster)
    assert found.connectivity is not None
    return replace(found, connectivity=replace(found.connectivity, bootstrap=entries))


def with_advertised(broker_id: int, one: EndpointCheck | None) -> AuditFacts:
    found = facts()
    assert found.connectivity is not None
    advertised = {**found.connectivity.advertised, broker_id: one}
    return replace(
        found,
        connectivity=replace(
            found.connectivity, advertised={b: w for b, w in advertised.items() if w is not None}
        ),
    )


def subjects(rule: str, given: AuditFacts) -> list[tuple[str, Severity]]:
    return [(finding.subject, finding.severity) for finding in findings_of(rule, given)]


A, B, C = (endpoint(f"broker-{n}:9092") for n in (1, 2, 3))
DEAD = endpoint("old-kafka:9092", failed=ConnectionStage.RESOLVE, said="name not known")


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        pytest.param((A,), [("cluster", Severity.WARNING)], id="one"),
        pytest.param((A, B), [("cluster", Severity.INFO)], id="two"),
        pytest.param((A, B, C), [], id="three"),
        pytest.param(
            (replace(A, address="kafka:9092", ips=("10.0.0.1", "10.0.0.2", "10.0.0.3")),),
            [],
            id="one name",
        ),
        pytest.param(
            (A, replace(A, address="same:9092"), replace(A, address="again:9092")),
            [("cluster", Severity.WARNING)],
            id="three names of one address",
        ),
        pytest.param(
            (replace(A, ips=("127.0.0.1", "::1")),),
            [("cluster", Severity.WARNING)],
            id="both families of one host",
        ),
    ],
)
def test_bootstrap_addresses_are_counted_as_clients_meet_them(
    entries: tuple[EndpointCheck, ...], expected: list[tuple[str, Severity]]
) -> None:
    assert subjects("bootstrap-few-addresses", with_bootstrap(*entries)) == expected


def test_the_line_to_paste_names_brokers_of_different_racks() -> None:
    given = facts(healthy("orders-0: 1 2 3", racks="1=a 2=a 3=b 4=c"))
    assert given.connectivity is not None
    finding = findings_of(
        "bootstrap-few-addresses",
        replace(given, connectivity=replace(given.connectivity, bootstrap=(A,))),
    )[0]
    assert finding.fix[1:] == ("bootstrap.servers=broker-1:9092,broker-3:9092,broker-4:9092",)


def test_two_brokers_need_no_third_address() -> None:
    two = healthy("orders-0: 1 2", racks="1=a 2=b")
    assert findings_of("bootstrap-few-addresses", with_bootstrap(A, B, cluster=two)) == ()


def test_a_dead_entry_is_reported_with_the_failed_step_and_the_list_without_it() -> None:
    finding = findings_of("bootstrap-dead-address", with_bootstrap(A, DEAD))[0]
    assert (finding.subject, finding.severity) == (
        "bootstrap address old-kafka:9092",
        Severity.WARNING,
    )
    assert "resolve: name not known" in finding.summary
    assert finding.fix[1:] == ("bootstrap.servers=broker-1:9092",)
    assert (
        findings_of("bootstrap-dead-address", with_bootstrap(DEAD))[0].severity is Severity.CRITICAL
    )


def test_an_address_of_a_removed_broker_is_not_reported_as_dead() -> None:
    """What tells it is the history: the address was a broker's that is not registered any more."""
    given = with_bootstrap(A, endpoint("broker-4:9092", failed=ConnectionStage.TCP), DEAD)
    was_larger = snapshot_of(healthy("orders-0: 1 2 3", racks="1=a 2=b 3=c 4=a"))
    given = replace(given, past=replace(past(given.snapshot), recent_snapshots=(was_larger,)))
    assert subjects("bootstrap-removed-broker", given) == [
        ("bootstrap address broker-4:9092", Severity.WARNING)
    ]
    assert subjects("bootstrap-dead-address", given) == [
        ("bootstrap address old-kafka:9092", Severity.WARNING)
    ]
    still_there = with_bootstrap(A, endpoint("broker-2:9092", failed=ConnectionStage.TCP))
    still_there = replace(still_there, past=given.past)
    assert findings_of("bootstrap-removed-broker", still_there) == ()


def test_a_list_within_one_rack_is_a_finding_and_one_without_known_racks_is_unknown() -> None:
    rule = "bootstrap-one-rack"
    two_in_a = healthy("orders-0: 1 2 3", racks="1=a 2=a 3=b")
    assert subjects(rule, with_bootstrap(A, B, cluster=two_in_a)) == [("cluster", Severity.WARNING)]
    assert subjects(rule, with_bootstrap(A, C, cluster=two_in_a)) == []
    by_address = replace(A, address="kafka:9092", ips=("10.0.0.1", "10.0.0.3"))
    assert subjects(rule, with_bootstrap(by_address, cluster=two_in_a)) == []
    balancer = endpoint("balancer:9092", ip="10.7.7.7")
    assert subjects(rule, with_bootstrap(A, balancer, cluster=two_in_a)) == [
        ("cluster", Severity.UNKNOWN)
    ]
    assert (
        subjects(rule, with_bootstrap(A, cluster=healthy("orders-0: 1 2", racks="1=a 2=a"))) == []
    )


def test_an_address_of_another_cluster_is_critical() -> None:
    other_cluster = endpoint(
        "stage:9092",
        metadata=MetadataResponse(
            "another-id", (BrokerDescription(1, "stage", 9092, None, False),)
        ),
    )
    assert subjects("bootstrap-other-cluster", with_bootstrap(A, other_cluster)) == [
        ("bootstrap address stage:9092", Severity.CRITICAL)
    ]
    assert findings_of("metadata-differs", with_bootstrap(A, other_cluster)) == ()


def test_brokers_that_tell_different_things_of_one_cluster_are_named() -> None:
    given = facts()
    assert given.connectivity is not None
    fewer = MetadataResponse(
        given.snapshot.cluster_id, (BrokerDescription(3, "broker-3", 9092, "c", False),)
    )
    finding = findings_of(
        "metadata-differs", with_advertised(3, endpoint("broker-3:9092", metadata=fewer))
    )[0]
    assert finding.subject == "cluster"
    assert finding.evidence is not None
    assert ("broker-3:9092", "picture-id", "3 at broker-3:9092") in finding.evidence.rows


# -- where brokers send clients to


def test_a_listener_that_is_right_stays_in_the_line_to_fill_in() -> None:
    cluster = healthy()
    cluster.configs.static[3]["advertised.listeners"] = (
        "CLIENT://localhost:9092,INSIDE://[2001:db8::3]:9094"
    )
    (finding,) = findings_of("advertised-loopback", facts(cluster))
    host = "HOST-THAT-CLIENTS-RESOLVE"
    listeners = f"CLIENT://{host}:9092,INSIDE://[2001:db8::3]:9094"
    assert finding.fix[-1] == f"# advertised.listeners={listeners}"


def test_an_endpoint_that_is_not_reached_names_what_cannot_be_used() -> None:
    dead = endpoint("kafka3.internal:9092", failed=ConnectionStage.RESOLVE, said="name not known")
    finding = findings_of("advertised-unreachable", with_advertised(3, dead))[0]
    assert (finding.subject, finding.severity) == ("broker 3", Severity.CRITICAL)
    assert "kafka3.internal:9092: resolve: name not known" in finding.summary
    assert "4 topics" in finding.summary
    assert finding.fix[-1] == "# advertised.listeners=CLIENT://HOST-THAT-CLIENTS-RESOLVE:9092"
    silent = endpoint(
        "broker-3:9092", failed=ConnectionStage.TCP, said="none; is a firewall in the way?"
    )
    finding = findings_of("advertised-unreachable", with_advertised(3, silent))[0]
    assert "none; is a firewall in the way?" in finding.summary
    assert finding.fix[0] == "# if broker 3 does not run, start it; if it does:"
    shown = Certificate("CN=kafka", "CN=ca", ("broker-3",), NOW - timedelta(days=1), True)
    tls = ConnectionStage.TLS
    refused = endpoint("broker-3:9092", failed=tls, said="it expired; renew it", certificate=shown)
    finding = findings_of("advertised-unreachable", with_advertised(3, refused))[0]
    assert finding.fix == ("# renew it",), "what the broker advertises is right"
    plain = endpoint("broker-3:9092", failed=tls, said="it does not speak TLS; name a TLS port")
    finding = findings_of("advertised-unreachable", with_advertised(3, plain))[0]
    assert "advertised.listeners=" in finding.fix[-1], "it is the port of another listener"
    assert subjects("advertised-unreachable", with_advertised(3, None)) == [
        ("broker 3", Severity.UNKNOWN)
    ]


def test_another_broker_at_the_endpoint_is_a_finding() -> None:
    rule = "advertised-wrong-broker"
    other = endpoint("broker-3:9092", is_expected_broker=False, actual_broker_id=2)
    assert "where broker 2 responds" in findings_of(rule, with_advertised(3, other))[0].summary
    assert subjects(rule, with_advertised(3, endpoint("broker-3:9092"))) == [
        ("broker 3", Severity.UNKNOWN)
    ]
    # Where nobody answers there is nobody to be another one: that is a finding of its own.
    assert (
        findings_of(rule, with_advertised(3, endpoint("broker-3:9092", failed=ConnectionStage.TCP)))
        == ()
    )


def advertising(**listeners: str) -> Callable[[SimulatedCluster], None]:
    def change(cluster: SimulatedCluster) -> None:
        for name, text in listeners.items():
            cluster.configs.static[int(name.removeprefix("b"))]["advertised.listeners"] = text

    return change


def setting(broker_id: int, **values: str) -> Callable[[SimulatedCluster], None]:
    def change(cluster: SimulatedCluster) -> None:
        cluster.configs.static[broker_id] |= {
            key.replace("_", "."): value for key, value in values.items()
        }

    return change


@pytest.mark.parametrize(
    ("rule", "change", "expected"),
    [
        ("advertised-loopback", advertising(b2="CLIENT://localhost:9092"), ["broker 2"]),
        (
            "advertised-loopback",
            advertising(b2="CLIENT://127.0.0.1:9092,OTHER://b2:1"),
            ["broker 2"],
        ),
        ("advertised-loopback", advertising(b2="CLIENT://[::1]:9092"), ["broker 2"]),
        ("advertised-loopback", advertising(b2="CLIENT://0.0.0.0:9092"), ["broker 2"]),
        ("advertised-loopback", advertising(b2="CLIENT://localhost.example.org:9092"), []),
        ("advertised-loopback", advertising(b2="CLIENT://b2:9092,CONTROLLER://localhost:9093"), []),
        ("advertised-ip-address", advertising(b3="CLIENT://10.1.2.3:9092"), ["broker 3"]),
        ("advertised-ip-address", advertising(b3="CLIENT://[fd00::3]:9092"), ["broker 3"]),
        ("advertised-ip-address", advertising(b3="CLIENT://127.0.0.1:9092"), []),
        ("advertised-ip-address", advertising(b3="CLIENT://10.1.2.3.example.org:9092"), []),
        (
            "advertised-duplicate",
            advertising(b3="CLIENT://broker-2:9092"),
            ["endpoint broker-2:9092"],
        ),
        ("advertised-duplicate", advertising(b3="CLIENT://broker-2:9093"), []),
        (
            "listener-security-differs",
            setting(2, listener_security_protocol_map="CLIENT:PLAINTEXT,CONTROLLER:SSL"),
            ["listener CLIENT"],
        ),
        (
            "listener-security-differs",
            setting(
                2, listener_security_protocol_map="CLIENT:SSL,CONTROLLER:PLAINTEXT,UNUSED:PLAINTEXT"
            ),
            [],
        ),
    ],
)
def test_what_brokers_advertise(
    rule: str, change: Callable[[SimulatedCluster], None], expected: list[str]
) -> None:
    cluster = healthy()
    change(cluster)
    given = facts(cluster)
    assert [finding.subject for finding in findings_of(rule, given)] == expected


@pytest.mark.parametrize(
    "rule",
    [
        "listener-security-differs",
        "advertised-loopback",
        "advertised-ip-address",
        "advertised-duplicate",
    ],
)
def test_listeners_of_an_unresponsive_broker_are_unknown(rule: str) -> None:
    cluster = healthy()
    cluster.freeze_broker(2)
    assert subjects(rule, facts(cluster)) == [("cluster", Severity.UNKNOWN)]


def test_certificates_of_other_listeners_are_one_finding_for_each_listener() -> None:
    """Of the same names on several brokers the first that expires decides."""

    def presented(listener: str, broker_id: int, days: int) -> ListenerCertificate:
        ends = NOW + timedelta(days=days)
        certificate = Certificate("CN=kafka", "CN=ca", (), ends, False)
        return ListenerCertificate(listener, broker_id, f"kafka-{broker_id}:9094", certificate)

    given = facts()
    assert given.connectivity is not None
    others = (
        presented("EXTERNAL", 1, 20),
        presented("EXTERNAL", 2, -1),
        presented("EXTERNAL", 3, 31),
        presented("OTHER", 1, 31),
    )
    given = replace(given, connectivity=replace(given.connectivity, other_certificates=others))
    (found,) = findings_of("certificate-expires", given)
    assert (found.subject, found.severity) == ("listener EXTERNAL", Severity.CRITICAL)
    assert found.summary == (
        "the certificate of listener EXTERNAL expired at 2026-11-21 12:00 UTC on brokers 1, 2"
    )
    assert findings_of("certificate-other-host", given) == ()


def test_listeners_with_tls_are_those_for_clients_and_brokers() -> None:
    texts = {
        "advertised.listeners": "A://kafka:1,B://[::1]:2,SSL://kafka:3,CONTROLLER://kafka:4",
        "listener.security.protocol.map": "A:PLAINTEXT,B:SASL_SSL,CONTROLLER:SSL",
        "controller.listener.names": "CONTROLLER",
    }
    configs = {key: ConfigValue(text, ConfigSource.STATIC_BROKER) for key, text in texts.items()}
    found = [listener.endpoint_in_config for listener in tls_listeners(configs)]
    assert found == ["[::1]:2", "kafka:3"]


def test_a_certificate_for_another_host_is_a_finding_of_a_bootstrap_address_too() -> None:
    certificate = Certificate("CN=old", "CN=ca", ("old-kafka",), NOW + timedelta(days=300), False)
    given = with_bootstrap(A, endpoint("kafka:9093", certificate=certificate))
    assert subjects("certificate-other-host", given) == [
        ("bootstrap address kafka:9093", Severity.WARNING)
    ]
    assert findings_of("certificate-expires", given) == ()


def test_without_a_connectivity_check_every_rule_that_needs_one_is_unknown() -> None:
    given = facts(connectivity=None)
    for rule in (
        "bootstrap-few-addresses",
        "bootstrap-dead-address",
        "advertised-unreachable",
        "certificate-expires",
    ):
        assert subjects(rule, given) == [("cluster", Severity.UNKNOWN)]


def test_a_broker_that_is_not_live_is_not_checked() -> None:
    cluster = healthy()
    cluster.kill_broker(3)
    given = facts(cluster)
    assert isinstance(given.connectivity, ConnectivityCheck)
    assert connectivity(given.snapshot).advertised.keys() == {1, 2}
    assert findings_of("advertised-unreachable", given) == ()
