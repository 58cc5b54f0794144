"""Events in words: a sentence, and how many things it is about.

event_in_words(event) == "broker 4 joined"
"""

from typing import Final

from counterpoise.model.balance import ClusterEvent, EventKind
from counterpoise.model.words import list_brokers, pluralize
from counterpoise.units import format_seconds

ALERTS: Final = frozenset(
    {EventKind.DIED, EventKind.FAILOVER, EventKind.GAP, EventKind.REBUILT, EventKind.LEFT}
)
_UNITS: Final = {
    EventKind.FAILOVER: "partition",
    EventKind.ELECTION: "partition",
    EventKind.LEADERS_MOVED: "partition",
    EventKind.REASSIGNMENT: "partition",
    EventKind.TOPICS_DELETED: "topic",
    EventKind.TOPICS_RECREATED: "topic",
    EventKind.GAP: "snapshot",
}


def event_in_words(event: ClusterEvent) -> str:
    """Return a sentence without its full stop.

    Names of racks come from the cluster: escape the result.
    """
    under_way = ", still under way" if event.is_under_way else ""
    who = list_brokers(event.broker_ids)
    sentences = {
        EventKind.JOINED: f"{who} joined",
        EventKind.REACHED_SHARE: f"{who} reached 90 % of the mean replicas{_after(event)}",
        EventKind.RETURNED: f"{who} returned",
        EventKind.DIED: f"{who} died",
        EventKind.LEFT: f"{who} left",
        EventKind.RESTARTED: f"{who} lost nearly all leaders and lives: probably restarted",
        EventKind.FAILOVER: "failover: the leader died or fell behind",
        EventKind.ELECTION: "preferred leaders lead again",
        EventKind.LEADERS_MOVED: "leaders moved, though the old ones live and are in sync",
        EventKind.REASSIGNMENT: f"moved to other brokers{under_way}",
        EventKind.RACK: f"{who}: rack {_rack(event.rack_before)} is now {_rack(event.rack)}",
        EventKind.TOPICS_DELETED: "topics deleted",
        EventKind.TOPICS_RECREATED: "topics deleted and created again",
        EventKind.GAP: f"no snapshot for {format_seconds(event.seconds or 0)}",
        EventKind.REBUILT: "another cluster under the same name; not compared with the one before",
    }
    return sentences[event.kind]


def how_many(event: ClusterEvent) -> str:
    """Return `12 partitions`; for a gap, about how many snapshots are missing."""
    unit = _UNITS.get(event.kind, "broker")
    about = "about " if event.kind is EventKind.GAP else ""
    return f"{about}{pluralize(event.count, unit)}"


def _after(event: ClusterEvent) -> str:
    return (
        f", {format_seconds(event.seconds)} after joining"
        if event.seconds
        else ", in the snapshot in which it joined"
    )


def _rack(name: str | None) -> str:
    return "(none)" if name is None else name
