"""Racks: brokers without one, partitions within one, racks of different sizes, shared hosts.

    topic orders: 4 of 12 partitions have all their replicas in rack a      # partitions-in-one-rack

Limits: a broker without a rack may stand anywhere, so its partitions are never reported as being in
one rack, nor as uneven over racks.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from counterpoise.audit.commands import to_fill_in
from counterpoise.audit.facts import PARTITION_ROW, AuditFacts, PartitionColumns
from counterpoise.audit.rule import CheckResult, Measure, Need, evidence, rule
from counterpoise.audit.rules.listeners import is_local
from counterpoise.model import subjects
from counterpoise.model.columns import NOBODY, Flags, Ints
from counterpoise.model.finding import WantedPlan
from counterpoise.model.grouping import grouped
from counterpoise.model.inspection import InspectionItem
from counterpoise.model.listeners import (
    ADVERTISED,
    LISTENERS,
    Configs,
    between_brokers,
    listeners_of,
    value_of,
)
from counterpoise.model.racks import replicas_to_move
from counterpoise.model.request import Goal
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_ids, list_brokers, pluralize, verb

_DOCUMENTED: Final = "https://kafka.apache.org/documentation/#basic_ops_racks"
_SET_RACK: Final = "broker.rack=RACK"


@rule(
    "racks-missing",
    Severity.WARNING,
    title="Brokers without a rack",
    why="The controller treats all brokers without a rack as one more rack: replicas that it "
    "believes to be apart may stand side by side, and consumers cannot fetch from the closest "
    "replica.",
    how="Set broker.rack on every broker.",
    source="https://kafka.apache.org/documentation/#brokerconfigs_broker.rack",
    needs={Need.RACKS},
)
def racks_missing(facts: AuditFacts) -> Iterator[CheckResult]:
    if len(facts.snapshot.registered_broker_ids) < 2:
        return  # there is nothing to spread
    # Of a dead broker before 4.0 the id is all that is known.
    racks = {
        broker_id: facts.snapshot.racks[broker_id] for broker_id in facts.snapshot.live_broker_ids
    }
    without_rack = sorted(broker_id for broker_id, rack in racks.items() if not rack)
    if len(without_rack) == len(racks):
        return  # only the policy names racks, of controllers
    rows = [(broker_id, rack or "none") for broker_id, rack in sorted(racks.items())]
    others = pluralize(len(racks) - len(without_rack), "other broker has", "other brokers have")
    for broker_id in without_rack:
        yield CheckResult(
            subjects.broker(broker_id),
            f"broker {broker_id} has no rack, {others} one",
            evidence(("broker", "rack"), rows),
            fix=(
                f"# server.properties of broker {broker_id}, then restart it:",
                *to_fill_in(_SET_RACK),
            ),
        )


@rule(
    "partitions-in-one-rack",
    Severity.WARNING,
    title="Partitions within one rack",
    why="The loss of that rack takes every replica at once, although the cluster has other racks.",
    how="Make a plan with the goal rebalance: it moves replicas to other racks before anything "
    "else.",
    source=_DOCUMENTED,
    needs={Need.RACKS},
    severities={Severity.INFO},
    improves=Measure.ANYTHING,
)
def partitions_in_one_rack(facts: AuditFacts) -> Iterator[CheckResult]:
    rack_of = _known_racks(facts)
    if len(set(rack_of.values())) < 2:
        return
    partitions = facts.partitions
    is_in_one_rack = _is_in_one_rack(partitions, rack_of)
    for topic, rows in partitions.by_topic(is_in_one_rack):
        rack_by_row = {row: rack_of[int(partitions.replicas[row, 0])] for row in rows.tolist()}
        shown = ((*partitions.row(row), rack) for row, rack in rack_by_row.items())
        racks = join_ids(sorted(set(rack_by_row.values())))
        have = verb(len(rows), "has all its", "have all their")
        yield CheckResult(
            subjects.topic(topic),
            f"{partitions.share_in_words(rows)} of topic {topic} {have} "
            f"replicas in one rack ({racks})",
            evidence((*PARTITION_ROW, "rack"), shown, len(rows)),
            plan=WantedPlan(Goal.REBALANCE),
        )


@rule(
    "partitions-uneven-over-racks",
    Severity.INFO,
    title="Partitions uneven over racks",
    why="A rack has two replicas of a partition more than another that has a broker left: its loss "
    "takes more of them than it has to. Of four replicas on two racks 3 + 1, say, one is left.",
    how="Make a plan with the goal rebalance: it spreads replicas over racks before anything else.",
    source=_DOCUMENTED,
    needs={Need.RACKS},
    improves=Measure.ANYTHING,
)
def partitions_uneven_over_racks(facts: AuditFacts) -> Iterator[CheckResult]:
    rack_of = _known_racks(facts)
    brokers_by_rack = Counter(
        rack_of[broker_id] for broker_id in facts.snapshot.live_broker_ids if broker_id in rack_of
    )
    if len(brokers_by_rack) < 2:
        return
    partitions = facts.partitions
    racks = _racks_of_replicas(partitions, rack_of)
    has_unknown_rack = ((racks == NOBODY) & (partitions.replicas != NOBODY)).any(axis=1)
    rack_sizes = np.array([brokers_by_rack[rack] for rack in sorted(set(rack_of.values()))])
    is_uneven = (replicas_to_move(racks, rack_sizes) > 0) & ~has_unknown_rack
    is_uneven &= ~_is_in_one_rack(partitions, rack_of)
    for topic, rows in partitions.by_topic(is_uneven):
        shown = ((*partitions.row(row), _stacks(partitions.replicas[row], rack_of)) for row in rows)
        have = verb(len(rows), "has", "have")
        yield CheckResult(
            subjects.topic(topic),
            f"{partitions.share_in_words(rows)} of topic {topic} {have} more replicas in one rack "
            "than another rack would leave there",
            evidence((*PARTITION_ROW, "replicas by rack"), shown, len(rows)),
            plan=WantedPlan(Goal.REBALANCE),
        )


def _stacks(replicas: Ints, rack_of: Mapping[int, str]) -> str:
    """Return how many replicas each rack has: `a: 3, b: 1`."""
    stacks = Counter(rack_of[broker_id] for broker_id in replicas.tolist() if broker_id != NOBODY)
    return ", ".join(f"{rack}: {count}" for rack, count in sorted(stacks.items()))


def _known_racks(facts: AuditFacts) -> dict[int, str]:
    return {broker_id: rack for broker_id, rack in facts.snapshot.racks.items() if rack}


def _is_in_one_rack(partitions: PartitionColumns, rack_of: Mapping[int, str]) -> Flags:
    """Return, for each partition, whether it has two replicas or more, all in one rack.

    With the racks 1=a 2=a 3=b: replicas (1, 2) are in one rack; (1, 3) are not; (1) has one replica
    only; (1, 9) is not, since the rack of broker 9 is not known.
    """
    racks = _racks_of_replicas(partitions, rack_of)
    first_racks = racks[:, [0]]
    is_replica = partitions.replicas != NOBODY
    is_like_first = (racks == first_racks) | ~is_replica
    has_known_rack = first_racks[:, 0] != NOBODY
    has_two_replicas = is_replica.sum(axis=1) > 1
    return np.asarray(is_like_first.all(axis=1) & has_known_rack & has_two_replicas)


def _racks_of_replicas(partitions: PartitionColumns, rack_of: Mapping[int, str]) -> Ints:
    """Return the number of each replica's rack, in order of their names; NOBODY where not known."""
    rack_names = sorted(set(rack_of.values()))
    broker_ids = np.array(sorted(rack_of), dtype=np.int64)
    rack_numbers = np.array([rack_names.index(rack_of[int(broker)]) for broker in broker_ids])
    positions = np.searchsorted(broker_ids, partitions.replicas).clip(max=len(broker_ids) - 1)
    is_known = broker_ids[positions] == partitions.replicas
    return np.where(is_known, rack_numbers[positions], NOBODY)


@rule(
    "racks-uneven",
    Severity.INFO,
    title="Racks with different numbers of brokers",
    why="With as many replicas as racks, each rack gets one replica of each partition: the brokers "
    "of a small rack hold more than the others, and no plan can even that out.",
    how="Add brokers to the small racks.",
    source=_DOCUMENTED,
    needs={Need.RACKS},
    thresholds={"most_apart": 0},
)
def racks_uneven(facts: AuditFacts, *, most_apart: int) -> Iterator[CheckResult]:
    brokers_by_rack = Counter(_known_racks(facts).values())
    if len(brokers_by_rack) < 2:
        return
    largest, smallest = max(brokers_by_rack.values()), min(brokers_by_rack.values())
    if largest - smallest > most_apart:
        yield CheckResult(
            subjects.CLUSTER,
            f"racks have between {smallest} and {pluralize(largest, 'broker')}",
            evidence(("rack", "brokers"), sorted(brokers_by_rack.items())),
        )


@rule(
    "racks-single",
    Severity.INFO,
    title="One rack for all brokers",
    why="A rack names what fails together (a switch, a zone): with one name for all brokers, "
    "replicas are not spread over anything.",
    how="Name what fails together; if all of the cluster does, waive this.",
    source=_DOCUMENTED,
    needs={Need.RACKS},
)
def racks_single(facts: AuditFacts) -> Iterator[CheckResult]:
    rack_of = _known_racks(facts)
    rack_names = set(rack_of.values())
    broker_count = len(facts.snapshot.registered_broker_ids)
    if len(rack_names) == 1 and len(rack_of) == broker_count > 1:
        (rack,) = rack_names
        brokers = pluralize(broker_count, "broker")
        yield CheckResult(subjects.CLUSTER, f"all {brokers} are in rack {rack}")


@rule(
    "replicas-on-one-host",
    Severity.WARNING,
    title="Replicas that share a host",
    why="Where brokers share a host and no racks say so, Kafka puts replicas of a partition side "
    "by side: the host's end takes both. Brokers that reach each other by loopback are on one "
    "machine on purpose: an info.",
    how="Set broker.rack to what fails together, at least the host, on every broker; then make a "
    "plan with the goal rebalance.",
    source=_DOCUMENTED,
    needs={InspectionItem.BROKER_CONFIGS},
    severities={Severity.INFO},
)
def replicas_on_one_host(facts: AuditFacts) -> Iterator[CheckResult]:
    for host, broker_ids in _shared_hosts(facts).items():
        partitions = facts.partitions
        is_there = np.isin(partitions.replicas, broker_ids).sum(axis=1) > 1
        rows = np.flatnonzero(is_there).tolist()
        if not rows:
            continue
        topic_of = partitions.topic_of
        topics = sorted({partitions.topics[topic_of[row]] for row in rows})
        shown = ((partitions.topics[topic_of[row]], *partitions.row(row)) for row in rows)
        have = pluralize(len(rows), "partition has", "partitions have")
        yield CheckResult(
            subjects.host(host),
            f"{list_brokers(broker_ids)} are on one host, {host}, and have no rack: {have} two "
            f"replicas or more there, of {pluralize(len(topics), 'topic')}",
            evidence(("topic", *PARTITION_ROW), shown, len(rows)),
            fix=(
                "# server.properties of each broker, then restart them one by one:",
                *to_fill_in("broker.rack=HOST-OR-RACK"),
            ),
            severity=Severity.INFO if is_local(host) else None,
        )


def _shared_hosts(facts: AuditFacts) -> dict[str, list[int]]:
    """Return the brokers without a rack on each host that has several of them.

    A host is what brokers call each other by, or the address of that name where the connectivity
    check has resolved it. Other listeners may go through one proxy or load balancer.
    """
    racks = facts.snapshot.racks
    brokers_by_host = grouped(
        (host, broker_id)
        for broker_id, configs in facts.broker_configs.items()
        if not racks.get(broker_id) and (host := _host_between_brokers(facts, broker_id, configs))
    )
    return {host: brokers for host, brokers in brokers_by_host.items() if len(brokers) > 1}


def _host_between_brokers(facts: AuditFacts, broker_id: int, configs: Configs) -> str:
    """Return the host to which other brokers connect; "" if it is not known."""
    advertised = listeners_of(value_of(configs, ADVERTISED) or value_of(configs, LISTENERS))
    name = between_brokers(configs).upper()
    listener = next((one for one in advertised if one.name == name), None)
    check = facts.endpoints.advertised.get(broker_id)
    if listener is None:
        return ""
    if check is not None and check.address == listener.endpoint_in_config and check.ips:
        return check.ips[0]
    return listener.host.lower()
