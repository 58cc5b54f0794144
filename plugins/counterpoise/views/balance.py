"""What the newest analysis found of a cluster: the report for programs, and what its page shows.

    text = leader_balance_json(balance, load=load, wanted=wanted)    # reports/orders-eu/...json
    read_balance(text, where=path).help_in_words

One value is written and read again: a field that is added here is in both.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, Self

import msgspec
from msgspec import Struct, field

from counterpoise.errors import InputError
from counterpoise.model.balance import (
    Churn,
    ClusterEvent,
    Flapping,
    HeatMap,
    LeaderBalance,
    LeftOut,
    PlanSize,
    RackBalance,
    SnapshotChanges,
    TopicLeaderSkew,
    TopicSkewOverTime,
    WantedRebalance,
)
from counterpoise.model.evenness import Evenness
from counterpoise.model.load import ClusterLoad, Rates
from counterpoise.model.safe_text import for_json
from counterpoise.model.words import capitalized, list_brokers, pluralize
from counterpoise.units import format_bytes, format_rate, format_seconds
from counterpoise.views import as_document, view_of

FORMAT: Final = "counterpoise-leader-balance/2"


class RackSpread(Struct, frozen=True):
    """Sums over the live brokers of a rack."""

    broker_count: int
    minimum: int
    maximum: int
    total: int


class Spread(RackSpread, frozen=True):
    """How a measure is spread over the live brokers; what `Evenness` has, and what follows."""

    max_minus_min: int
    best_max_minus_min: int
    max_over_mean: float
    coefficient_of_variation: float


class RackMoment(Struct, frozen=True):
    rack: str | None
    leaders: RackSpread


class Moment(Struct, frozen=True, kw_only=True):
    """One snapshot."""

    snapshot_id: str
    observed_at: datetime
    live_brokers: int
    share_not_preferred: float  # 0.0 to 1.0
    leaders: Spread
    preferred_leaders: Spread
    replicas: Spread
    bytes: Spread
    bytes_in: Spread | None  # per second, as leader
    racks: tuple[RackMoment, ...]
    changes: SnapshotChanges | None


class Latest(Moment, frozen=True, kw_only=True):
    live_broker_ids: tuple[int, ...]


class BrokerFigures(Struct, frozen=True):
    broker_id: int
    rack: str | None
    is_fenced: bool
    is_idle: bool
    leaders: int
    preferred_leaders: int
    leaders_not_preferred: int
    replicas: int
    bytes: int


class Period(Struct, frozen=True):
    begin: datetime = field(name="from")
    until: datetime
    snapshots: int

    @classmethod
    def of(cls, balance: LeaderBalance) -> Self:
        series = balance.series
        return cls(series[0].observed_at, balance.latest.observed_at, len(series))


class LoadBefore(Struct, frozen=True):
    since: datetime
    observed_at: datetime
    snapshot_count: int
    bytes_in: Rates
    replicated_in: Rates
    leaders: Evenness | None
    bytes_per_day: int | None


class Before(Struct, frozen=True, kw_only=True):
    """The period before."""

    period: Period
    latest: Moment
    churn: Churn
    brokers: tuple[BrokerFigures, ...]
    load: LoadBefore | None


class BalanceDocument(Struct, frozen=True, kw_only=True):
    """Sizes in bytes, rates in bytes per second, shares 0.0 to 1.0; None is not known."""

    format: str
    cluster: str
    period: Period
    before: Before | None
    latest: Latest
    brokers: tuple[BrokerFigures, ...]
    racks: tuple[RackBalance, ...]
    topics: tuple[TopicLeaderSkew, ...] = field(name="topics_that_lean")
    topic_count: int
    topics_at: datetime
    skewed_topic_count: int = field(name="leaning_topic_count")
    series: tuple[Moment, ...]  # oldest first
    breaks_before: tuple[str, ...]  # snapshots before which a gap lies, or another cluster
    events: tuple[ClusterEvent, ...]
    churn: Churn
    topic_skew: TopicSkewOverTime | None
    flapping: Flapping | None
    load: ClusterLoad | None  # without what charts show over time
    heat_maps: tuple[HeatMap, ...]
    wanted: WantedRebalance | None
    not_proposed: str | None
    plan_size: PlanSize | None
    left_out: tuple[LeftOut, ...]

    @property
    def without_snapshots(self) -> Self:
        """Return the same without what it has of each snapshot, which is most of it."""
        return msgspec.structs.replace(self, series=(), breaks_before=(), heat_maps=())

    @property
    def dead_brokers(self) -> list[int]:
        return [broker.broker_id for broker in self.brokers if broker.is_fenced]

    @property
    def size_in_words(self) -> str:
        """Return `9 brokers on 3 racks, 960 partitions of 50 topics`."""
        racks = {broker.rack for broker in self.brokers if broker.rack is not None}
        on_racks = f" on {pluralize(len(racks), 'rack')}" if racks else ""
        changes = self.latest.changes
        partitions = changes.partitions if changes else self.latest.leaders.total
        return (
            f"{pluralize(len(self.brokers), 'broker')}{on_racks}, "
            f"{pluralize(partitions, 'partition')} of {pluralize(self.topic_count, 'topic')}"
        )

    @property
    def help_in_words(self) -> str:
        """Return what would help, in a sentence or two; "" where nothing is wanted."""
        sentences = []
        if self.dead_brokers:
            sentences.append(f"bring {list_brokers(self.dead_brokers)} back first.")
        if self.wanted and self.plan_size:
            size = self.plan_size
            what = (
                f"copies {format_bytes(size.bytes_copied)}"
                if size.bytes_copied
                else "copies nothing"
            )
            sentences.append(
                f"a plan with the goal {self.wanted.goal} {what} and takes about "
                f"{format_seconds(size.expected_seconds)} at "
                f"{format_rate(size.rate_bytes_per_second)}: {self.wanted.reason}."
            )
        elif self.wanted:
            sentences.append(f"a plan with the goal {self.wanted.goal}: {self.wanted.reason}.")
        if self.wanted and self.not_proposed:
            sentences.append(f"{self.not_proposed}.")
        first, *others = sentences or [""]
        return " ".join([first, *map(capitalized, others)])


def leader_balance_json(
    balance: LeaderBalance,
    *,
    wanted: WantedRebalance | None = None,
    not_proposed: str = "",
    load: ClusterLoad | None = None,
    plan_size: PlanSize | None = None,
    left_out: Sequence[LeftOut] = (),
) -> str:
    """Return one JSON object with sorted keys."""
    document = view_of(
        BalanceDocument,
        balance,
        format=FORMAT,
        period=Period.of(balance),
        before=_before(balance.before, load.before if load else None),
        breaks_before=[balance.series[at].snapshot_id for at in balance.breaks],
        wanted=wanted,
        not_proposed=not_proposed or None,
        load=replace(load, before=None) if load else None,
        plan_size=plan_size,
        left_out=tuple(left_out),
    )
    content = as_document(document)
    for part, over_time in (("disks", "held"), ("racks", "trace")) if load else ():
        for one in content["load"][part]:
            del one[over_time]
    return for_json(content) + "\n"


def _before(balance: LeaderBalance | None, load: ClusterLoad | None) -> Before | None:
    if balance is None:
        return None
    return view_of(Before, balance, period=Period.of(balance), load=load)


_DECODER: Final = msgspec.json.Decoder(BalanceDocument)


def read_balance(text: str, *, where: str) -> BalanceDocument:
    """Return the document again. Raises InputError for a text that is none."""
    try:
        return _DECODER.decode(text)
    except msgspec.MsgspecError as error:
        raise InputError(f"{where} is no balance report: {error}") from None
