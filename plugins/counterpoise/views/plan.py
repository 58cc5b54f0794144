"""What people see of a plan: each figure once, for its page, the terminal, messages and JSON.

    view = PlanView.of(plan, 5_000_000)
    view.copied_bytes, view.expected_seconds
    view.per_broker["leaders"].after.max_minus_min
    find_moves(plan, MoveSearch(text="orders", sort="topic", page=2)).moves[0].why

The fields are what `show --json` prints; moves are looked up apart, since a plan may have 60,000.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Final, Self

from msgspec import Struct

from counterpoise.model.movement import (
    COORDINATOR_TOPICS,
    Inflow,
    busiest_inflow,
    busiest_link_bytes,
    cross_rack_bytes,
    default_rate,
    effective_rate,
    limit_warning,
    max_moves_at_once,
    rate_warning,
)
from counterpoise.model.plan import (
    BrokerFigure,
    Deferred,
    LowerBound,
    Move,
    MoveColumns,
    MoveReason,
    RebalancePlan,
)
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.request import Budget, Goal, Scope
from counterpoise.model.words import join_ids, list_brokers, pluralize
from counterpoise.units import format_bytes, format_count, format_rate, format_seconds
from counterpoise.views import view_of

BROKERS_SHOWN: Final = 20
MOVES_ON_A_PAGE: Final = 50
MOVE_SORTS: Final = ("bytes", "topic", "why")
_BROKERS_NAMED: Final = 4  # in a sentence

MOVE_REASON_TEXTS: Final[Mapping[MoveReason, str]] = {
    MoveReason.BROKER_SET: "to its broker set",
    MoveReason.RACKS: "evens racks",
    MoveReason.REPLICAS: "evens replicas",
    MoveReason.BYTES: "evens bytes",
    MoveReason.TRAFFIC: "evens traffic",
    MoveReason.LEADERS: "evens leaders",
    MoveReason.DRAIN: "empties a broker",
    MoveReason.RELIEF: "relieves a disk",
    MoveReason.REPLACE: "replaces a broker",
    MoveReason.REPAIR: "replaces a dead replica",
    MoveReason.DEMOTE: "takes leadership away",
    MoveReason.REPLICATION_FACTOR: "changes the replication factor",
    MoveReason.PREFERRED: "elects the preferred leader",
    MoveReason.IMPORTED: "as the reassignment says",
}
_GOES_BACK: Final = "goes back"  # a move of an undo
_TITLES: Final[Mapping[Goal, str]] = {
    Goal.ADD_BROKERS: "Add",
    Goal.REMOVE_BROKERS: "Remove",
    Goal.REPLACE_BROKERS: "Replace",
    Goal.DEMOTE_BROKERS: "Demote",
    Goal.LEADERS: "Spread leaders",
    Goal.REBALANCE: "Rebalance",
    Goal.REPLICATION_FACTOR: "Change the replication factor",
    Goal.REPAIR: "Repair",
    Goal.RELIEF: "Relieve full disks",
    Goal.IMPORTED: "Reassign partitions",
}


class Span(Struct, frozen=True):
    """The least and the most that one broker has."""

    lowest: int
    highest: int

    @property
    def max_minus_min(self) -> int:
        return self.highest - self.lowest

    @classmethod
    def of(cls, values: Iterable[int]) -> Self:
        known = list(values) or [0]
        return cls(min(known), max(known))


class MeasureSpans(Struct, frozen=True):
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
        low, high = self.unit(span.lowest), self.unit(span.highest)
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


class MoveCounts(Struct, frozen=True):
    """What moves that serve one measure come to."""

    partitions: int
    replicas: int  # copied
    bytes: int  # copied


class OverBound(Struct, frozen=True):
    """Copied / lower bound; None where there is nothing to compare.

    A part of the goal is not comparable with the bound of all of it, nor is a plan below its bound:
    it stopped before it reached the goal.
    """

    replicas: float | None
    bytes: float | None


class CoordinatorTopic(Struct, frozen=True):
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


class Cost(Struct, frozen=True):
    """What the plan does of something, against what any plan has to do that reaches the goal."""

    name: str
    planned: str
    at_least: str
    over: str = ""  # `1.020 ×`; "" where there is nothing to compare


class PlanView(Struct, frozen=True, kw_only=True):
    """A plan at one rate: the one that was asked for, else the one that is suggested."""

    fingerprint: str
    cluster: str
    cluster_id: str
    snapshot_id: str
    policy_digest: str
    goal: Goal
    brokers: tuple[int, ...]
    new_broker_ids: tuple[int, ...]
    scope: Scope
    budget: Budget
    replication_factor: int | None
    below_percent: int | None
    reason: str  # why nothing moves
    undoes: str  # the fingerprint of the plan that it takes back; "" for any other
    moves: int
    moves_by_why: dict[MoveReason, MoveCounts]  # most bytes first
    left: Deferred
    lowers_replication_factor: bool
    receives: tuple[int, ...]  # ids of the brokers that get replicas
    copied_replicas: int
    copied_bytes: int
    lower_bound: LowerBound
    over_lower_bound: OverBound
    leader_changes: int
    bytes_over_busiest_link: int
    bytes_across_racks: int
    coordinators: tuple[CoordinatorTopic, ...]
    busiest_inflow: Inflow | None
    suggested_rate_bytes_per_second: int | None  # by the policy's link capacity
    rate_bytes_per_second: int | None
    expected_seconds: float | None  # that the busiest link copies; None: no rate, or nothing passes
    rate_warning: str | None  # why the rate is too low
    limit_warning: str | None  # which limits of others hold whatever rate is approved
    per_broker: dict[str, MeasureSpans]  # by the measure's field; those that are known
    warnings: tuple[str, ...]  # of the plan itself
    notes: tuple[str, ...]  # likewise; nothing to be wary of
    brokers_before_and_after: tuple[BrokerFigure, ...]

    @classmethod
    def of(
        cls,
        plan: RebalancePlan,
        asked_rate_bytes_per_second: int | None = None,
        suggested_rate_bytes_per_second: int | None = None,
        max_moves: int | None = None,
    ) -> Self:
        """Return a plan as it is seen. `max_moves` is how many partitions a broker copies together;
        None: all.
        """
        asked_rate = asked_rate_bytes_per_second
        rate = suggested_rate_bytes_per_second if asked_rate is None else asked_rate
        possible_rate = effective_rate(plan, rate)
        link_bytes = busiest_link_bytes(plan)
        touched = [f for f in plan.figures if plan.scope.may_touch_broker(f.broker_id)]
        too_low = rate_warning(plan, possible_rate, max_moves) if possible_rate is not None else ""
        return view_of(
            cls,
            plan,
            brokers=plan.broker_ids,
            moves=len(plan.moves),
            moves_by_why=_moves_by_why(plan.columns),
            left=plan.deferred,
            receives=tuple(sorted(set().union(*plan.columns.adding))),
            over_lower_bound=OverBound(
                _over(plan, plan.copied_replicas, plan.lower_bound.replicas),
                _over(plan, plan.copied_bytes, plan.lower_bound.bytes),
            ),
            bytes_over_busiest_link=link_bytes,
            bytes_across_racks=cross_rack_bytes(plan),
            coordinators=_coordinators(plan.columns),
            busiest_inflow=busiest_inflow(plan, max_moves),
            suggested_rate_bytes_per_second=suggested_rate_bytes_per_second,
            rate_bytes_per_second=rate,
            expected_seconds=link_bytes / possible_rate if possible_rate else None,
            rate_warning=too_low or None,
            limit_warning=limit_warning(plan, rate) or None,
            per_broker={m.field: m.spans(touched) for m in MEASURES if m.is_known(touched)},
            brokers_before_and_after=plan.figures,
        )

    @classmethod
    def offered(
        cls, plan: RebalancePlan, movement: MovementPolicy, rate: int | None = None
    ) -> Self:
        """Return a plan as it is shown to approvers, at the rate that they are offered, or at
        another one.
        """
        offered_rate = default_rate(plan, movement) if rate is None else rate
        return cls.of(plan, offered_rate, max_moves=max_moves_at_once(movement))

    @property
    def is_empty(self) -> bool:
        return not self.moves

    @property
    def goal_in_words(self) -> str:
        return goal_in_words(self)

    @property
    def sentence(self) -> str:
        """Return for example `Moves 134 MB to broker 4 in about 34 s`."""
        if not self.receives:
            what = "Gives up replicas" if self.lowers_replication_factor else "Changes leaders"
            return f"{what} of {pluralize(self.moves, 'partition')}, and copies nothing"
        many = len(self.receives) > _BROKERS_NAMED
        to = pluralize(len(self.receives), "broker") if many else list_brokers(self.receives)
        back = "back " if self.undoes else ""
        gives_up = ", and gives up replicas" if self.lowers_replication_factor else ""
        return (
            f"Moves {format_bytes(self.copied_bytes)} {back}to {to}{gives_up} in about "
            f"{self.expected_time}"
        )

    @property
    def long_sentence(self) -> str:
        """Return that with `; leaders 31 to 12 on broker 1`: of the broker that leads most now."""
        figures = self.brokers_before_and_after
        most = max(figures, key=lambda f: (f.leaders_before, -f.leaders_after), default=None)
        if most is None or most.leaders_before == most.leaders_after:
            return self.sentence
        before, after = format_count(most.leaders_before), format_count(most.leaders_after)
        return f"{self.sentence}; leaders {before} to {after} on broker {most.broker_id}"

    @property
    def request_in_words(self) -> str:
        """Return what a request adds to goal and brokers: scope, replication factor, budget."""
        scope, max_bytes = self.scope, self.budget.max_bytes
        words = {
            "only topics": join_ids(scope.topics),
            "not topics": join_ids(scope.excluded_topics),
            "only brokers": join_ids(scope.broker_ids),
            "not brokers": join_ids(scope.excluded_broker_ids),
            "replicas per partition:": self.replication_factor,
            "disks below": self.below_percent and f"{self.below_percent} %",
            "copying at most": max_bytes and format_bytes(max_bytes),
        }
        return "; ".join(f"{what} {value}" for what, value in words.items() if value)

    @property
    def rate(self) -> str:
        rate = self.rate_bytes_per_second
        return "a rate that is not chosen yet" if rate is None else format_rate(rate)

    @property
    def expected_time(self) -> str:
        seconds = self.expected_seconds
        return "not known" if seconds is None else format_seconds(seconds)

    @property
    def pace_in_words(self) -> list[str]:
        """Return the rate that is suggested, and how long the busiest link takes."""
        if not self.bytes_over_busiest_link:
            return []
        busiest = format_bytes(self.bytes_over_busiest_link)
        suggested, lines = self.suggested_rate_bytes_per_second, []
        if suggested is not None:
            lines.append(
                f"suggested rate: {format_rate(suggested)}, which leaves room for clients on "
                "every link"
            )
        if self.rate_bytes_per_second is None:
            lines.append(
                f"busiest link: {busiest} into or out of one broker; --rate 50MB/s shows how long "
                "that takes"
            )
        else:
            lines.append(
                f"takes about {self.expected_time} at {self.rate}: {busiest} into or out of the "
                "busiest broker"
            )
        return lines

    @property
    def changes_in_words(self) -> list[str]:
        """Return what the plan does besides copying: leaders, racks, coordinators."""
        leaders = self.leader_changes
        words = (
            f"{leaders or 'no'} leader changes" if leaders < 2 else f"{leaders:,} leaders change"
        )
        if self.bytes_across_racks:
            words += (
                f"; {format_bytes(self.bytes_across_racks)} go from rack to rack (between zones "
                "that costs money)"
            )
        return [words, *(topic.in_words for topic in self.coordinators)]

    @property
    def deferred_in_words(self) -> str:
        """Return what the budget leaves for a later plan; "" where it leaves nothing."""
        if not self.left.partitions:
            return ""
        return (
            f"the budget leaves for a later plan: {pluralize(self.left.partitions, 'partition')}, "
            f"{pluralize(self.left.replicas, 'replica')}, {format_bytes(self.left.bytes)}; "
            "plan again when this one is done"
        )

    @property
    def all_warnings(self) -> list[str]:
        """Return also those about the rate."""
        own = (self.rate_warning, self.limit_warning)
        return [warning for warning in (*own, *self.warnings) if warning]

    @property
    def all_notes(self) -> list[str]:
        """Return also what the budget leaves."""
        return [note for note in (self.deferred_in_words, *self.notes) if note]

    @property
    def measures(self) -> list[Measure]:
        figures = self.brokers_before_and_after
        return [measure for measure in MEASURES if measure.is_known(figures)]

    @property
    def evenness(self) -> list[tuple[str, str, str, str]]:
        """Return rows of a measure's title, and its span before, after and at best."""
        return [
            (m.title, m.span_in_words(s.before), m.span_in_words(s.after), m.span_in_words(s.best))
            for m in MEASURES
            if (s := self.per_broker.get(m.field))
        ]

    @property
    def costs(self) -> list[Cost]:
        bound, over = self.lower_bound, self.over_lower_bound
        costs = [
            _cost("Bytes copied", format_bytes, self.copied_bytes, bound.bytes, over.bytes),
            _cost(
                "Replicas copied", format_count, self.copied_replicas, bound.replicas, over.replicas
            ),
        ]
        if leaders := self.per_broker.get("leaders"):
            after, best = leaders.after.max_minus_min, bound.leaders_max_minus_min
            # The bound is of the topics that the plan evens out, the span of all that brokers lead.
            if leaders.best.max_minus_min <= best + 1:
                costs.append(_cost("Leaders, max − min", format_count, after, best))
        return costs

    @property
    def shown_brokers(self) -> tuple[Sequence[BrokerFigure], Sequence[BrokerFigure]]:
        """Return the brokers to show, and the others."""
        return brokers_to_show(self.brokers_before_and_after)

    @property
    def other_brokers_in_words(self) -> str:
        """Return `leaders 12 to 14 → 13; replicas ...`."""
        _, others = self.shown_brokers
        return "; ".join(m.change_in_words(others) for m in MEASURES if m.is_known(others))

    @property
    def move_reasons(self) -> dict[str, str]:
        """Return the reasons that the moves have, and their words."""
        return {why: MOVE_REASON_TEXTS[why] for why in sorted(self.moves_by_why)}

    @staticmethod
    def fullest(figure: BrokerFigure) -> str:
        """Return what is on its disks at most, while new copies arrive: `1.2 TB, 61 %`."""
        share = figure.peak_share
        percent = "" if share is None else f", {share * 100:.0f} %"
        return f"{format_bytes(figure.peak_used_bytes)}{percent}"


def goal_title(plan: RebalancePlan) -> str:
    """Return `Add brokers 4, 5`."""
    if plan.undoes:
        return "Undo of a run"
    title = _TITLES[plan.goal]
    if plan.replication_factor is not None:
        return f"{title} to {plan.replication_factor}"
    if not plan.broker_ids:
        return title
    by = f" by {list_brokers(plan.new_broker_ids)}" if plan.new_broker_ids else ""
    return f"{title} {list_brokers(plan.broker_ids)}{by}"


def goal_in_words(plan: RebalancePlan | PlanView) -> str:
    """Return `add-brokers 4, 5`, `replace-brokers 3=9`, or `undo`."""
    if plan.undoes:
        return "undo"
    brokers: Sequence[object] = plan.brokers if isinstance(plan, PlanView) else plan.broker_ids
    if plan.new_broker_ids:
        pairs = zip(brokers, plan.new_broker_ids, strict=False)
        brokers = [f"{old}={new}" for old, new in pairs]
    return f"{plan.goal} {join_ids(brokers)}".rstrip()


def _over(plan: RebalancePlan, actual: int, bound: int) -> float | None:
    is_comparable = not plan.deferred.partitions and bound and actual >= bound
    return actual / bound if is_comparable else None


def _cost(
    name: str, unit: Callable[[float], str], planned: int, bound: int, over: float | None = None
) -> Cost:
    return Cost(name, unit(planned), unit(bound), "" if over is None else f"{over:.3f} ×")


def _coordinators(moves: MoveColumns) -> tuple[CoordinatorTopic, ...]:
    counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for index, topic in enumerate(moves.topics):
        if topic in COORDINATOR_TOPICS:
            counts[topic][0] += bool(moves.adding[index])
            counts[topic][1] += moves.changes_leader[index]
    return tuple(CoordinatorTopic(topic, *row) for topic, row in sorted(counts.items()))


# -- Brokers


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


# -- Moves


class MoveView(Struct, frozen=True):
    """One move; the first replica is the preferred leader."""

    partition: str  # orders-3
    what: str  # elect, copy, remove or reorder
    replicas_before: tuple[int, ...]
    replicas_after: tuple[int, ...]
    copied_bytes: int | None  # None: it copies nothing
    why: str  # evens traffic by 36.0 MB/s

    @classmethod
    def of(cls, move: Move, *, is_undo: bool = False) -> Self:
        return cls(
            str(move.topic_partition),
            _what(move),
            move.replicas_before,
            move.replicas_after,
            move.copied_bytes if move.adding else None,
            _GOES_BACK if is_undo else _why(move),
        )


class LargestMoves(Struct, frozen=True):
    """The moves that copy most, and the others counted."""

    moves: tuple[MoveView, ...]
    others: dict[str, MoveCounts]  # by their reason in words

    @classmethod
    def of(cls, plan: RebalancePlan, max_shown: int) -> Self:
        moves = plan.columns
        largest = nsmallest(max_shown, moves.by_name, key=lambda index: -moves.copied_bytes[index])
        shown = set(largest)
        others = [move for index, move in enumerate(plan.moves) if index not in shown]
        counts = _moves_by_why(MoveColumns.of(others))
        return cls(
            _shown(plan, largest),
            {MOVE_REASON_TEXTS[why]: count for why, count in counts.items()},
        )


@dataclass(frozen=True, slots=True)
class MoveSearch:
    """What somebody looks for; what names nothing that there is finds nothing."""

    text: str = ""  # part of a partition's name, like `orders` or `orders-12`
    broker: str = ""  # an id: of a replica before or after
    why: str = ""  # a MoveReason
    sort: str = MOVE_SORTS[0]
    page: int = 1


class FoundMoves(Struct, frozen=True):
    moves: tuple[MoveView, ...]  # of this page
    count: int  # of all that were found
    page: int  # from 1, the last one where fewer were asked for
    pages: int


def find_moves(plan: RebalancePlan, search: MoveSearch) -> FoundMoves:
    """Return one page of the moves that somebody looks for."""
    moves = plan.columns
    found = _meant(moves, search)
    if search.sort != "topic":
        found.sort(key=moves.copied_bytes.__getitem__, reverse=True)
    if search.sort == "why":
        found.sort(key=moves.reasons.__getitem__)
    pages = max(1, -(-len(found) // MOVES_ON_A_PAGE))
    page = min(max(1, search.page), pages)
    first = (page - 1) * MOVES_ON_A_PAGE
    shown = found[first : first + MOVES_ON_A_PAGE]
    return FoundMoves(_shown(plan, shown), len(found), page, pages)


def _shown(plan: RebalancePlan, indexes: Sequence[int]) -> tuple[MoveView, ...]:
    is_undo = bool(plan.undoes)
    return tuple(MoveView.of(plan.columns[index], is_undo=is_undo) for index in indexes)


def _meant(moves: MoveColumns, search: MoveSearch) -> list[int]:
    """Return the indexes of the moves that somebody looks for, by topic and partition."""
    found = list(moves.by_name)
    if text := search.text.strip().lower():
        names = map("{}-{}".format, moves.topics, moves.partitions)
        is_named = [text in name.lower() for name in names]
        found = [index for index in found if is_named[index]]
    if search.why:
        found = [index for index in found if moves.reasons[index] == search.why]
    if broker := search.broker.strip():
        replicas = zip(moves.replicas_before, moves.replicas_after, strict=True)
        is_there = [broker in map(str, {*before, *after}) for before, after in replicas]
        found = [index for index in found if is_there[index]]
    return found


def _moves_by_why(moves: MoveColumns) -> dict[MoveReason, MoveCounts]:
    """Return the moves counted by what they serve, most bytes first."""
    counts: defaultdict[MoveReason, list[int]] = defaultdict(lambda: [0, 0, 0])
    for why, adding, copied_bytes in zip(
        moves.reasons, moves.adding, moves.copied_bytes, strict=True
    ):
        row = counts[why]
        row[0] += 1
        row[1] += len(adding)
        row[2] += copied_bytes
    most_first = sorted(counts.items(), key=lambda item: (-item[1][2], -item[1][0], item[0]))
    return {why: MoveCounts(*row) for why, row in most_first}


def _what(move: Move) -> str:
    if move.replicas_before == move.replicas_after:
        return "elect"
    return "copy" if move.adding else "remove" if move.removing else "reorder"


def _why(move: Move) -> str:
    """Return what a move is for: `evens traffic by 36.0 MB/s`."""
    text = MOVE_REASON_TEXTS[move.why]
    if move.traffic_gain is None:
        return text
    if not move.traffic_gain:
        return f"{text}, in exchange"
    return f"{text} by {format_rate(move.traffic_gain)}"
