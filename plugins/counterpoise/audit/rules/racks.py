"""Racks: brokers without one, partitions within one, racks of different sizes.

    topic orders: 4 of 12 partitions have all their replicas in rack a      # partitions-in-one-rack

Limits: a broker without a rack may stand anywhere, so its partitions are never reported as being in
one rack.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from counterpoise.audit.commands import to_fill_in
from counterpoise.audit.facts import PARTITION_ROW, AuditFacts, PartitionColumns
from counterpoise.audit.rule import CheckResult, Measure, Need, evidence, rule
from counterpoise.model import subjects
from counterpoise.model.columns import NOBODY, Flags
from counterpoise.model.finding import WantedPlan
from counterpoise.model.request import Goal
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_ids, pluralize, verb

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


def _known_racks(facts: AuditFacts) -> dict[int, str]:
    return {broker_id: rack for broker_id, rack in facts.snapshot.racks.items() if rack}


def _is_in_one_rack(partitions: PartitionColumns, rack_of: Mapping[int, str]) -> Flags:
    """Return, for each partition, whether it has two replicas or more, all in one rack.

    With the racks 1=a 2=a 3=b: replicas (1, 2) are in one rack; (1, 3) are not; (1) has one replica
    only; (1, 9) is not, since the rack of broker 9 is not known.
    """
    rack_names = sorted(set(rack_of.values()))
    broker_ids = np.array(sorted(rack_of), dtype=np.int64)
    rack_numbers = np.array([rack_names.index(rack_of[int(broker)]) for broker in broker_ids])
    positions = np.searchsorted(broker_ids, partitions.replicas).clip(max=len(broker_ids) - 1)
    is_known = broker_ids[positions] == partitions.replicas
    racks = np.where(is_known, rack_numbers[positions], NOBODY)  # a matrix like `replicas`
    first_racks = racks[:, [0]]
    is_replica = partitions.replicas != NOBODY
    is_like_first = (racks == first_racks) | ~is_replica
    has_known_rack = first_racks[:, 0] != NOBODY
    has_two_replicas = is_replica.sum(axis=1) > 1
    return np.asarray(is_like_first.all(axis=1) & has_known_rack & has_two_replicas)


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
