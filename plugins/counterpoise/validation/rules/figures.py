"""The rule about a plan's figures: counts them anew, from the snapshot and the moves alone.

    expected_figures(checked)      # a CountedFigure per registered broker, by id

Example: broker 1 holds 3 replicas of 10 bytes each, broker 4 is empty, and one move takes a replica
from 1 to 4. Expected are for broker 1 `replicas_after` 2 and `bytes_after` 20, for broker 4 1 and
10, and `bytes_peak` 30 on broker 1: its replica goes only after the new one has arrived.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from counterpoise.model.columns import Ints, flat_lists, numbers_of
from counterpoise.model.plan import BrokerFigure
from counterpoise.model.words import list_brokers
from counterpoise.validation.violation import CheckedPlan, Complaint


@dataclass(frozen=True, slots=True)
class CountedFigure:
    """What of a plan's figure can be counted; the best possible is the planner's to say.

    Bytes-in is None where the snapshot knows no rate at all; single unknown rates count as 0.
    """

    broker_id: int
    rack: str | None
    leaders_before: int
    leaders_after: int
    replicas_before: int
    replicas_after: int
    bytes_before: int
    bytes_after: int
    bytes_peak: int
    bytes_in_before: int | None
    bytes_in_after: int | None
    network_in_before: int | None
    network_in_after: int | None

    @classmethod
    def of(cls, figure: BrokerFigure) -> "CountedFigure":
        return cls(*(getattr(figure, name) for name in cls.__slots__))

    def difference(self, stated: "CountedFigure") -> str:
        """Return what a plan states otherwise, like "leaders_after 4 instead of 5"."""
        pairs = ((name, getattr(stated, name), getattr(self, name)) for name in self.__slots__)
        return "; ".join(
            f"{name} {stated_value} instead of {counted_value}"
            for name, stated_value, counted_value in pairs
            if stated_value != counted_value
        )


@dataclass(slots=True)
class _Loads:
    """What each broker leads and holds, by its id."""

    leaders: Counter[int]
    replicas: Counter[int]
    held_bytes: Counter[int]
    bytes_in: Counter[int]
    network_in: Counter[int]

    def copy(self) -> "_Loads":
        return _Loads(
            self.leaders.copy(),
            self.replicas.copy(),
            self.held_bytes.copy(),
            self.bytes_in.copy(),
            self.network_in.copy(),
        )


def figures_agree(checked: CheckedPlan) -> Iterator[Complaint]:
    """Require that what the plan says of every broker is what its moves come to, counted anew."""
    expected = expected_figures(checked)
    stated_ids = [figure.broker_id for figure in checked.plan.figures]
    if stated_ids != [figure.broker_id for figure in expected]:
        message = (
            "the plan must have figures for each registered broker, in the order of ids; it has "
            f"them for {list_brokers(stated_ids)}"
        )
        yield Complaint("plan", message)
        return
    for planned, counted in zip(checked.plan.figures, expected, strict=True):
        stated = CountedFigure.of(planned)
        if stated.network_in_before is None and stated.network_in_after is None:
            # made before it was told
            counted = replace(counted, network_in_before=None, network_in_after=None)
        if stated != counted:
            subject = f"broker {planned.broker_id}"
            message = (
                f"the plan's figures of {subject} are not what snapshot and moves come to: "
                f"{counted.difference(stated)}"
            )
            yield Complaint(subject, message)


def expected_figures(checked: CheckedPlan) -> tuple[CountedFigure, ...]:
    """Return what the plan's figures have to be, in the order of broker ids.

    Partitions that the plan does not name keep replicas and leader.
    """
    before = _loads_before(checked)
    after = before.copy()
    arriving_bytes: Counter[int] = Counter()
    for move, row in checked.known_moves:
        size_bytes = row.size_bytes or 0
        rate = row.bytes_in_per_second or 0
        old_leader = checked.leader_of(row)
        new_leader = move.replicas_after[0]
        if old_leader is not None:
            after.leaders[old_leader] -= 1
            after.bytes_in[old_leader] -= rate
        after.leaders[new_leader] += 1
        after.bytes_in[new_leader] += rate
        for broker_id in move.adding:
            after.replicas[broker_id] += 1
            after.held_bytes[broker_id] += size_bytes
            after.network_in[broker_id] += rate
            arriving_bytes[broker_id] += size_bytes
        for broker_id in move.removing:
            after.replicas[broker_id] -= 1
            after.held_bytes[broker_id] -= size_bytes
            after.network_in[broker_id] -= rate
    rates = checked.snapshot.partitions["bytes_in_per_second"]
    knows_rates = rates.null_count < len(rates)
    return tuple(
        CountedFigure(
            broker_id=broker_id,
            rack=checked.snapshot.racks[broker_id],
            leaders_before=before.leaders[broker_id],
            leaders_after=after.leaders[broker_id],
            replicas_before=before.replicas[broker_id],
            replicas_after=after.replicas[broker_id],
            bytes_before=before.held_bytes[broker_id],
            bytes_after=after.held_bytes[broker_id],
            bytes_peak=before.held_bytes[broker_id] + arriving_bytes[broker_id],
            bytes_in_before=before.bytes_in[broker_id] if knows_rates else None,
            bytes_in_after=after.bytes_in[broker_id] if knows_rates else None,
            network_in_before=before.network_in[broker_id] if knows_rates else None,
            network_in_after=after.network_in[broker_id] if knows_rates else None,
        )
        for broker_id in checked.snapshot.registered_broker_ids
    )


def _loads_before(checked: CheckedPlan) -> _Loads:
    partitions = checked.snapshot.partitions
    row_of_replica, replica_ids = flat_lists(partitions["replicas"])
    sizes = numbers_of(partitions["size_bytes"], missing=0)
    rates = numbers_of(partitions["bytes_in_per_second"], missing=0)
    if checked.has_leaders:
        leader_ids = numbers_of(partitions["leader"])
    else:
        is_first = np.diff(row_of_replica, prepend=-1) > 0
        leader_ids = replica_ids[is_first]
    has_leader = leader_ids >= 0
    return _Loads(
        leaders=_sums(leader_ids[has_leader], np.ones(int(has_leader.sum()), dtype=np.int64)),
        replicas=_sums(replica_ids, np.ones(len(replica_ids), dtype=np.int64)),
        held_bytes=_sums(replica_ids, sizes[row_of_replica]),
        bytes_in=_sums(leader_ids[has_leader], rates[has_leader]),
        network_in=_sums(replica_ids, rates[row_of_replica]),
    )


def _sums(broker_ids: Ints, weights: Ints) -> Counter[int]:
    """Return the exact sum of weights by broker: ids 1, 2, 1 with 5, 6, 7 give {1: 12, 2: 6}."""
    unique_ids, id_indexes = np.unique(broker_ids, return_inverse=True)
    totals = np.zeros(len(unique_ids), dtype=np.int64)
    np.add.at(totals, id_indexes, weights)
    return Counter(dict(zip(unique_ids.tolist(), totals.tolist(), strict=True)))
