"""Advertised listeners: where brokers send clients to, and whether a client gets there.

    broker 3 advertises kafka3.internal:9092: resolve: name not known     # advertised-unreachable

A client comes in by the bootstrap list and then connects to what brokers advertise; each of these
is walked to.

Limits: the walk is from here: another network may resolve and route otherwise. Listeners of other
names than ours are known by the brokers' configs alone.
"""

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rule import Area, CheckResult, Need, Rule, evidence, unknown
from counterpoise.audit.rules.bootstrap import stages
from counterpoise.audit.unavailable_data import unavailable
from counterpoise.model.connectivity import EndpointCheck
from counterpoise.model.finding import Evidence
from counterpoise.model.inspection import InspectionItem
from counterpoise.model.kafka import ConfigValue
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_ids, join_names, pluralize

_CLUSTER: Final = "cluster"
_WALK: Final = frozenset({Need.CONNECTIVITY})
_ASKED: Final = frozenset({Need.INSPECTION})
_ADVERTISED: Final = "advertised.listeners"
_LISTENERS: Final = "listeners"
_MAP: Final = "listener.security.protocol.map"
_DOCUMENTED: Final = "https://kafka.apache.org/documentation/#brokerconfigs_"
# What Kafka takes a listener's name for where the map does not tell.
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True, slots=True)
class Listener:
    name: str
    host: str
    port: str

    @property
    def endpoint(self) -> str:
        return f"{self.host}:{self.port}"


def listeners_of(text: str | None) -> tuple[Listener, ...]:
    """Of `CLIENT://kafka-1:9092,INTERNAL://[::1]:9093`; what reads otherwise is left out."""
    found = []
    for word in (text or "").split(","):
        name, separator, endpoint = word.strip().partition("://")
        host, _, port = endpoint.rpartition(":")
        if separator and port:
            found.append(Listener(name.upper(), host.strip("[]"), port))
    return tuple(found)


def _unreachable(facts: AuditFacts) -> Iterator[CheckResult]:
    led = _led(facts)
    for broker_id in facts.snapshot.live_broker_ids:
        one = _advertised(facts).get(broker_id)
        if one is None:
            yield unknown(f"broker {broker_id}", "nobody walked to its endpoint")
        elif not one.is_reachable:
            topics = led.get(broker_id, [])
            lost = f"; {pluralize(len(topics), 'topic')} with partitions that it leads cannot be used: {join_names(topics)}"
            yield CheckResult(
                f"broker {broker_id}",
                f"broker {broker_id} advertises {one.address}: {one.failure}{lost if topics else ''}",
                stages(one),
                fix=_advertise(facts, broker_id),
            )


def _led(facts: AuditFacts) -> dict[int, list[str]]:
    """Topics of which each broker leads a partition."""
    led = (
        facts.snapshot.partitions.select(["topic", "leader"])
        .group_by(["topic", "leader"])
        .aggregate([])
    )
    found: dict[int, list[str]] = {}
    for row in led.sort_by("topic").to_pylist():
        found.setdefault(row["leader"], []).append(row["topic"])
    return found


def _advertise(facts: AuditFacts, broker_id: int) -> tuple[str, ...]:
    """The line of server.properties, with the listeners that the broker advertises now."""
    configs = facts.inspection.broker_configs.get(broker_id, {})
    told = configs.get(_ADVERTISED) or configs.get(_LISTENERS)
    listeners = listeners_of(told.value if told else None) or (Listener("LISTENER", "", "PORT"),)
    line = ",".join(f"{one.name}://HOST-THAT-CLIENTS-RESOLVE:{one.port}" for one in listeners)
    return (f"# server.properties of broker {broker_id}, then restart it:", f"{_ADVERTISED}={line}")


def _wrong_broker(facts: AuditFacts) -> Iterator[CheckResult]:
    for broker_id, one in sorted(_advertised(facts).items()):
        if not one.is_reachable:
            continue
        if one.is_expected_broker is None:
            yield unknown(f"broker {broker_id}", f"which broker answers at {one.address}")
        elif not one.is_expected_broker:
            yield CheckResult(
                f"broker {broker_id}",
                f"broker {broker_id} advertises {one.address}, where {one.actual_broker} answers",
                stages(one),
                fix=_advertise(facts, broker_id),
            )


def _loopback(facts: AuditFacts) -> Iterator[CheckResult]:
    yield from unavailable(facts, InspectionItem.BROKER_CONFIGS)
    for broker_id, found in _endpoints(facts).items():
        local = [one for one in found if _is_local(one.host)]
        if local:
            yield CheckResult(
                f"broker {broker_id}",
                f"broker {broker_id} advertises {join_ids([one.endpoint for one in local])}: an address of whoever asks",
                _shown(local),
                fix=_advertise(facts, broker_id),
            )


def _is_local(host: str) -> bool:
    """Loopback, or the wildcard: each client takes it for itself."""
    address = _ip(host)
    if address is not None:
        return address.is_loopback or address.is_unspecified
    return host.lower().rstrip(".") in ("", "localhost", "localhost.localdomain", "ip6-localhost")


def _raw_ip(facts: AuditFacts) -> Iterator[CheckResult]:
    yield from unavailable(facts, InspectionItem.BROKER_CONFIGS)
    for broker_id, found in _endpoints(facts).items():
        raw = [one for one in found if _ip(one.host) is not None and not _is_local(one.host)]
        if raw:
            yield CheckResult(
                f"broker {broker_id}",
                f"broker {broker_id} advertises the address {join_ids([one.endpoint for one in raw])} instead of a name",
                _shown(raw),
                fix=_advertise(facts, broker_id),
            )


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def _duplicates(facts: AuditFacts) -> Iterator[CheckResult]:
    yield from unavailable(facts, InspectionItem.BROKER_CONFIGS)
    at: dict[str, set[int]] = {}
    for broker_id, found in _endpoints(facts).items():
        for one in found:
            at.setdefault(one.endpoint.lower(), set()).add(broker_id)
    for endpoint, broker_ids in sorted(at.items()):
        if len(broker_ids) > 1:
            brokers = sorted(broker_ids)
            yield CheckResult(
                f"endpoint {endpoint}",
                f"brokers {join_ids(brokers)} all advertise {endpoint}: clients of all of them end up at one",
                evidence(("broker", "endpoint"), [(broker_id, endpoint) for broker_id in brokers]),
                fix=tuple(line for broker_id in brokers for line in _advertise(facts, broker_id)),
            )


def _security_differs(facts: AuditFacts) -> Iterator[CheckResult]:
    yield from unavailable(facts, InspectionItem.BROKER_CONFIGS)
    protocols: dict[str, dict[int, str]] = {}
    for broker_id, configs in sorted(facts.inspection.broker_configs.items()):
        mapped = _protocols(configs)
        for one in _advertised_names(configs):
            protocols.setdefault(one, {})[broker_id] = mapped.get(one, one)
    for name, of in sorted(protocols.items()):
        if len(set(of.values())) > 1:
            yield CheckResult(
                f"listener {name}",
                f"listener {name} has {len(set(of.values()))} security protocols: {join_ids(sorted(set(of.values())))}",
                evidence(("broker", "security protocol"), list(of.items())),
                fix=(
                    f"# server.properties of all brokers, then restart them one by one: one protocol for {name} in",
                    _MAP,
                ),
            )


def _names_differ(facts: AuditFacts) -> Iterator[CheckResult]:
    yield from unavailable(facts, InspectionItem.BROKER_CONFIGS)
    named = {
        b: _advertised_names(configs)
        for b, configs in sorted(facts.inspection.broker_configs.items())
    }
    for name in sorted(set().union(*named.values())):
        without = [broker_id for broker_id, names in named.items() if name not in names]
        if without:
            rows = [(broker_id, join_ids(sorted(names))) for broker_id, names in named.items()]
            yield CheckResult(
                f"listener {name}",
                f"listener {name} is not advertised by {pluralize(len(without), 'broker')}: {join_ids(without)}",
                evidence(("broker", "advertised listeners"), rows),
                fix=tuple(
                    f"# server.properties of broker {b}: add {name}:// to {_ADVERTISED}"
                    for b in without
                ),
            )


def _not_in_map(facts: AuditFacts) -> Iterator[CheckResult]:
    yield from unavailable(facts, InspectionItem.BROKER_CONFIGS)
    lost: dict[str, list[int]] = {}
    for broker_id, configs in sorted(facts.inspection.broker_configs.items()):
        mapped = _protocols(configs)
        listening = {one.name for one in listeners_of(_value(configs, _LISTENERS))}
        for name in sorted(listening | _advertised_names(configs)):
            if name not in mapped and name not in _PROTOCOLS:
                lost.setdefault(name, []).append(broker_id)
    for name, brokers in sorted(lost.items()):
        yield CheckResult(
            f"listener {name}",
            f"listener {name} of brokers {join_ids(brokers)} is not in {_MAP}",
            evidence(("broker", "listener"), [(broker_id, name) for broker_id in brokers]),
            fix=(
                f"# server.properties of brokers {join_ids(brokers)}: add {name}:PROTOCOL to {_MAP}",
            ),
        )


def _protocols(configs: Mapping[str, ConfigValue]) -> dict[str, str]:
    pairs = [word.partition(":") for word in (_value(configs, _MAP) or "").split(",")]
    return {
        name.strip().upper(): protocol.strip().upper()
        for name, _, protocol in pairs
        if protocol.strip()
    }


def _value(configs: Mapping[str, ConfigValue], key: str) -> str | None:
    found = configs.get(key)
    return found.value if found is not None else None


def _advertised_names(configs: Mapping[str, ConfigValue]) -> set[str]:
    """Those of clients and brokers; controllers' are nobody's business but theirs."""
    controllers = {
        name.strip().upper()
        for name in (_value(configs, "controller.listener.names") or "").split(",")
    }
    told = listeners_of(_value(configs, _ADVERTISED)) or listeners_of(_value(configs, _LISTENERS))
    return {one.name for one in told} - controllers


def _endpoints(facts: AuditFacts) -> dict[int, list[Listener]]:
    """By live broker: what we are sent to, and what else it advertises."""
    found = {}
    for row in sorted(facts.snapshot.brokers.to_pylist(), key=lambda row: int(row["broker_id"])):
        if not row["is_fenced"]:
            broker_id, host = row["broker_id"], str(row["host"] or "").strip("[]")
            ours = Listener("", host, str(row["port"]))
            configs = facts.inspection.broker_configs.get(broker_id, {})
            names = _advertised_names(configs)
            others = [
                one for one in listeners_of(_value(configs, _ADVERTISED)) if one.name in names
            ]
            known = {one.endpoint for one in others}
            found[broker_id] = [
                *others,
                *([ours] if row["host"] is not None and ours.endpoint not in known else []),
            ]
    return found


def _shown(listeners: list[Listener]) -> Evidence:
    return evidence(
        ("listener", "host", "port"),
        [(one.name or "ours", one.host, one.port) for one in listeners],
    )


def _advertised(facts: AuditFacts) -> Mapping[int, EndpointCheck]:
    return facts.connectivity.advertised if facts.connectivity else {}


RULES: Final = (
    Rule(
        "advertised-unreachable",
        Area.LISTENERS,
        Severity.CRITICAL,
        title="Advertised endpoints that cannot be reached",
        why="The bootstrap list answers and sends clients here: producing to and consuming from every partition that "
        "this broker leads fails, and the message names an address that nobody configured.",
        how="Make the name resolve and the port reachable from where clients run, or advertise another.",
        source=_DOCUMENTED + _ADVERTISED,
        check=_unreachable,
        needs=_WALK,
    ),
    Rule(
        "advertised-wrong-broker",
        Area.LISTENERS,
        Severity.CRITICAL,
        title="Endpoints at which another broker answers",
        why="Clients ask this broker's partitions of a broker that does not lead them, refresh their metadata, and "
        "come back to the same place for ever.",
        how="Correct the name's address, the port forwarding, or what the broker advertises.",
        source=_DOCUMENTED + _ADVERTISED,
        check=_wrong_broker,
        needs=_WALK,
    ),
    Rule(
        "advertised-loopback",
        Area.LISTENERS,
        Severity.CRITICAL,
        title="Loopback or wildcard addresses that are advertised",
        why="Every client takes such an address for its own machine; only those on the broker itself get through.",
        how="Advertise a name that clients resolve to this broker.",
        source=_DOCUMENTED + _ADVERTISED,
        check=_loopback,
        needs=_ASKED,
    ),
    Rule(
        "advertised-duplicate",
        Area.LISTENERS,
        Severity.CRITICAL,
        title="One endpoint that several brokers advertise",
        why="Clients of all these brokers end up at one of them, which refuses what it does not lead.",
        how="Give each broker a host or a port of its own.",
        source=_DOCUMENTED + _ADVERTISED,
        check=_duplicates,
        needs=_ASKED,
    ),
    Rule(
        "advertised-ip-address",
        Area.LISTENERS,
        Severity.INFO,
        title="Addresses instead of names that are advertised",
        why="When the machine gets another address every client has to wait for the broker's restart, and certificates "
        "have to name the address.",
        how="Advertise a stable name.",
        source=_DOCUMENTED + _ADVERTISED,
        check=_raw_ip,
        needs=_ASKED,
    ),
    Rule(
        "listener-security-differs",
        Area.LISTENERS,
        Severity.WARNING,
        title="One listener name with different security",
        why="A client brings one security protocol: it works with some brokers and fails with the others.",
        how="Map the listener's name to one security protocol on all brokers.",
        source=_DOCUMENTED + _MAP,
        check=_security_differs,
        needs=_ASKED,
    ),
    Rule(
        "listener-names-differ",
        Area.LISTENERS,
        Severity.WARNING,
        title="Listeners that some brokers do not advertise",
        why="Metadata has only brokers with the listener by which a client came: what the others lead seems to have no "
        "leader.",
        how="Advertise the same listener names on all brokers.",
        source=_DOCUMENTED + _ADVERTISED,
        check=_names_differ,
        needs=_ASKED,
    ),
    Rule(
        "listener-not-in-map",
        Area.LISTENERS,
        Severity.WARNING,
        title="Listeners without a security protocol",
        why="A broker does not start with a listener whose security protocol it cannot tell: the next restart is the "
        "last.",
        how="Add the listener's name to the map.",
        source=_DOCUMENTED + _MAP,
        check=_not_in_map,
        needs=_ASKED,
    ),
)
