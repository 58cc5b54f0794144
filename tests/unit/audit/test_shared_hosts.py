"""Brokers share a host where they call each other by one name or address, and have no racks."""

from dataclasses import replace

import pytest

from counterpoise.audit.facts import AuditFacts
from counterpoise.model.severity import Severity
from tests.support.audits import connectivity, endpoint, facts, findings_of, healthy

RULE = "replicas-on-one-host"
PROXIED = "CLIENT://{name}:9092,EXTERNAL://proxy.example:909{broker_id}"


def advertising(
    *names: str, racks: str = "1 2 3", text: str = "CLIENT://{name}:9092"
) -> AuditFacts:
    """Facts in which brokers 1, 2, ... call each other by these names: by their listener CLIENT."""
    cluster = healthy(racks=racks)
    for broker_id, name in enumerate(names, 1):
        listeners = text.format(name=name, broker_id=broker_id)
        cluster.configs.static[broker_id]["advertised.listeners"] = listeners
    return facts(cluster)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (advertising("kafka-a", "KAFKA-A"), [("host kafka-a", Severity.WARNING)]),
        (advertising("kafka-a", "kafka-a", racks="1=a 2=b 3=c"), []),
        (advertising("kafka-a", "kafka-a", racks="1=a 2 3"), []),
        (advertising("127.0.0.1", "127.0.0.1"), [("host 127.0.0.1", Severity.INFO)]),
        (advertising("", ""), []),
        (advertising("kafka-a", "kafka-b", "kafka-c", text=PROXIED), []),
    ],
    ids=["one name", "racks", "one without a rack", "loopback", "no name", "proxy"],
)
def test_brokers_on_one_host(given: AuditFacts, expected: list[tuple[str, Severity]]) -> None:
    found = findings_of(RULE, given)
    assert [(finding.subject, finding.severity) for finding in found] == expected


def test_two_names_of_one_address_are_one_host() -> None:
    cluster = healthy(racks="1 2 3")
    given = facts(cluster)
    usual = connectivity(given.snapshot)
    checks = {
        broker_id: endpoint(f"broker-{broker_id}:9092", ip=ip)
        for broker_id, ip in ((1, "10.0.0.7"), (2, "10.0.0.7"), (3, "10.0.0.8"))
    }
    given = replace(given, connectivity=replace(usual, advertised=checks))
    (found,) = findings_of(RULE, given)
    assert found.subject == "host 10.0.0.7"
    assert found.summary.startswith("brokers 1, 2 are on one host, 10.0.0.7, and have no rack: 21 ")
