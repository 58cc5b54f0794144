"""Racks: brokers without one, partitions within one, racks of different sizes.

    topic orders: 4 of 12 partitions have all their replicas in rack a        # partitions-in-one-rack

Limits: a broker without a rack may stand anywhere, so that its partitions are never said to be in
one rack.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from counterpoise.audit.columns import PARTITION_ROW, PartitionColumns
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rule import MOST_ROWS, Area, Rule, Sighting, evidence
from counterpoise.model.columns import NOBODY, Flags
from counterpoise.model.finding import WantedPlan
from counterpoise.model.request import Goal
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_ids, pluralize

_CLUSTER: Final = "cluster"
_DOCUMENTED: Final = "https://kafka.apache.org/documentation/#basic_ops_racks"


def _missing(facts: AuditFacts) -> Iterator[Sighting]:
    racks = facts.snapshot.racks
    without = sorted(broker_id for broker_id, rack in racks.items() if not rack)
    if without and len(without) == len(racks):
        yield Sighting(
            _CLUSTER,
            f"none of {pluralize(len(racks), 'broker')} names a rack",
            fix=("# server.properties of each broker, then restart it:", "broker.rack=RACK"),
        )
        return
    for broker_id in without:
        yield Sighting(
            f"broker {broker_id}",
            f"broker {broker_id} names no rack, {len(racks) - len(without)} others do",
            evidence(
                ("broker", "rack"), [(one, rack or "none") for one, rack in sorted(racks.items())]
            ),
            fix=(
                f"# server.properties of broker {broker_id}, then restart it:",
                "broker.rack=RACK",
            ),
        )


def _one_rack(facts: AuditFacts) -> Iterator[Sighting]:
    if len({rack for rack in facts.snapshot.racks.values() if rack}) < 2:
        return
    columns = facts.partitions
    in_one, rack_at = _in_one_rack(columns, facts)
    counts = columns.counts()
    for topic, rows in columns.by_topic(in_one):
        racks = sorted({rack_at(int(columns.replicas[at, 0])) for at in rows.tolist()})
        yield Sighting(
            f"topic {topic}",
            f"{len(rows):,} of {pluralize(int(counts[columns.topic_of[rows[0]]]), 'partition')} of topic {topic} have all "
            f"their replicas in one rack ({join_ids(racks)})",
            evidence(
                (*PARTITION_ROW, "rack"),
                [
                    (*columns.row(at), rack_at(int(columns.replicas[at, 0])))
                    for at in rows[:MOST_ROWS].tolist()
                ],
                len(rows),
            ),
            plan=WantedPlan(Goal.REBALANCE),
        )


def _in_one_rack(
    columns: PartitionColumns, facts: AuditFacts
) -> tuple[Flags, Callable[[int], str]]:
    """Partitions of two replicas and more, all in the rack of the first; and the rack of a broker."""
    racks = {broker_id: rack for broker_id, rack in facts.snapshot.racks.items() if rack}
    names = sorted(set(racks.values()))
    highest = int(columns.replicas.max(initial=0))
    numbers = np.full(highest + 2, NOBODY, dtype=np.int64)  # the last is that of NOBODY
    for broker_id, rack in racks.items():
        if broker_id <= highest:
            numbers[broker_id] = names.index(rack)
    of = numbers[columns.replicas]
    is_there = columns.replicas != NOBODY
    same = ((of == of[:, [0]]) | ~is_there).all(axis=1) & (of[:, 0] != NOBODY)
    return same & (is_there.sum(axis=1) > 1), lambda broker_id: racks[broker_id]


def _uneven(facts: AuditFacts) -> Iterator[Sighting]:
    counts = Counter(rack for rack in facts.snapshot.racks.values() if rack)
    if len(counts) < 2:
        return
    most, fewest = max(counts.values()), min(counts.values())
    if most - fewest > facts.threshold("racks-uneven", "most_apart"):
        yield Sighting(
            _CLUSTER,
            f"racks have between {fewest} and {pluralize(most, 'broker')}",
            evidence(("rack", "brokers"), sorted(counts.items())),
            severity=Severity.WARNING if most >= 2 * fewest else Severity.INFO,
        )


def _single(facts: AuditFacts) -> Iterator[Sighting]:
    racks = {rack for rack in facts.snapshot.racks.values() if rack}
    brokers = facts.snapshot.registered_broker_ids
    if len(racks) == 1 and len(brokers) > 1 and all(facts.snapshot.racks.values()):
        yield Sighting(
            _CLUSTER, f"all of {pluralize(len(brokers), 'broker')} are in rack {racks.pop()}"
        )


RULES: Final = (
    Rule(
        "racks-missing",
        Area.RACKS,
        Severity.WARNING,
        title="Brokers without a rack",
        why="The controller takes all brokers without a rack for one rack more: replicas that it believes to be apart "
        "may stand side by side, and consumers cannot fetch from the closest replica.",
        how="Set broker.rack on every broker.",
        source="https://kafka.apache.org/documentation/#brokerconfigs_broker.rack",
        look=_missing,
    ),
    Rule(
        "partitions-in-one-rack",
        Area.RACKS,
        Severity.WARNING,
        title="Partitions within one rack",
        why="The loss of that rack takes every copy at once, although there are others.",
        how="Make a plan: replicas are moved to other racks first of all.",
        source=_DOCUMENTED,
        look=_one_rack,
    ),
    Rule(
        "racks-uneven",
        Area.RACKS,
        Severity.INFO,
        title="Racks with different numbers of brokers",
        why="With as many replicas as racks each rack gets one of each partition: the brokers of a small rack hold "
        "more than the rest, and no plan can even that out.",
        how="Add brokers to the small racks.",
        source=_DOCUMENTED,
        look=_uneven,
        thresholds={"most_apart": 0},
    ),
    Rule(
        "racks-single",
        Area.RACKS,
        Severity.INFO,
        title="One rack for all brokers",
        why="A rack stands for what fails together (a switch, a zone): with one name for all, nothing is spread.",
        how="Name what fails together; where all of it does, waive this.",
        source=_DOCUMENTED,
        look=_single,
    ),
)
