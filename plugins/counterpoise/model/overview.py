"""What a person wants to know of a plan, computed once for the page, the terminal, the approval
question and JSON.

    seen = Overview.of(plan)
    seen.measures["leaders"].after.max_minus_min, seen.over_bytes, seen.reasons[0].bytes
    rate_warning(plan, 5_000_000)       # None, or "at 5.0 MB/s the copies may never end: ..."

One pass over the moves: a plan may have hundreds of thousands.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Final

from counterpoise.model.movement import (
    COORDINATOR_TOPICS,
    busiest_inflow,
    busiest_link_bytes,
    cross_rack_bytes,
    min_rate_bytes_per_second,
)
from counterpoise.model.plan import BrokerFigure, Move, MoveReason, RebalancePlan
from counterpoise.model.words import join_ids, pluralize
from counterpoise.units import format_bytes, format_rate

Unit = Callable[[float], str]

MEASURES: Final = ("leaders", "replicas", "bytes", "bytes_in")
BROKERS_SHOWN: Final = 20

MOVE_REASON_TEXTS: Final[Mapping[MoveReason, str]] = {
    MoveReason.RACKS: "onto more racks",
    MoveReason.REPLICAS: "evens replicas",
    MoveReason.BYTES: "evens bytes",
    MoveReason.LEADERS: "evens leaders",
    MoveReason.DRAIN: "empties a broker",
    MoveReason.REPAIR: "replaces a dead replica",
    MoveReason.DEMOTE: "takes leadership away",
    MoveReason.REPLICATION_FACTOR: "changes the replication factor",
    MoveReason.PREFERRED: "elects the preferred leader",
    MoveReason.IMPORTED: "as the reassignment says",
}


@dataclass(frozen=True, slots=True)
class Span:
    """The least and the most that one broker has."""

    lowest: int
    highest: int

    @property
    def max_minus_min(self) -> int:
        return self.highest - self.lowest

    @classmethod
    def of(cls, values: Iterable[int]) -> "Span":
        known = list(values) or [0]
        return cls(min(known), max(known))


@dataclass(frozen=True, slots=True)
class MeasureSpans:
    """One measure over the brokers that the request may touch.

    Afterwards, brokers that are to have none of it do not count.
    """

    before: Span
    after: Span
    best: Span


@dataclass(frozen=True, slots=True)
class Reason:
    """The moves that serve one measure."""

    why: MoveReason
    partitions: int
    replicas: int  # copied
    bytes: int  # copied


@dataclass(frozen=True, slots=True)
class CoordinatorTopic:
    """What the plan does to one topic whose leaders coordinate groups or transactions."""

    topic: str
    copied: int  # partitions that get a new replica
    changing_leader: int  # partitions whose coordinator moves


@dataclass(frozen=True, slots=True)
class Overview:
    copied_replicas: int
    copied_bytes: int
    leader_changes: int
    over_replicas: float | None  # copied / lower bound; None where there is nothing to compare
    over_bytes: float | None
    cross_rack_bytes: int
    busiest_link_bytes: int
    measures: Mapping[str, MeasureSpans]  # those of MEASURES that are known
    reasons: tuple[Reason, ...]  # most bytes first
    coordinators: tuple[CoordinatorTopic, ...]

    @classmethod
    def of(cls, plan: RebalancePlan) -> "Overview":
        reasons = reasons_of(plan.moves)
        replicas, copied = (
            sum(reason.replicas for reason in reasons),
            sum(reason.bytes for reason in reasons),
        )
        is_whole = plan.deferred.partitions == 0
        return cls(
            copied_replicas=replicas,
            copied_bytes=copied,
            leader_changes=plan.leader_changes,
            over_replicas=_over(replicas, plan.lower_bound.replicas) if is_whole else None,
            over_bytes=_over(copied, plan.lower_bound.bytes) if is_whole else None,
            cross_rack_bytes=cross_rack_bytes(plan),
            busiest_link_bytes=busiest_link_bytes(plan),
            measures=_measures(
                [f for f in plan.figures if plan.scope.may_touch_broker(f.broker_id)]
            ),
            reasons=reasons,
            coordinators=_coordinators(plan.moves),
        )


def reasons_of(moves: Iterable[Move]) -> tuple[Reason, ...]:
    """The moves counted by what they serve, most bytes first."""
    counts: defaultdict[MoveReason, list[int]] = defaultdict(lambda: [0, 0, 0])
    for move in moves:
        added = len(move.adding)
        row = counts[move.why]
        row[0] += 1
        row[1] += added
        row[2] += added * move.size_bytes
    reasons = [Reason(why, *row) for why, row in counts.items()]
    return tuple(
        sorted(reasons, key=lambda reason: (-reason.bytes, -reason.partitions, reason.why))
    )


def largest_moves(plan: RebalancePlan, most: int) -> tuple[tuple[Move, ...], tuple[Reason, ...]]:
    """The moves that copy most, and the others counted."""
    keyed = ((-move.copied_bytes, move.topic, move.partition, move) for move in plan.moves)
    shown = tuple(move for *_, move in nsmallest(most, keyed, key=lambda row: row[:3]))
    if len(shown) == len(plan.moves):
        return shown, ()
    named = {(move.topic, move.partition) for move in shown}
    return shown, reasons_of(
        move for move in plan.moves if (move.topic, move.partition) not in named
    )


def brokers_to_show(
    figures: Sequence[BrokerFigure], most: int = BROKERS_SHOWN
) -> tuple[tuple[BrokerFigure, ...], tuple[BrokerFigure, ...]]:
    """The brokers that change most or end furthest from the best possible, by id, and the others."""
    if len(figures) <= most:
        return tuple(figures), ()
    means = {name: max(1.0, sum(_known(figures, name, "best")) / len(figures)) for name in MEASURES}

    def distance(figure: BrokerFigure) -> float:
        return max(
            max(abs(after - before), abs(after - best)) / means[name]
            for name in MEASURES
            for before, after, best in [values_of(figure, name)]
        )

    chosen = {
        f.broker_id for f in nsmallest(most, figures, key=lambda f: (-distance(f), f.broker_id))
    }
    return (
        tuple(figure for figure in figures if figure.broker_id in chosen),
        tuple(figure for figure in figures if figure.broker_id not in chosen),
    )


def values_of(figure: BrokerFigure, measure: str) -> tuple[int, int, int]:
    """Before, after and best of one of MEASURES; 0 where it is not known."""
    before, after, best = (
        getattr(figure, f"{measure}_{when}") for when in ("before", "after", "best")
    )
    return before or 0, after or 0, best or 0


def knows(figures: Sequence[BrokerFigure], measure: str) -> bool:
    return any(getattr(figure, f"{measure}_before") is not None for figure in figures)


def peak_used_bytes(figure: BrokerFigure) -> int:
    """The most that its disks may hold on the way: all that it receives is there, and nothing is
    gone yet.
    """
    others = (
        0
        if figure.disk_used_bytes is None
        else max(0, figure.disk_used_bytes - figure.bytes_before)
    )
    return figure.bytes_peak + others


def peak_share(figure: BrokerFigure) -> float | None:
    """Of the disk's size, 0 to 1; None where that is not known."""
    return peak_used_bytes(figure) / figure.disk_total_bytes if figure.disk_total_bytes else None


def rate_warning(
    plan: RebalancePlan, rate_bytes_per_second: int, at_once: int | None = None
) -> str | None:
    """Why the rate will not do when a broker copies at most `at_once` partitions together; None
    when it will.

    What arrives meanwhile has to be copied as well (KIP-73).
    """
    busiest = busiest_inflow(plan, at_once)
    if busiest is None or rate_bytes_per_second > busiest.bytes_per_second:
        return None
    how = "sends" if busiest.sends else "receives"
    return (
        f"at {format_rate(rate_bytes_per_second)} the copies may never end: producers write "
        f"{format_rate(busiest.bytes_per_second)} to the partitions that broker {busiest.broker_id} {how} at once; "
        f"take at least {format_rate(min_rate_bytes_per_second(busiest.bytes_per_second))}"
    )


def request_in_words(plan: RebalancePlan) -> tuple[str, ...]:
    """What the request adds to goal and brokers: scope, replication factor, budget."""
    scope, budget = plan.scope, plan.budget
    words = (
        ("only topics", join_ids(scope.topics)),
        ("not topics", join_ids(scope.excluded_topics)),
        ("only brokers", join_ids(scope.broker_ids)),
        ("not brokers", join_ids(scope.excluded_broker_ids)),
        ("replicas per partition:", str(plan.replication_factor or "")),
        ("copying at most", "" if budget.max_bytes is None else format_bytes(budget.max_bytes)),
        (
            "changing at most",
            "" if budget.max_partitions is None else pluralize(budget.max_partitions, "partition"),
        ),
    )
    return tuple(f"{what} {value}" for what, value in words if value)


def deferred_in_words(plan: RebalancePlan) -> str:
    """What the budget leaves; "" where it leaves nothing."""
    deferred = plan.deferred
    if not deferred.partitions:
        return ""
    counts = f"{pluralize(deferred.partitions, 'partition')}, {pluralize(deferred.replicas, 'replica')}"
    return f"the budget leaves for a later plan: {counts}, {format_bytes(deferred.bytes)}"


def coordinators_in_words(overview: Overview) -> tuple[str, ...]:
    """One sentence for each topic of coordinators that the plan touches."""
    return tuple(
        f"{found.topic}: {pluralize(found.changing_leader, 'coordinator')} to another broker (clients look up anew), "
        f"{pluralize(found.copied, 'partition')} copied"
        for found in overview.coordinators
    )


def span_in_words(span: Span, unit: Unit) -> str:
    """`12 to 14`, or `12`."""
    low, high = unit(span.lowest), unit(span.highest)
    return low if low == high else f"{low} to {high}"


def others_in_words(
    figures: Sequence[BrokerFigure], units: Mapping[str, Unit]
) -> tuple[tuple[str, str], ...]:
    """Each known measure, and from where to where the given brokers go in it."""
    found = []
    for name in MEASURES:
        if knows(figures, name):
            rows = [values_of(figure, name) for figure in figures]
            before, after = (
                span_in_words(Span.of(row[at] for row in rows), units[name]) for at in (0, 1)
            )
            found.append((name, f"{before} → {after}"))
    return tuple(found)


def _over(actual: int, bound: int) -> float | None:
    """A plan below its bound stopped before the goal was reached: there is nothing to compare then."""
    return actual / bound if bound and actual >= bound else None


def _measures(figures: Sequence[BrokerFigure]) -> Mapping[str, MeasureSpans]:
    spans = {}
    for name in MEASURES:
        if not knows(figures, name):
            continue
        rows = [values_of(figure, name) for figure in figures]
        most = max((best for *_, best in rows), default=0)
        meant = [
            row for row in rows if row[2] or most < 2
        ]  # whoever is best off with none is not meant to have any
        spans[name] = MeasureSpans(
            before=Span.of(
                before for before, after, best in rows if before or after or best or most < 2
            ),
            after=Span.of(after for _, after, _ in meant),
            best=Span.of(best for *_, best in meant),
        )
    return spans


def _coordinators(moves: Iterable[Move]) -> tuple[CoordinatorTopic, ...]:
    counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for move in moves:
        if move.topic in COORDINATOR_TOPICS:
            counts[move.topic][0] += bool(move.adding)
            counts[move.topic][1] += move.changes_leader
    return tuple(CoordinatorTopic(topic, *row) for topic, row in sorted(counts.items()))


def _known(figures: Sequence[BrokerFigure], measure: str, when: str) -> list[int]:
    return [getattr(figure, f"{measure}_{when}") or 0 for figure in figures]
