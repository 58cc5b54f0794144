"""What a person wants to know of a plan, computed once for the page, the terminal, the approval
question and JSON.

    overview = Overview.of(plan)
    overview.measures["leaders"].after.max_minus_min, overview.over_bytes
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
        replicas = sum(reason.replicas for reason in reasons)
        copied_bytes = sum(reason.bytes for reason in reasons)
        # A part of the goal is not comparable with the bound of all of it.
        is_complete = plan.deferred.partitions == 0
        figures = [f for f in plan.figures if plan.scope.may_touch_broker(f.broker_id)]
        return cls(
            copied_replicas=replicas,
            copied_bytes=copied_bytes,
            leader_changes=plan.leader_changes,
            over_replicas=_over(replicas, plan.lower_bound.replicas) if is_complete else None,
            over_bytes=_over(copied_bytes, plan.lower_bound.bytes) if is_complete else None,
            cross_rack_bytes=cross_rack_bytes(plan),
            busiest_link_bytes=busiest_link_bytes(plan),
            measures=_measures(figures),
            reasons=reasons,
            coordinators=_coordinators(plan.moves),
        )


def reasons_of(moves: Iterable[Move]) -> tuple[Reason, ...]:
    """Return the moves counted by what they serve, most bytes first."""
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
    """Return the moves that copy most, and the others counted."""
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
    """Return the brokers that change most or end furthest from the best, and the others."""
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
    """Return before, after and best of one of MEASURES; 0 where it is not known."""
    before, after, best = (
        getattr(figure, f"{measure}_{when}") for when in ("before", "after", "best")
    )
    return before or 0, after or 0, best or 0


def knows(figures: Sequence[BrokerFigure], measure: str) -> bool:
    return any(getattr(figure, f"{measure}_before") is not None for figure in figures)


def peak_used_bytes(figure: BrokerFigure) -> int:
    """Return the most that its disks may hold on the way.

    All that it receives is there then, nothing that it loses is gone yet, and files of others are
    there too.
    """
    used_bytes = figure.disk_used_bytes or 0
    other_files_bytes = max(0, used_bytes - figure.bytes_before)
    return figure.bytes_peak + other_files_bytes


def peak_share(figure: BrokerFigure) -> float | None:
    """Return that as a share of the disks, 0 to 1; None where their size is not known."""
    return peak_used_bytes(figure) / figure.disk_total_bytes if figure.disk_total_bytes else None


def rate_warning(
    plan: RebalancePlan, rate_bytes_per_second: int, max_moves: int | None = None
) -> str | None:
    """Return why a rate is too low, and which would do; None where it is high enough.

    `max_moves` is how many partitions a broker copies together. What producers write meanwhile has
    to be copied as well (KIP-73).
    """
    busiest = busiest_inflow(plan, max_moves)
    if busiest is None or rate_bytes_per_second > busiest.bytes_per_second:
        return None
    sends = "sends" if busiest.sends else "receives"
    inflow = format_rate(busiest.bytes_per_second)
    enough = format_rate(min_rate_bytes_per_second(busiest.bytes_per_second))
    return (
        f"at {format_rate(rate_bytes_per_second)} the copies may never end: producers write "
        f"{inflow} to the partitions that broker {busiest.broker_id} {sends} at once; "
        f"take at least {enough}"
    )


def request_in_words(plan: RebalancePlan) -> tuple[str, ...]:
    """Return what a request adds to goal and brokers: scope, replication factor, budget."""
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
    """Return what the budget leaves for a later plan; "" where it leaves nothing."""
    deferred = plan.deferred
    if not deferred.partitions:
        return ""
    partitions = pluralize(deferred.partitions, "partition")
    replicas = pluralize(deferred.replicas, "replica")
    size = format_bytes(deferred.bytes)
    return f"the budget leaves for a later plan: {partitions}, {replicas}, {size}"


def coordinators_in_words(overview: Overview) -> tuple[str, ...]:
    """Return one sentence for each topic of coordinators that the plan touches."""
    sentences = []
    for topic in overview.coordinators:
        coordinators = pluralize(topic.changing_leader, "coordinator")
        partitions = pluralize(topic.copied, "partition")
        sentences.append(
            f"{topic.topic}: {coordinators} to another broker (clients look up anew), "
            f"{partitions} copied"
        )
    return tuple(sentences)


def span_in_words(span: Span, unit: Unit) -> str:
    """Return `12 to 14`, or `12` where both ends are written alike."""
    low, high = unit(span.lowest), unit(span.highest)
    return low if low == high else f"{low} to {high}"


def others_in_words(
    figures: Sequence[BrokerFigure], units: Mapping[str, Unit]
) -> tuple[tuple[str, str], ...]:
    """Return each known measure with the spans of these brokers: `12 to 14 → 13`."""
    found = []
    for name in MEASURES:
        if knows(figures, name):
            rows = [values_of(figure, name) for figure in figures]
            before = span_in_words(Span.of(before for before, _, _ in rows), units[name])
            after = span_in_words(Span.of(after for _, after, _ in rows), units[name])
            found.append((name, f"{before} → {after}"))
    return tuple(found)


def _over(actual: int, bound: int) -> float | None:
    """Return the ratio; None where a plan below its bound stopped before it reached the goal."""
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
