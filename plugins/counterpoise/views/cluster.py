"""What people see of one cluster: its head, its overview, its settings, and its audits in numbers.

head = ClusterHead(...)                          # above every tab of the cluster's page
as_document(ClusterView.of(found))     # GET /api/clusters/NAME
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Self

from msgspec import Struct, field

from counterpoise.model.balance import EventKind, SnapshotChanges
from counterpoise.model.control import ControlRequest
from counterpoise.model.load import ClusterLoad, Outlook
from counterpoise.model.words import capitalized, list_brokers
from counterpoise.reporting.event_words import ALERTS, event_in_words
from counterpoise.reporting.plots import BarChart, LineChart, bar_chart, line_chart
from counterpoise.settings import PolicyRow
from counterpoise.units import format_count, format_rate
from counterpoise.views import view_of
from counterpoise.views.balance import BalanceDocument, Moment
from counterpoise.views.fleet import AuditCounts, FleetRow, FreezeView
from counterpoise.views.run import RunView, WaitingRunView

if TYPE_CHECKING:
    from counterpoise.services.fleet import ClusterNow

_WEEK: Final = timedelta(days=7)
_EVENTS_SHOWN: Final = 4


class KeptEmptyView(Struct, frozen=True):
    """A broker that gets nothing until somebody releases it."""

    broker_id: int
    who: str = field(name="by")
    why: str
    at: datetime = field(name="since")


class ConnectionView(Struct, frozen=True):
    connection_id: str = field(name="id")
    work: str  # what it is for
    settings: dict[str, str]  # without what may be secret


class ClusterView(Struct, frozen=True, kw_only=True):
    """One cluster as it is now, for the JSON API."""

    name: str = field(name="cluster")
    cluster_id: str
    snapshot_age_seconds: float | None
    audit: AuditCounts | None
    audit_unreadable: str | None  # the path of the newest audit's file
    runs: tuple[RunView, ...]  # the newest
    waiting: tuple[WaitingRunView, ...]
    freeze: FreezeView | None
    kept_empty: tuple[KeptEmptyView, ...]
    connections: tuple[ConnectionView, ...]
    policy: tuple[PolicyRow, ...]
    downloads: tuple[str, ...] = field(name="reports")
    balance: BalanceDocument | None  # the newest, without its snapshots
    ledger_away: str | None

    @classmethod
    def of(cls, found: "ClusterNow") -> Self:
        head = found.head
        return view_of(
            cls,
            found,
            head,
            snapshot_age_seconds=head.row.age_seconds,
            audit=AuditCounts.of(head.row.audit) if head.row.audit else None,
            audit_unreadable=head.row.unreadable_audit,
            connections=[
                {"id": one.connection_id, "work": one.work, "settings": dict(one.settings)}
                for one in found.connections
            ],
            balance=head.balance.without_snapshots if head.balance else None,
            ledger_away=head.ledger_away or None,
        )


# -- the head, and the overview


class ClusterHead(Struct, frozen=True, kw_only=True):
    """What stands above every tab."""

    name: str
    row: FleetRow
    balance: BalanceDocument | None  # None: no analysis yet, or it cannot be read
    snapshot_at: datetime | None
    may_propose: bool
    why_not_operate: str  # why the viewer may not freeze the cluster; "" where they may
    freeze: ControlRequest | None
    kept_empty: tuple[ControlRequest, ...]  # by broker
    waiting: tuple[WaitingRunView, ...]
    finding_count: int | None  # open ones
    run_count: int | None
    ledger_away: str

    @property
    def help_in_words(self) -> str:
        return self.balance.help_in_words if self.balance else ""


class TileView(Struct, frozen=True):
    """One figure; `kind` and `icon` mark a note that needs attention."""

    name: str
    value: str
    unit: str = ""
    note: str = ""
    kind: str = ""
    icon: str = ""


class Overview(Struct, frozen=True):
    """The first tab: six figures and two charts; what is not known is named once."""

    tiles: tuple[TileView, ...]
    not_known: tuple[str, ...]  # names of the figures that are not known
    bytes_in: LineChart | None
    has_week_before: bool
    leaders: BarChart
    has_leaders_before: bool

    @classmethod
    def of(cls, balance: BalanceDocument) -> Self:
        tiles = dict(_tiles(balance))
        week = _bytes_in(balance)
        return cls(
            tiles=tuple(tile for tile in tiles.values() if tile),
            not_known=tuple(name for name, tile in tiles.items() if tile is None),
            bytes_in=week,
            has_week_before=bool(week and len(week.lines) > 1),
            leaders=_leaders(balance),
            has_leaders_before=bool(balance.before and balance.before.brokers),
        )


def _tiles(balance: BalanceDocument) -> Iterable[tuple[str, TileView | None]]:
    """Yield each figure by its name; None is not known."""
    latest, load, dead = balance.latest, balance.load, balance.dead_brokers
    count = len(balance.brokers)
    alert = ("bad", "off") if dead else ("", "")
    note = (
        f"{list_brokers(dead)} {'is' if len(dead) == 1 else 'are'} down" if dead else "all are up"
    )
    live = TileView(
        "Live brokers", format_count(count - len(dead)), f"of {format_count(count)}", note, *alert
    )
    yield live.name, live
    yield "Under-replicated", _under_replicated(latest.changes)
    most = latest.leaders
    mean = -(-most.total // max(1, count - len(dead)))
    busiest = max(balance.brokers, key=lambda broker: broker.leaders, default=None)
    note = f"broker {busiest.broker_id}; fair share {format_count(mean)}" if busiest else ""
    yield "Most leaders", TileView("Most leaders", format_count(most.maximum), "", note)
    yield "Most bytes in", _most_bytes_in(load)
    yield "Fullest disk", _fullest_disk(load)
    yield "Bytes in", _bytes_in_now(balance)


def _under_replicated(changes: SnapshotChanges | None) -> TileView | None:
    if changes is None:
        return None
    under, offline = changes.under_replicated_partitions, changes.offline_partitions
    note, alert = "all replicas are in sync", ("", "")
    if under:
        note, alert = "replicas are missing or behind", ("warn", "warn")
    if offline:
        note, alert = f"{format_count(offline)} have no leader", ("bad", "off")
    of_all = f"of {format_count(changes.partitions)}"
    return TileView("Under-replicated", format_count(under), of_all, note, *alert)


def _most_bytes_in(load: ClusterLoad | None) -> TileView | None:
    if load is None or load.leaders is None:
        return None
    busiest = max(load.brokers, key=lambda one: one.as_leader.now or 0)
    note = f"broker {busiest.broker_id}: {format_rate(busiest.as_leader.now or 0)}"
    return TileView("Most bytes in", f"{load.leaders.max_over_mean:.2f}", "× mean", note)


def _fullest_disk(load: ClusterLoad | None) -> TileView | None:
    known = [disk for disk in load.disks if disk.used_share is not None] if load else []
    if not known:
        return None
    fullest = max(known, key=lambda disk: disk.used_share or 0.0)
    first = known[0] if known[0].outlook is Outlook.FILLS else fullest
    alert = ("bad", "stop") if first.is_full_soon else ("", "")
    note = first.in_words if first is fullest else f"broker {first.broker_id}: {first.in_words}"
    if first.outlook is Outlook.NOT_KNOWN:
        note = "when it is full is not known"
    share = (fullest.used_share or 0.0) * 100
    of_broker = f"% of broker {fullest.broker_id}"
    return TileView("Fullest disk", f"{share:.0f}", of_broker, note, *alert)


def _bytes_in_now(balance: BalanceDocument) -> TileView | None:
    rate = balance.load.bytes_in if balance.load else None
    if rate is None or rate.now is None:
        return None
    value, _, unit = format_rate(rate.now).partition(" ")
    week_ago = _at(balance.series, balance.latest.observed_at - _WEEK)
    note = "from producers"
    if week_ago and week_ago.bytes_in and week_ago.bytes_in.total:
        change = rate.now / week_ago.bytes_in.total - 1
        more = "more" if change >= 0 else "less"
        note = f"{abs(change) * 100:.0f} % {more} than a week ago"
    return TileView("Bytes in", f"{'≥ ' if rate.is_at_least else ''}{value}", unit, note)


def _at(series: tuple[Moment, ...], then: datetime) -> Moment | None:
    """Return the snapshot nearest to a time; None where the series begins later."""
    if not series or series[0].observed_at > then:
        return None
    return min(series, key=lambda moment: abs(moment.observed_at - then))


def _bytes_in(balance: BalanceDocument) -> LineChart | None:
    """Return the bytes in of the last seven days, and of the seven before; None: not known."""
    end = balance.latest.observed_at
    begin = max(end - _WEEK, balance.series[0].observed_at) if balance.series else end
    rates = _rates(balance)
    week = [(at, rate) for at, rate in rates if at >= begin]
    if len(week) < 2 or not any(rate is not None for _, rate in week):
        return None
    earlier = [(at + _WEEK, rate) for at, rate in rates]
    before = [(at, rate) for at, rate in earlier if begin <= at <= end]
    lines = [("l1", week)] + ([("dash fair", before)] if len(before) > 1 else [])
    events = [event for event in balance.events if event.first_at >= begin][-_EVENTS_SHOWN:]
    now = week[-1][1]
    return line_chart(
        "Bytes in",
        format_rate,
        begin,
        end,
        lines,
        is_filled=True,
        events=[
            (
                event.first_at,
                str(number),
                f"{event.first_at:%a %H:%M} {capitalized(event_in_words(event))}.",
                "bad" if event.kind in ALERTS else "",
            )
            for number, event in enumerate(events, start=1)
        ],
        lead="" if now is None else f"now {format_rate(now)}",
    )


def _rates(balance: BalanceDocument) -> list[tuple[datetime, float | None]]:
    """Return the bytes in at each snapshot; None where they are not known, and in a gap."""
    known = [
        (moment.observed_at, None if moment.bytes_in is None else float(moment.bytes_in.total))
        for moment in balance.series
    ]
    gaps = [event for event in balance.events if event.kind is EventKind.GAP]
    in_gaps = [(event.first_at + (event.last_at - event.first_at) / 2, None) for event in gaps]
    return sorted([*known, *in_gaps], key=lambda point: point[0])


def _leaders(balance: BalanceDocument) -> BarChart:
    ids = [broker.broker_id for broker in balance.brokers]
    live = len(ids) - len(balance.dead_brokers)
    fair = balance.latest.leaders.total / max(1, live)
    before = balance.before.brokers if balance.before else ()
    was = {broker.broker_id: broker.leaders for broker in before}
    return bar_chart(
        "Leaders",
        format_count,
        ids,
        was=[was.get(broker_id) for broker_id in ids] if was else None,
        now=[broker.leaders for broker in balance.brokers],
        best=[0 if broker.is_fenced else fair for broker in balance.brokers],
        words=("in the period before", "now", ""),
        marks=dict.fromkeys(balance.dead_brokers, ("down", "down")),
        racks={broker.broker_id: broker.rack for broker in balance.brokers},
        lead=f"{format_count(balance.latest.leaders.minimum)} to "
        f"{format_count(balance.latest.leaders.maximum)}, fair share {fair:.0f}",
    )
