"""The bootstrap list: enough addresses, all of them reachable, in several racks, of one cluster.

    of 3 bootstrap addresses, old-kafka:9092 does not respond         # bootstrap-dead-address

Addresses are counted as a client uses them: one name that resolves to many counts as many, two
entries that lead to one socket count as one, and the IPv4 and IPv6 address of a host are one.

Limits: which broker an address leads to is known by its name, or by where the advertised names
resolve to; behind a load balancer it is not known.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from counterpoise.audit.commands import counterpoise
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.outage import causes_among
from counterpoise.audit.rule import CheckResult, Need, evidence, rule, unknown
from counterpoise.model import subjects
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.connectivity import EndpointCheck, MetadataResponse
from counterpoise.model.finding import LOOK, Evidence
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_ids, join_names, pluralize, verb

_BOOTSTRAP_LIST: Final = "https://kafka.apache.org/documentation/#producerconfigs_bootstrap.servers"
_KIP_631: Final = (
    "https://cwiki.apache.org/confluence/display/KAFKA/KIP-631%3A+The+Quorum-based+Kafka+Controller"
)
_DNS_LOOKUP: Final = "https://kafka.apache.org/documentation/#producerconfigs_client.dns.lookup"
_OF_CLIENTS: Final = "# the configuration of every client:"
_ADDRESSES_PROPOSED: Final = 3
_METADATA_ROW: Final = ("address", "cluster id", "brokers")


@rule(
    "bootstrap-few-addresses",
    Severity.WARNING,
    title="Few addresses in the bootstrap list",
    why="A client that starts while the only broker it knows is down does not start, although the "
    "cluster works.",
    how="List three brokers of different racks, or one name that resolves to all of them. An "
    "address that is no broker's own, like that of a load balancer or of a Kubernetes service, is "
    "an info: how many brokers are behind it is not known here.",
    source=_BOOTSTRAP_LIST,
    needs={Need.CONNECTIVITY},
    severities={Severity.INFO},
    thresholds={"least": 3},
)
def bootstrap_few_addresses(facts: AuditFacts, *, least: int) -> Iterator[CheckResult]:
    checks = facts.endpoints.bootstrap
    count = len(sockets(checks))
    if count >= min(least, len(facts.snapshot.registered_broker_ids)):
        return
    rows = [(check.address, join_ids(check.ips) or "nothing") for check in checks]
    addresses = pluralize(count, "address", "addresses")
    reachable = [check for check in checks if check.is_reachable]
    shared = [check.address for check in reachable if not leads_to(check, facts)]
    balancer = (
        f"; {join_ids(shared)} {verb(len(shared), 'is', 'are')} no broker's own: a load balancer "
        "or a service leads to several"
    )
    yield CheckResult(
        subjects.CLUSTER,
        f"the bootstrap list leads to {addresses}, fewer than {least}{balancer if shared else ''}",
        evidence(("entry", "resolves to"), rows),
        fix=_proposed_list(facts),
        severity=Severity.WARNING if count < 2 and not shared else Severity.INFO,
    )


def sockets(checks: Sequence[EndpointCheck]) -> frozenset[tuple[str, str]]:
    """Return (address, port) of what the entries lead to, of one address family only.

    An entry that does not resolve counts with its name.
    """
    found = set()
    for check in checks:
        host, _, port = check.address.rpartition(":")
        ipv4 = [ip for ip in check.ips if ":" not in ip]
        hosts = ipv4 or list(check.ips) or [host]
        found |= {(address, port) for address in hosts}
    return frozenset(found)


def _proposed_list(facts: AuditFacts) -> tuple[str, ...]:
    """Return `bootstrap.servers=` of up to three live brokers, of different racks if there are."""
    live = [broker for broker in facts.live_brokers if broker["host"]]
    first_by_rack = {broker["rack"]: broker for broker in reversed(live)}
    first_of_racks = list(reversed(first_by_rack.values()))
    others = [broker for broker in live if broker not in first_of_racks]
    chosen = [*first_of_racks, *others][:_ADDRESSES_PROPOSED]
    return (_OF_CLIENTS, f"bootstrap.servers={','.join(_address_of(broker) for broker in chosen)}")


def _address_of(broker: dict[str, object]) -> str:
    return f"{broker['host']}:{broker['port']}"


@rule(
    "bootstrap-dead-address",
    Severity.WARNING,
    title="Bootstrap addresses that do not respond",
    why="A list with dead entries works until its last live entry is restarted; until then clients "
    "start slowly, since they try the dead ones first.",
    how="Repair what the failed step names, or remove the address from the list of every client.",
    source=_BOOTSTRAP_LIST,
    needs={Need.CONNECTIVITY},
    severities={Severity.CRITICAL},
)
def bootstrap_dead_address(facts: AuditFacts) -> Iterator[CheckResult]:
    connectivity = facts.endpoints
    removed = _addresses_of_removed_brokers(facts)
    for check in connectivity.unreachable:
        if check.address in removed:
            continue
        count = pluralize(len(connectivity.bootstrap), "bootstrap address", "bootstrap addresses")
        yield CheckResult(
            subjects.bootstrap_address(check.address),
            f"of {count}, {check.address} does not respond: {check.failure}",
            stage_table(check),
            fix=(f"# {check.remedy}",) if check.remedy else _list_without(facts, check.address),
            severity=None if connectivity.answered_by else Severity.CRITICAL,
            causes=causes_among(facts, leads_to(check, facts)),
        )


@rule(
    "name-with-dead-addresses",
    Severity.WARNING,
    title="Names of which some addresses do not respond",
    why="A name with several A or AAAA records works as long as one address accepts connections. "
    "Clients that try a dead one first start slowly, and some never try the next.",
    how="Take the dead addresses out of DNS, or start what should listen there.",
    source=_DNS_LOOKUP,
    needs={Need.CONNECTIVITY},
)
def name_with_dead_addresses(facts: AuditFacts) -> Iterator[CheckResult]:
    connectivity = facts.endpoints
    subject_of = {
        check.address: subjects.broker(broker_id)
        for broker_id, check in connectivity.advertised.items()
    }
    subject_of |= {
        check.address: subjects.bootstrap_address(check.address) for check in connectivity.bootstrap
    }
    checks = {check.address: check for check in connectivity.endpoints}
    for address, check in checks.items():
        if check.dead_ips and check.is_reachable:
            dead = [f"{ip} ({reason})" for ip, reason in check.dead_ips.items()]
            rows = [(ip, check.dead_ips.get(ip, "accepts connections")) for ip in check.ips]
            yield CheckResult(
                subject_of[address],
                f"of the {len(check.ips)} addresses of {address}, {len(dead)} do not respond: "
                f"{join_names(dead)}",
                evidence(("address", "result"), rows),
                fix=(f"# take out of DNS, or start again: {join_ids(list(check.dead_ips))}",),
            )


@rule(
    "bootstrap-removed-broker",
    Severity.WARNING,
    title="Bootstrap addresses of removed brokers",
    why="The address may be given to another machine one day, even to another cluster, and clients "
    "would follow.",
    how="Remove the address from the list of every client.",
    source=_BOOTSTRAP_LIST,
    needs={Need.CONNECTIVITY, Need.HISTORY},
)
def bootstrap_removed_broker(facts: AuditFacts) -> Iterator[CheckResult]:
    for address, broker_id in _addresses_of_removed_brokers(facts).items():
        yield CheckResult(
            subjects.bootstrap_address(address),
            f"{address} was broker {broker_id}, which is not part of the cluster any more",
            fix=_list_without(facts, address),
        )


def _addresses_of_removed_brokers(facts: AuditFacts) -> dict[str, int]:
    """Return unreachable addresses that belonged to a broker which is not registered any more."""
    broker_by_address: dict[str, int] = {}
    for snapshot in facts.history.recent_snapshots:
        for broker in snapshot.brokers.to_pylist():
            broker_by_address[_address_of(broker)] = broker["broker_id"]
    registered = set(facts.snapshot.registered_broker_ids)
    unreachable = [check.address for check in facts.endpoints.unreachable]
    return {
        address: broker_by_address[address]
        for address in unreachable
        if address in broker_by_address and broker_by_address[address] not in registered
    }


def _list_without(facts: AuditFacts, address: str) -> tuple[str, ...]:
    """Return the list without this address, and without others that do not respond."""
    responding = [check.address for check in facts.endpoints.bootstrap if check.is_reachable]
    others = [other for other in responding if other != address]
    return (_OF_CLIENTS, f"bootstrap.servers={','.join(others)}") if others else ()


@rule(
    "bootstrap-one-rack",
    Severity.WARNING,
    title="Bootstrap list within one rack",
    why="When that rack is down no client can start, while the brokers of the other racks serve "
    "those that are running.",
    how="List brokers of different racks.",
    source=_BOOTSTRAP_LIST,
    needs={Need.CONNECTIVITY, Need.RACKS},
)
def bootstrap_one_rack(facts: AuditFacts) -> Iterator[CheckResult]:
    connectivity = facts.endpoints
    rack_of = facts.snapshot.racks
    cluster_racks = set(rack_of.values()) - {None}
    reachable = [check for check in connectivity.bootstrap if check.is_reachable]
    if len(cluster_racks) < 2 or not reachable:
        return
    brokers_by_address = {check.address: leads_to(check, facts) for check in reachable}
    racks = {
        rack_of.get(broker_id)
        for broker_ids in brokers_by_address.values()
        for broker_id in broker_ids
    }
    if len(racks - {None}) > 1:
        return
    unmatched = [address for address, brokers in brokers_by_address.items() if not brokers]
    if unmatched:
        causes = tuple(
            subjects.broker(broker_id)
            for broker_id, check in sorted(connectivity.advertised.items())
            if not check.is_reachable
        )
        yield unknown(f"to which broker {join_ids(unmatched)} leads", causes=causes)
        return
    if None in racks:
        yield unknown("the rack of a broker that the list leads to")
        return
    rows = [
        (address, join_ids(broker_ids), rack_of[broker_ids[0]])
        for address, broker_ids in brokers_by_address.items()
    ]
    (rack,) = racks
    yield CheckResult(
        subjects.CLUSTER,
        f"every reachable bootstrap address is in rack {rack}, of {len(cluster_racks)} racks",
        evidence(("address", "broker", "rack"), rows),
        fix=_proposed_list(facts),
    )


def leads_to(check: EndpointCheck, facts: AuditFacts) -> tuple[int, ...]:
    """Return the brokers behind an address, as far as that is known."""
    by_name = [
        broker["broker_id"]
        for broker in facts.snapshot.brokers.to_pylist()
        if _address_of(broker) == check.address
    ]
    if by_name:
        return tuple(by_name)
    own_sockets = sockets([check])
    by_socket = [
        broker_id
        for broker_id, advertised in facts.endpoints.advertised.items()
        if advertised.ips and sockets([advertised]) & own_sockets
    ]
    return tuple(sorted(by_socket))


@rule(
    "bootstrap-other-cluster",
    Severity.CRITICAL,
    title="Bootstrap addresses of another cluster",
    why="A client uses the first address that responds: some clients will produce to one cluster "
    "and some to the other.",
    how="Remove the address from the list of every client, or replace it with the right one.",
    source=_BOOTSTRAP_LIST,
    needs={Need.CONNECTIVITY},
)
def bootstrap_other_cluster(facts: AuditFacts) -> Iterator[CheckResult]:
    own_id = facts.snapshot.cluster_id
    for check in facts.endpoints.bootstrap:
        metadata = check.metadata
        if metadata is not None and metadata.cluster_id != own_id:
            yield CheckResult(
                subjects.bootstrap_address(check.address),
                f"{check.address} belongs to the cluster {metadata.cluster_id}, not to {own_id}",
                evidence(_METADATA_ROW, [_metadata_row(check.address, metadata)]),
                fix=_list_without(facts, check.address),
            )


@rule(
    "metadata-differs",
    Severity.WARNING,
    title="Brokers that report different brokers of the cluster",
    why="A broker that is cut off from the controllers serves old metadata: its clients go to "
    "brokers that are not leaders any more. This is normal for a moment after a broker joined or "
    "left.",
    how="Run the audit again; if it stays, find out why that broker does not follow the metadata "
    "log (its lag, its log).",
    source=_KIP_631,
    needs={Need.CONNECTIVITY},
)
def metadata_differs(facts: AuditFacts) -> Iterator[CheckResult]:
    """Yield a result if endpoints of this cluster list different live brokers."""
    responses = facts.endpoints.metadata_of(facts.snapshot.cluster_id)
    broker_lists = {
        tuple((broker.broker_id, broker.host, broker.port) for broker in metadata.brokers)
        for _, metadata in responses
    }
    if len(broker_lists) > 1:
        rows = sorted({_metadata_row(address, metadata) for address, metadata in responses})
        yield CheckResult(
            subjects.CLUSTER,
            f"within one connectivity check, brokers reported {len(broker_lists)} different lists "
            "of live brokers",
            evidence(_METADATA_ROW, rows),
            fix=(LOOK, counterpoise("doctor", *facts.cluster_words)),
        )

    yield from _old_leaders(responses)


def _old_leaders(responses: Sequence[tuple[str, MetadataResponse]]) -> Iterator[CheckResult]:
    """Yield the addresses that report an older leader of a partition than another one does."""
    newest_epochs: dict[TopicPartition, int] = {}
    for _, metadata in responses:
        for partition, state in metadata.partitions.items():
            newest = newest_epochs.get(partition, -1)
            newest_epochs[partition] = max(newest, state.leader_epoch or 0)
    for address, metadata in responses:
        known = metadata.partitions
        behind = sorted(
            partition
            for partition, newest in newest_epochs.items()
            if partition not in known or (known[partition].leader_epoch or 0) < newest
        )
        if behind:
            yield CheckResult(
                subjects.endpoint(address),
                f"{address} reports older leaders of {join_names(behind)} than others do",
                fix=(f"# check the log and the network of the broker at {address}",),
            )


def _metadata_row(address: str, metadata: MetadataResponse) -> tuple[str, str, str]:
    brokers = [f"{broker.broker_id} at {broker.host}:{broker.port}" for broker in metadata.brokers]
    return address, metadata.cluster_id, join_ids(brokers)


def stage_table(check: EndpointCheck) -> Evidence:
    """Return the stages of an endpoint check, one row for each."""
    rows = [
        (check.address, stage.stage, "ok" if stage.is_ok else "failed", stage.detail)
        for stage in check.stages
    ]
    return evidence(("address", "step", "outcome", "detail"), rows)
