"""What people see of a plan: each figure with its name and its unit, written once for the page, the
approval question, the terminal and JSON.

    view = PlanView(plan, rate_bytes_per_second=5_000_000)
    view.spans["leaders"].after.max_minus_min       # 0
    view.costs[0]                                   # Cost("Bytes copied", "6.0 MB", "5.0 MB", ...)
    view.warnings[0]                                # "at 5.0 MB/s the copies may never end: ..."

`reporting/plan_page.py`, `reporting/plan_text.py` and `cli/plans.py` choose what to show where.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import nsmallest
from typing import Final, NamedTuple

from counterpoise.model.movement import (
    COORDINATOR_TOPICS,
    busiest_link_bytes,
    cross_rack_bytes,
    effective_rate,
    limit_warning,
    rate_warning,
)
from counterpoise.model.plan import BrokerFigure, Move, MoveColumns, MoveReason, RebalancePlan
from counterpoise.model.words import join_ids, list_brokers, pluralize
from counterpoise.units import format_bytes, format_count, format_rate, format_seconds

BROKERS_SHOWN: Final = 20


class Span(NamedTuple):
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


class MeasureSpans(NamedTuple):
    """One measure over the brokers that the request may touch.

    Afterwards, brokers that are to have none of it do not count.
    """

    before: Span
    after: Span
    best: Span


@dataclass(frozen=True, slots=True)
class Measure:
    """What a plan evens out over the brokers."""

    field: str  # of BrokerFigure, without _before, _after and _best
    title: str
    unit: Callable[[float], str]

    def is_known(self, figures: Iterable[BrokerFigure]) -> bool:
        return any(getattr(figure, f"{self.field}_before") is not None for figure in figures)

    def values(self, figure: BrokerFigure) -> tuple[int, int, int]:
        """Return before, after and best; 0 where it is not known."""
        before, after, best = (
            getattr(figure, f"{self.field}_{when}") for when in ("before", "after", "best")
        )
        return before or 0, after or 0, best or 0

    def in_words(self, figure: BrokerFigure) -> str:
        """Return `12 → 14 (14)`: before, after, best possible."""
        before, after, best = map(self.unit, self.values(figure))
        return f"{before} → {after} ({best})"

    def span_in_words(self, span: Span) -> str:
        """Return `12 to 14`, or `12` where both ends are written alike."""
        low, high = map(self.unit, span)
        return low if low == high else f"{low} to {high}"

    def change_in_words(self, figures: Sequence[BrokerFigure]) -> str:
        """Return `leaders 12 to 14 → 13`."""
        befores, afters, _ = zip(*map(self.values, figures), strict=True)
        before, after = (self.span_in_words(Span.of(values)) for values in (befores, afters))
        return f"{self.title.lower()} {before} → {after}"

    def spans(self, figures: Sequence[BrokerFigure]) -> MeasureSpans:
        rows = [self.values(figure) for figure in figures]
        # Whoever is best off with none is not meant to have any.
        may_be_none = max((best for *_, best in rows), default=0) < 2
        meant = [row for row in rows if row[2] or may_be_none]
        return MeasureSpans(
            before=Span.of(row[0] for row in rows if any(row) or may_be_none),
            after=Span.of(after for _, after, _ in meant),
            best=Span.of(best for *_, best in meant),
        )


MEASURES: Final = (
    Measure("leaders", "Leaders", format_count),
    Measure("replicas", "Replicas", format_count),
    Measure("bytes", "Bytes", format_bytes),
    Measure("bytes_in", "Bytes in", format_rate),
    Measure("network_in", "Network in", format_rate),
)


_BROKERS_NAMED: Final = 4  # in a sentence


class Reason(NamedTuple):
    """The moves that serve one measure."""

    why: MoveReason
    partitions: int
    replicas: int  # copied
    bytes: int  # copied


class CoordinatorTopic(NamedTuple):
    """What the plan does to one topic whose leaders coordinate groups or transactions."""

    topic: str
    copied: int  # partitions that get a new replica
    changing_leader: int  # partitions whose coordinator moves

    @property
    def in_words(self) -> str:
        return (
            f"{self.topic}: {pluralize(self.changing_leader, 'coordinator')} to another broker "
            f"(clients look up anew), {pluralize(self.copied, 'partition')} copied"
        )


class Cost(NamedTuple):
    """What the plan does of something, against what any plan has to do that reaches the goal."""

    name: str
    planned: str
    at_least: str
    over: str = ""  # `1.020 ×`; "" where there is nothing to compare

    @property
    def bound_in_words(self) -> str:
        """Return `at least 5.0 MB (1.200 ×)`."""
        return f"at least {self.at_least}" + (f" ({self.over})" if self.over else "")


@dataclass(frozen=True)
class PlanView:
    """A plan, and the rates and the number of copies that it is shown with."""

    plan: RebalancePlan
    asked_rate_bytes_per_second: int | None = None
    suggested_rate_bytes_per_second: int | None = None  # by the policy's link capacity
    max_moves: int | None = None  # partitions that one broker copies together; None: all

    @property
    def goal(self) -> str:
        return f"{self.plan.goal} {join_ids(self.plan.broker_ids)}".rstrip()

    @property
    def sentence(self) -> str:
        """Return for example `Moves 134 MB to broker 4 in about 34 s`."""
        plan, receiving = self.plan, {b for move in self.plan.moves for b in move.adding}
        if not receiving:
            what = "Gives up replicas" if plan.lowers_replication_factor else "Changes leaders"
            return f"{what} of {pluralize(len(plan.moves), 'partition')}, and copies nothing"
        many = len(receiving) > _BROKERS_NAMED
        to = pluralize(len(receiving), "broker") if many else list_brokers(sorted(receiving))
        gives_up = ", and gives up replicas" if plan.lowers_replication_factor else ""
        return (
            f"Moves {format_bytes(self.copied_bytes)} to {to}{gives_up} in about "
            f"{self.expected_time}"
        )

    @property
    def request_in_words(self) -> str:
        """Return what a request adds to goal and brokers: scope, replication factor, budget."""
        scope, max_bytes = self.plan.scope, self.plan.budget.max_bytes
        words = {
            "only topics": join_ids(scope.topics),
            "not topics": join_ids(scope.excluded_topics),
            "only brokers": join_ids(scope.broker_ids),
            "not brokers": join_ids(scope.excluded_broker_ids),
            "replicas per partition:": self.plan.replication_factor,
            "copying at most": max_bytes and format_bytes(max_bytes),
        }
        return "; ".join(f"{what} {value}" for what, value in words.items() if value)

    @cached_property
    def reasons(self) -> tuple[Reason, ...]:
        return reasons_of(self.plan.columns)

    @property
    def copied_replicas(self) -> int:
        return sum(reason.replicas for reason in self.reasons)

    @property
    def copied_bytes(self) -> int:
        return sum(reason.bytes for reason in self.reasons)

    @property
    def replicas_over_bound(self) -> float | None:
        return self._over(self.copied_replicas, self.plan.lower_bound.replicas)

    @property
    def bytes_over_bound(self) -> float | None:
        return self._over(self.copied_bytes, self.plan.lower_bound.bytes)

    def _over(self, actual: int, bound: int) -> float | None:
        """Return copied / lower bound; None where there is nothing to compare.

        A part of the goal is not comparable with the bound of all of it, nor is a plan below its
        bound: it stopped before it reached the goal.
        """
        is_comparable = not self.plan.deferred.partitions and bound and actual >= bound
        return actual / bound if is_comparable else None

    @cached_property
    def cross_rack_bytes(self) -> int:
        return cross_rack_bytes(self.plan)

    @cached_property
    def busiest_link_bytes(self) -> int:
        return busiest_link_bytes(self.plan)

    @property
    def rate_bytes_per_second(self) -> int | None:
        asked = self.asked_rate_bytes_per_second
        return self.suggested_rate_bytes_per_second if asked is None else asked

    @property
    def rate(self) -> str:
        rate = self.rate_bytes_per_second
        return "a rate that is not chosen yet" if rate is None else format_rate(rate)

    @cached_property
    def limit_warning(self) -> str:
        """Return which limits of others hold whatever rate is approved; "" where none does."""
        return limit_warning(self.plan, self.rate_bytes_per_second)

    @cached_property
    def expected_time(self) -> str:
        rate = effective_rate(self.plan, self.rate_bytes_per_second)
        return format_seconds(self.busiest_link_bytes / rate) if rate else "not known"

    @cached_property
    def rate_warning(self) -> str:
        """Return why the rate is too low; "" where it is high enough, or not chosen yet."""
        rate = effective_rate(self.plan, self.rate_bytes_per_second)
        return "" if rate is None else rate_warning(self.plan, rate, self.max_moves)

    @property
    def deferred_in_words(self) -> str:
        """Return what the budget leaves for a later plan; "" where it leaves nothing."""
        deferred = self.plan.deferred
        if not deferred.partitions:
            return ""
        return (
            f"the budget leaves for a later plan: {pluralize(deferred.partitions, 'partition')}, "
            f"{pluralize(deferred.replicas, 'replica')}, {format_bytes(deferred.bytes)}"
        )

    @property
    def warnings(self) -> list[str]:
        warnings = (
            self.rate_warning,
            self.limit_warning,
            self.deferred_in_words,
            *self.plan.warnings,
        )
        return [warning for warning in warnings if warning]

    @cached_property
    def coordinators(self) -> tuple[CoordinatorTopic, ...]:
        counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
        moves = self.plan.columns
        for index, topic in enumerate(moves.topics):
            if topic in COORDINATOR_TOPICS:
                counts[topic][0] += bool(moves.adding[index])
                counts[topic][1] += moves.changes_leader[index]
        return tuple(CoordinatorTopic(topic, *row) for topic, row in sorted(counts.items()))

    @cached_property
    def measures(self) -> list[Measure]:
        return [measure for measure in MEASURES if measure.is_known(self.plan.figures)]

    @cached_property
    def spans(self) -> Mapping[str, MeasureSpans]:
        """Return the known ones by the measure's field."""
        figures = [f for f in self.plan.figures if self.plan.scope.may_touch_broker(f.broker_id)]
        return {m.field: m.spans(figures) for m in self.measures if m.is_known(figures)}

    @property
    def evenness(self) -> list[list[str]]:
        """Return rows of a measure's title, and its span before, after and at best."""
        return [
            [m.title, *map(m.span_in_words, self.spans[m.field])]
            for m in self.measures
            if m.field in self.spans
        ]

    @cached_property
    def costs(self) -> list[Cost]:
        bound = self.plan.lower_bound
        bytes_over, replicas_over = (
            "" if over is None else f"{over:.3f} ×"
            for over in (self.bytes_over_bound, self.replicas_over_bound)
        )
        copied_bytes, bound_bytes = map(format_bytes, (self.copied_bytes, bound.bytes))
        replicas, bound_replicas = map(format_count, (self.copied_replicas, bound.replicas))
        costs = [
            Cost("Bytes copied", copied_bytes, bound_bytes, bytes_over),
            Cost("Replicas copied", replicas, bound_replicas, replicas_over),
        ]
        if leaders := self.spans.get("leaders"):
            after, best = leaders.after.max_minus_min, bound.leaders_max_minus_min
            costs.append(Cost("Leaders, max − min", format_count(after), format_count(best)))
        return costs

    @cached_property
    def brokers(self) -> tuple[Sequence[BrokerFigure], Sequence[BrokerFigure]]:
        """Return the brokers to show, and the others."""
        return brokers_to_show(self.plan.figures)

    @property
    def broker_headings(self) -> list[str]:
        return [*(measure.title for measure in self.measures), "At its fullest"]

    def broker_cells(self, figure: BrokerFigure) -> list[str]:
        return [*(measure.in_words(figure) for measure in self.measures), fullest(figure)]

    @property
    def other_brokers_in_words(self) -> str:
        """Return `leaders 12 to 14 → 13; replicas ...`."""
        _, others = self.brokers
        return "; ".join(m.change_in_words(others) for m in MEASURES if m.is_known(others))


def reasons_of(moves: MoveColumns) -> tuple[Reason, ...]:
    """Return the moves counted by what they serve, most bytes first."""
    counts: defaultdict[MoveReason, list[int]] = defaultdict(lambda: [0, 0, 0])
    for why, adding, copied_bytes in zip(
        moves.reasons, moves.adding, moves.copied_bytes, strict=True
    ):
        row = counts[why]
        row[0] += 1
        row[1] += len(adding)
        row[2] += copied_bytes
    reasons = [Reason(why, *row) for why, row in counts.items()]
    return tuple(
        sorted(reasons, key=lambda reason: (-reason.bytes, -reason.partitions, reason.why))
    )


def largest_moves(
    plan: RebalancePlan, max_shown: int
) -> tuple[tuple[Move, ...], tuple[Reason, ...]]:
    """Return the moves that copy most, and the others counted."""
    moves = plan.columns
    largest = nsmallest(max_shown, moves.by_name, key=lambda index: -moves.copied_bytes[index])
    shown = set(largest)
    others = [move for index, move in enumerate(plan.moves) if index not in shown]
    return tuple(plan.moves[index] for index in largest), reasons_of(MoveColumns.of(others))


def brokers_to_show(
    figures: Sequence[BrokerFigure], max_shown: int = BROKERS_SHOWN
) -> tuple[Sequence[BrokerFigure], Sequence[BrokerFigure]]:
    """Return the brokers that change most or end furthest from the best, and the others."""
    if len(figures) <= max_shown:
        return figures, ()
    means = {
        measure: max(1.0, sum(measure.values(figure)[2] for figure in figures) / len(figures))
        for measure in MEASURES
    }

    def distance(figure: BrokerFigure) -> float:
        return max(
            max(abs(after - before), abs(after - best)) / mean
            for measure, mean in means.items()
            for before, after, best in [measure.values(figure)]
        )

    farthest = nsmallest(max_shown, figures, key=lambda f: (-distance(f), f.broker_id))
    chosen = {figure.broker_id for figure in farthest}
    return (
        [figure for figure in figures if figure.broker_id in chosen],
        [figure for figure in figures if figure.broker_id not in chosen],
    )


def fullest(figure: BrokerFigure) -> str:
    """Return what is on its disks at most, while new copies arrive: `1.2 TB, 61 %`."""
    share = figure.peak_share
    percent = "" if share is None else f", {share * 100:.0f} %"
    return f"{format_bytes(figure.peak_used_bytes)}{percent}"


# -- What a move is for, in words
#
# why_in_words(move)      # "evens traffic by 36.0 MB/s"


MOVE_REASON_TEXTS: Final[Mapping[MoveReason, str]] = {
    MoveReason.RACKS: "onto more racks",
    MoveReason.REPLICAS: "evens replicas",
    MoveReason.BYTES: "evens bytes",
    MoveReason.TRAFFIC: "evens traffic",
    MoveReason.LEADERS: "evens leaders",
    MoveReason.DRAIN: "empties a broker",
    MoveReason.REPAIR: "replaces a dead replica",
    MoveReason.DEMOTE: "takes leadership away",
    MoveReason.REPLICATION_FACTOR: "changes the replication factor",
    MoveReason.PREFERRED: "elects the preferred leader",
    MoveReason.IMPORTED: "as the reassignment says",
}


def why_in_words(move: Move) -> str:
    """Return what a move is for: `evens traffic by 36.0 MB/s`."""
    text = MOVE_REASON_TEXTS[move.why]
    if move.traffic_gain is None:
        return text
    if not move.traffic_gain:
        return f"{text}, in exchange"
    return f"{text} by {format_rate(move.traffic_gain)}"
