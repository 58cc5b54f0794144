"""What happened to a cluster between its snapshots: the values that `analysis` finds and
`reporting` shows.

    ClusterEvent(EventKind.JOINED, NOON, NOON, "demo-3", 1, broker_ids=(4,))

An event is known by the first snapshot that shows it; it happened between that one and the one
before.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final


class EventKind(StrEnum):
    """In the order in which pages name them."""

    JOINED = "joined"  # a broker that was not registered before
    REACHED_SHARE = "reached-share"  # a broker that joined holds nearly its share of replicas
    RETURNED = "returned"  # a broker that was dead, or gone, lives again
    DIED = "died"  # registered, but fenced
    LEFT = "left"  # no longer registered
    RESTARTED = "restarted"  # a live broker that lost nearly all of its leaders
    FAILOVER = "failover"
    ELECTION = "election"  # many preferred leaders at once
    LEADERS_MOVED = "leaders-moved"  # many, from brokers that are alive and in sync
    REASSIGNMENT = "reassignment"  # partitions on other brokers than before
    RACK = "rack"  # brokers that name another rack than before
    TOPICS_DELETED = "topics-deleted"
    TOPICS_RECREATED = "topics-recreated"
    GAP = "gap"  # no snapshot for long
    REBUILT = "rebuilt"  # another cluster under the same name


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """`count` is of brokers, of partitions (failover, election, leaders moved, reassignment), of
    topics, or of missing snapshots.
    """

    kind: EventKind
    first_at: datetime  # UTC; of a gap the last snapshot before it
    # of a gap the first snapshot after it; else later only where it went on over several snapshots
    last_at: datetime
    snapshot_id: str  # the first one that shows it
    count: int
    broker_ids: tuple[int, ...] = ()
    seconds: float | None = None  # that it took: a share to be reached, a gap
    rack_before: str | None = None
    rack: str | None = None
    is_under_way: bool = False  # a reassignment that the newest snapshot still sees


@dataclass(frozen=True, slots=True)
class SnapshotChanges:
    """A row of SNAPSHOT_CHANGES: one snapshot, and what became of the cluster since the snapshot
    before.
    """

    is_rebuilt: bool
    seconds: float | None  # since the snapshot before
    partitions: int
    offline_partitions: int
    under_replicated_partitions: int
    reassigning_partitions: int
    leaders_changed: int
    failovers: int
    preferred_elections: int
    leader_epochs: int
    replica_sets_changed: int
    topics_created: int
    topics_deleted: int
    topics_recreated: int
    # None where they were not counted
    leaders_reassigned: int | None = None
    leaders_returned: int | None = None
    uneven_topics: int | None = None  # led less evenly than whole partitions allow

    @property
    def epochs_unseen(self) -> int:
        """Return elections that no snapshot saw: epochs that passed, less one for each leader that
        changed.
        """
        return max(0, self.leader_epochs - self.leaders_changed)


@dataclass(frozen=True, slots=True)
class Churn:
    """The changes of a period, summed over its snapshots."""

    snapshots: int  # whose changes are known
    snapshots_not_known: int  # not compared, or compared with a snapshot that is no longer kept
    leaders_changed: int = 0
    failovers: int = 0
    preferred_elections: int = 0
    epochs_unseen: int = 0
    replica_sets_changed: int = 0
    topics_created: int = 0
    topics_deleted: int = 0
    topics_recreated: int = 0
    # None where they are not known of all of the snapshots
    leaders_reassigned: int | None = 0
    leaders_returned: int | None = 0

    @property
    def leaders_moved_otherwise(self) -> int | None:
        """Return leader changes that were no failover, preferred election or reassignment."""
        if self.leaders_reassigned is None:
            return None
        known_kinds = self.failovers + self.preferred_elections + self.leaders_reassigned
        return self.leaders_changed - known_kinds


NO_CHURN: Final = Churn(0, 0)
