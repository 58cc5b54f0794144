"""Advertised listeners: where brokers send clients to, and whether clients can connect there.

    broker 3 advertises kafka3.internal:9092: resolve: name not known     # advertised-unreachable

A client starts with the bootstrap list and then connects to what brokers advertise; the
connectivity check tries each of these endpoints.

Limits: the check runs from here: another network may resolve and route otherwise. Listeners other
than the one used here are known from the brokers' configs only.
"""

import ipaddress
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import replace
from typing import Final

from counterpoise.audit.commands import to_fill_in
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.outage import causes_among
from counterpoise.audit.rule import CheckResult, Need, evidence, rule, unknown
from counterpoise.audit.rules.bootstrap import stage_table
from counterpoise.model import subjects
from counterpoise.model.connectivity import (
    EXPIRY_DAYS,
    EXPIRY_PERCENT,
    Certificate,
    ConnectionStage,
    EndpointCheck,
)
from counterpoise.model.finding import Evidence
from counterpoise.model.grouping import grouped
from counterpoise.model.inspection import InspectionItem
from counterpoise.model.listeners import (
    ADVERTISED,
    LISTENERS,
    PROTOCOL_MAP,
    Configs,
    Listener,
    advertised_names,
    between_brokers,
    listeners_of,
    protocol_map,
    value_of,
)
from counterpoise.model.safe_text import properties_value
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_ids, join_names, list_brokers, pluralize

_HOST_TO_FILL_IN: Final = "HOST-THAT-CLIENTS-RESOLVE"
_LOCAL_NAMES: Final = ("", "localhost", "localhost.localdomain", "ip6-localhost")


def is_local(host: str) -> bool:
    """Return whether each client takes the host for itself: loopback, or the wildcard."""
    address = ip_of(host)
    if address is not None:
        return address.is_loopback or address.is_unspecified
    return host.lower().rstrip(".") in _LOCAL_NAMES


def ip_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the host as an IP address; None where it is a name."""
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def server_properties(
    broker_id: int, configs: Configs, wrong_endpoints: Container[str]
) -> tuple[str, ...]:
    """Return the line of server.properties to fill in, with what the broker advertises now.

    Hosts are to be filled in where they are wrong; everywhere, where none of `wrong_endpoints` is
    in the configs.
    """
    key = ADVERTISED if ADVERTISED in configs else LISTENERS
    configured = listeners_of(value_of(configs, key))
    listeners = configured or (Listener("LISTENER", "", "PORT"),)
    wrong = [listener for listener in listeners if listener.endpoint in wrong_endpoints]
    values = [
        f"{listener.name}://{_HOST_TO_FILL_IN}:{listener.port}"
        if listener in (wrong or listeners)
        else f"{listener.name}://{listener.endpoint_in_config}"
        for listener in listeners
    ]
    return (
        f"# server.properties of broker {broker_id}, then restart it:",
        *to_fill_in(f"{ADVERTISED}={properties_value(','.join(values))}"),
    )


_DOCUMENTED: Final = "https://kafka.apache.org/documentation/#"
_BROKER_CONFIGS: Final = f"{_DOCUMENTED}brokerconfigs_"
# Listener names that Kafka takes for a protocol where the map has no entry.
_MEANINGS: Final = {
    "PLAINTEXT": "no encryption and no login",
    "SASL_PLAINTEXT": "a login without encryption",
}


# -- endpoints


@rule(
    "advertised-loopback",
    Severity.CRITICAL,
    title="Loopback or wildcard addresses that are advertised",
    why="Every client takes such an address for its own machine; only clients on the broker's "
    "machine can connect. Where this check runs on that machine and gets there, it is a warning.",
    how="Advertise a name that clients resolve to this broker.",
    source=f"{_BROKER_CONFIGS}{ADVERTISED}",
    needs={InspectionItem.BROKER_CONFIGS},
    severities={Severity.WARNING},
)
def advertised_loopback(facts: AuditFacts) -> Iterator[CheckResult]:
    text = "advertises {}: on every client that is the client's own machine"
    for broker_id, result in _brokers_advertising(facts, is_local, text):
        check = facts.endpoints.advertised.get(broker_id)
        is_unusable = check is None or (is_local(_host_of(check)) and not _responds(check))
        severity = Severity.CRITICAL if is_unusable else Severity.WARNING
        causes = causes_among(facts, [broker_id]) if is_unusable else ()
        yield replace(result, severity=severity, causes=causes)


def _responds(check: EndpointCheck) -> bool:
    """Return whether the broker responds, be it to refuse us: its certificate may have expired."""
    is_refused = bool(check.remedy) and not check.is_of_another_listener
    return check.is_as_expected or is_refused


@rule(
    "advertised-duplicate",
    Severity.CRITICAL,
    title="One endpoint that several brokers advertise",
    why="Clients of all these brokers reach one of them, which refuses what it does not lead.",
    how="Give each broker a host or a port of its own.",
    source=f"{_BROKER_CONFIGS}{ADVERTISED}",
    needs={InspectionItem.BROKER_CONFIGS},
)
def advertised_duplicate(facts: AuditFacts) -> Iterator[CheckResult]:
    brokers_by_endpoint = grouped(
        (endpoint, broker_id)
        for broker_id, listeners in _advertised_listeners(facts).items()
        for endpoint in {listener.endpoint.lower() for listener in listeners}
    )
    for endpoint, brokers in sorted(brokers_by_endpoint.items()):
        if len(brokers) < 2 or is_local(endpoint.rpartition(":")[0]):
            continue
        rows = [(broker_id, endpoint) for broker_id in brokers]
        yield CheckResult(
            subjects.endpoint(endpoint),
            f"{list_brokers(brokers)} all advertise {endpoint}{_reached_at(facts, endpoint)}: "
            "clients of all of them reach one broker",
            evidence(("broker", "endpoint"), rows),
            fix=tuple(
                line for broker_id in brokers for line in _advertise(facts, broker_id, [endpoint])
            ),
        )


def _reached_at(facts: AuditFacts, endpoint: str) -> str:
    """Return `, which reaches broker 1`, or why nobody is reached there; "" if it is not known."""
    checks = [c for c in facts.endpoints.endpoints if c.address.lower() == endpoint]
    broker_ids = {c.actual_broker_id for c in checks if c.actual_broker_id is not None}
    if broker_ids:
        return f", which reaches {list_brokers(sorted(broker_ids))}"
    return next((f" ({check.failure})" for check in checks if check.failure), "")


@rule(
    "advertised-unreachable",
    Severity.CRITICAL,
    title="Advertised endpoints that cannot be reached",
    why="The bootstrap list responds and sends clients here: producing to and consuming from every "
    "partition that this broker leads fails, and the error names an address that nobody configured "
    "in the client.",
    how="Make the name resolve and the port reachable from where clients run, or advertise another "
    "address.",
    source=f"{_BROKER_CONFIGS}{ADVERTISED}",
    needs={Need.CONNECTIVITY},
)
def advertised_unreachable(facts: AuditFacts) -> Iterator[CheckResult]:
    topics_by_leader = _topics_by_leader(facts)
    checks = facts.endpoints.advertised
    shared = _shared_addresses(facts)
    for broker_id in facts.snapshot.live_broker_ids:
        check = checks.get(broker_id)
        if check is None:
            yield unknown("its endpoint was not checked", subjects.broker(broker_id))
            continue
        if check.is_reachable or check.address.lower() in shared:
            continue
        topics = topics_by_leader.get(broker_id, [])
        affected = (
            f"; it leads partitions of {pluralize(len(topics), 'topic')} that clients cannot use: "
            f"{join_names(topics)}"
        )
        # These settings suit the listener of the bootstrap list, which advertises the wrong port.
        is_elsewhere = check.is_of_another_listener
        reason = check.failure.partition("; ")[0] if is_elsewhere else check.failure
        yield CheckResult(
            subjects.broker(broker_id),
            f"broker {broker_id} advertises {check.address}: {reason}{affected if topics else ''}",
            stage_table(check),
            fix=(*_start(check, broker_id), *_advertise(facts, broker_id, [check.address]))
            if is_elsewhere or not check.remedy
            else (f"# {check.remedy}",),
            causes=causes_among(facts, [broker_id]),
        )


def _start(check: EndpointCheck, broker_id: int) -> tuple[str, ...]:
    """Return what to do where the address may be right, and the broker is not running."""
    failed = check.failed_stage
    if failed is None or failed.stage is not ConnectionStage.TCP:
        return ()
    return (f"# if broker {broker_id} does not run, start it; if it does:",)


def _shared_addresses(facts: AuditFacts) -> set[str]:
    """Return the addresses of several brokers, of which `advertised-duplicate` tells."""
    checks = facts.endpoints.advertised.values()
    counts = Counter(check.address.lower() for check in checks if not is_local(_host_of(check)))
    return {address for address, count in counts.items() if count > 1}


def _host_of(check: EndpointCheck) -> str:
    return check.address.rpartition(":")[0].strip("[]")


def _topics_by_leader(facts: AuditFacts) -> dict[int, list[str]]:
    """Return the topics of which each broker leads a partition."""
    partitions = facts.snapshot.partitions.select(["topic", "leader"])
    pairs = partitions.group_by(["topic", "leader"]).aggregate([])
    return grouped((pair["leader"], pair["topic"]) for pair in pairs.sort_by("topic").to_pylist())


@rule(
    "advertised-wrong-broker",
    Severity.CRITICAL,
    title="Endpoints at which another broker responds",
    why="Clients ask this broker's partitions of a broker that does not lead them, refresh their "
    "metadata, and come back to the same place for ever.",
    how="Correct the name's address, the port forwarding, or what the broker advertises.",
    source=f"{_BROKER_CONFIGS}{ADVERTISED}",
    needs={Need.CONNECTIVITY},
)
def advertised_wrong_broker(facts: AuditFacts) -> Iterator[CheckResult]:
    shared = _shared_addresses(facts)
    for broker_id, check in sorted(facts.endpoints.advertised.items()):
        if not check.is_reachable or check.address.lower() in shared:
            continue
        subject = subjects.broker(broker_id)
        is_of_cluster = check.cluster_id in (None, facts.snapshot.cluster_id)
        if is_of_cluster and check.is_expected_broker is None:
            yield unknown(f"which broker responds at {check.address}", subject)
        elif not is_of_cluster or not check.is_expected_broker:
            actual = check.actual_broker if is_of_cluster else f"the cluster {check.cluster_id}"
            yield CheckResult(
                subject,
                f"broker {broker_id} advertises {check.address}, where {actual} responds",
                stage_table(check),
                fix=_advertise(facts, broker_id, [check.address]),
            )


@rule(
    "advertised-ip-address",
    Severity.INFO,
    title="IP addresses that are advertised instead of names",
    why="When the machine gets another address, clients cannot connect until the broker is "
    "restarted, and certificates have to contain the address.",
    how="Advertise a stable name.",
    source=f"{_BROKER_CONFIGS}{ADVERTISED}",
    needs={InspectionItem.BROKER_CONFIGS},
)
def advertised_ip_address(facts: AuditFacts) -> Iterator[CheckResult]:
    def is_remote_address(host: str) -> bool:
        return ip_of(host) is not None and not is_local(host)

    text = "advertises the address {} instead of a name"
    for _, result in _brokers_advertising(facts, is_remote_address, text):
        yield result


def _brokers_advertising(
    facts: AuditFacts, is_wrong: Callable[[str], bool], text: str
) -> Iterator[tuple[int, CheckResult]]:
    """Yield each broker with wrong hosts; `{}` in the text stands for their endpoints."""
    for broker_id, listeners in _advertised_listeners(facts).items():
        wrong = [listener for listener in listeners if is_wrong(listener.host)]
        if wrong:
            endpoints = join_ids([listener.endpoint for listener in wrong])
            rows = [(one.name or "not known", one.host, one.port) for one in wrong]
            result = CheckResult(
                subjects.broker(broker_id),
                f"broker {broker_id} {text.format(endpoints)}",
                evidence(("listener", "host", "port"), rows),
                fix=_advertise(facts, broker_id, [listener.endpoint for listener in wrong]),
            )
            yield broker_id, result


# -- listener names and protocols


@rule(
    "listener-security-differs",
    Severity.WARNING,
    title="One listener name with different security",
    why="A client uses one security protocol: it works with some brokers, not with the others.",
    how="Map the listener's name to one security protocol on all brokers.",
    source=f"{_BROKER_CONFIGS}{PROTOCOL_MAP}",
    needs={InspectionItem.BROKER_CONFIGS},
)
def listener_security_differs(facts: AuditFacts) -> Iterator[CheckResult]:
    rows_by_listener = grouped(
        (name, (broker_id, protocol_map(configs).get(name, name)))
        for broker_id, configs in facts.broker_configs.items()
        for name in advertised_names(configs)
    )
    for name, rows in sorted(rows_by_listener.items()):
        protocols = sorted({protocol for _, protocol in rows})
        if len(protocols) > 1:
            yield CheckResult(
                subjects.listener(name),
                f"listener {name} has {len(protocols)} security protocols: {join_ids(protocols)}",
                evidence(("broker", "security protocol"), rows),
                fix=(
                    "# server.properties of all brokers, then restart them one by one: one "
                    f"protocol for {name} in {PROTOCOL_MAP}",
                ),
            )


@rule(
    "listener-unencrypted",
    Severity.INFO,
    title="Listeners that are not encrypted",
    why="Whoever is on the way reads and changes records, and passwords of SASL/PLAIN. On a "
    "listener without SASL nobody logs in: every client is User:ANONYMOUS.",
    how="Add a listener with SSL or SASL_SSL, let clients and brokers go over to it, then remove "
    "this one. Where the network is trusted, waive this.",
    source=f"{_DOCUMENTED}security_overview",
    needs={InspectionItem.BROKER_CONFIGS},
)
def listener_unencrypted(facts: AuditFacts) -> Iterator[CheckResult]:
    rows_by_listener = grouped(
        (name, (broker_id, protocol, name == between_brokers(configs)))
        for broker_id, configs in facts.broker_configs.items()
        for name in advertised_names(configs)
        if (protocol := protocol_map(configs).get(name, name)) in _MEANINGS
    )
    for name, rows in sorted(rows_by_listener.items()):
        meanings = sorted({f"{protocol}: {_MEANINGS[protocol]}" for _, protocol, _ in rows})
        is_between_brokers = any(is_between for _, _, is_between in rows)
        also = "; brokers replicate through it" if is_between_brokers else ""
        shown = [(broker_id, protocol) for broker_id, protocol, _ in rows]
        yield CheckResult(
            subjects.listener(name),
            f"listener {name} is {' and '.join(meanings)}{also}",
            evidence(("broker", "security protocol"), shown),
        )


# -- what brokers advertise


def _advertised_listeners(facts: AuditFacts) -> dict[int, list[Listener]]:
    """Return what each live broker advertises: by its configs, and the one that we are sent to."""
    listeners_by_broker = {}
    for broker in facts.live_brokers:
        configs = facts.inspection.broker_configs.get(broker["broker_id"], {})
        names = advertised_names(configs)
        configured = listeners_of(value_of(configs, ADVERTISED))
        listeners = [listener for listener in configured if listener.name in names]
        host = str(broker["host"] or "").strip("[]")
        ours = Listener("", host, str(broker["port"]))
        endpoints = {listener.endpoint for listener in listeners}
        if broker["host"] is not None and ours.endpoint not in endpoints:
            listeners.append(ours)
        listeners_by_broker[broker["broker_id"]] = listeners
    return listeners_by_broker


def _advertise(
    facts: AuditFacts, broker_id: int, wrong_endpoints: Iterable[str]
) -> tuple[str, ...]:
    configs = facts.inspection.broker_configs.get(broker_id, {})
    wrong_endpoints = [endpoint.replace("[", "").replace("]", "") for endpoint in wrong_endpoints]
    return server_properties(broker_id, configs, wrong_endpoints)


# -- Certificates that brokers present: when they expire, and for which hosts they are
#
#     the certificate of kafka-2:9093 expires at 2026-12-01 00:00 UTC       # certificate-expires
#
# Limits: of listeners other than the one that we connect through, when the certificate expires, and
# nothing where they cannot be connected to from here. Truststores, certificates of clients and
# those of controllers are not seen.


@rule(
    "certificate-expires",
    Severity.WARNING,
    title="Certificates that expire soon",
    why="At that minute clients and other brokers cannot connect any more.",
    how="Renew the certificate; brokers load a new keystore without a restart when its config is "
    "set again.",
    source=f"{_DOCUMENTED}security_ssl",
    needs={Need.CONNECTIVITY},
    severities={Severity.CRITICAL},
    thresholds={
        "days": EXPIRY_DAYS,
        "percent_of_lifetime": EXPIRY_PERCENT,
        "critical_days": 7,
        "critical_percent_of_lifetime": 10,
    },
)
def certificate_expires(
    facts: AuditFacts,
    *,
    days: int,
    percent_of_lifetime: int,
    critical_days: int,
    critical_percent_of_lifetime: int,
) -> Iterator[CheckResult]:
    """Yield certificates with less left than so many days, and than that share of their lifetime.

    One of 72 hours that is renewed when a third of them is left is healthy at every hour.
    """

    def severity_of(certificate: Certificate) -> Severity | None:
        is_critical = certificate.is_near_its_end(
            facts.now, critical_days, critical_percent_of_lifetime
        )
        return Severity.CRITICAL if is_critical else None

    def ends_in_words(certificate: Certificate) -> str:
        is_over = certificate.expires_at <= facts.now
        return f"{'expired' if is_over else 'expires'} at {certificate.expires_in_words}"

    for subject, check, certificate in _certificates(facts):
        if certificate.is_near_its_end(facts.now, days, percent_of_lifetime):
            yield CheckResult(
                subject,
                f"the certificate of {check.address} {ends_in_words(certificate)}",
                _certificate_table(certificate),
                severity=severity_of(certificate),
            )
    expiring_by_listener = grouped(
        (one.listener, one)
        for one in facts.endpoints.other_certificates
        if one.certificate.is_near_its_end(facts.now, days, percent_of_lifetime)
    )
    for name, expiring in sorted(expiring_by_listener.items()):
        first = min((one.certificate for one in expiring), key=lambda one: one.expires_at)
        brokers = list_brokers([one.broker_id for one in expiring])
        rows = [
            (one.broker_id, one.address, one.certificate.subject, one.certificate.expires_in_words)
            for one in expiring
        ]
        yield CheckResult(
            subjects.listener(name),
            f"the certificate of listener {name} {ends_in_words(first)} on {brokers}",
            evidence(("broker", "address", "subject", "expires"), rows),
            severity=severity_of(first),
        )


@rule(
    "certificate-other-host",
    Severity.WARNING,
    title="Certificates for another host",
    why="Clients refuse it unless they have switched off the check of host names, and then they "
    "accept anybody's certificate.",
    how="Issue a certificate for the name that the broker advertises.",
    source=f"{_DOCUMENTED}security_confighostname",
    needs={Need.CONNECTIVITY},
)
def certificate_other_host(facts: AuditFacts) -> Iterator[CheckResult]:
    for subject, check, certificate in _certificates(facts):
        if not certificate.matches_host:
            names = join_ids(certificate.names) or certificate.subject
            yield CheckResult(
                subject,
                f"the certificate of {check.address} is for {names}",
                _certificate_table(certificate),
            )


def _certificates(facts: AuditFacts) -> Iterator[tuple[str, EndpointCheck, Certificate]]:
    """Yield the certificates of brokers, then of bootstrap addresses that no broker advertises."""
    advertised = sorted(facts.endpoints.advertised.items())
    advertised_addresses = {check.address for _, check in advertised}
    checks = [(subjects.broker(broker_id), check) for broker_id, check in advertised]
    checks += [
        (subjects.bootstrap_address(check.address), check)
        for check in facts.endpoints.bootstrap
        if check.address not in advertised_addresses
    ]
    for subject, check in checks:
        if check.certificate is not None:
            yield subject, check, check.certificate


def _certificate_table(certificate: Certificate) -> Evidence:
    row = (
        certificate.subject,
        certificate.issuer,
        join_ids(certificate.names),
        certificate.expires_in_words,
    )
    return evidence(("subject", "issuer", "names", "expires"), [row])
