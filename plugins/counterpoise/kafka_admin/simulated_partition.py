"""One partition of a simulated cluster: what Kafka's controller does with its replicas.

    partition = SimulatedPartition(replicas=(1, 2, 3), isr={1, 2, 3}, leader=1, size_bytes=1000)
    partition.reassign((4, 2, 3), registered={1, 2, 3, 4})  # replicas are (4, 2, 3, 1) now: the union, target first

The rules are those of `ReplicationControlManager`, `PartitionReassignmentReplicas` and
`PartitionReassignmentRevert` of Kafka 4.3, oddities included: a cancelled move leaves another
order; going back to the old set while a replica is being added never ends; a move that was given
another target, and then cancelled, leaves one replica too many. Completion waits for every target
replica, as before KAFKA-16218 was mended: the slower case.

Limits: copies are whole when they are as long as the leader's; there are no offsets or epochs of
records.
"""

from collections.abc import Collection
from dataclasses import dataclass, field


@dataclass(slots=True)
class SimulatedPartition:
    replicas: tuple[int, ...]
    isr: set[int]
    leader: int | None
    size_bytes: float
    bytes_in_per_second: float = 0.0
    leader_epoch: int = 0
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    copied: dict[int, float] = field(default_factory=dict)  # bytes that replicas out of sync have

    @property
    def is_moving(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(b for b in self.replicas if b not in self.removing)

    def bytes_on(self, broker_id: int) -> int:
        """Of the copy on that broker; a copy that is complete is as long as the leader's."""
        return int(self.size_bytes if broker_id in self.isr else self.copied.get(broker_id, 0.0))

    def reassign(
        self, target: tuple[int, ...], registered: Collection[int], *, may_resize: bool = False
    ) -> str:
        """Start, or change, a reassignment; "" or the refusal. As with Kafka, fenced brokers are
        accepted.

        Without `may_resize` the number of replicas is guarded (KIP-860).
        """
        if complaint := self._complaint(target, registered):
            return complaint
        if not may_resize and len(self.target) != len(target):
            return (
                "INVALID_REPLICATION_FACTOR: The replication factor is changed from "
                f"{len(self.target)} to {len(target)}"
            )
        removing = tuple(sorted(set(self.replicas) - set(target)))
        adding = tuple(sorted(set(target) - set(self.replicas)))
        for broker_id in adding:
            self.copied[broker_id] = 0.0
        self.replicas = target + removing
        # An empty list is not written to the change record, so the earlier one stays: this is how
        # going back hangs.
        self.removing = removing or self.removing
        self.adding = adding or self.adding
        return ""

    def _complaint(self, target: tuple[int, ...], registered: Collection[int]) -> str:
        assigned = "INVALID_REPLICATION_ASSIGNMENT: The manual partition assignment includes"
        if not target:
            return "INVALID_REPLICATION_ASSIGNMENT: The manual partition assignment includes an empty replica list."
        for broker_id in target:
            if broker_id not in registered:
                return f"{assigned} broker {broker_id}, but no such broker is registered."
            if target.count(broker_id) > 1:
                return f"{assigned} the broker {broker_id} more than once."
        return ""

    def cancel(self, live: Collection[int]) -> str:
        """Take out what was being added, keep what was being removed; "" or the controller's
        refusal.
        """
        if not self.is_moving:
            return "NO_REASSIGNMENT_IN_PROGRESS"
        kept = tuple(b for b in self.replicas if b not in self.adding)
        if not kept or not self.isr.intersection(kept):
            return "INVALID_REPLICA_ASSIGNMENT: reverting would need an unclean leader election"
        self._settle_on(kept, live)
        return ""

    def complete_if_ready(self, live: Collection[int]) -> bool:
        """End the reassignment once every target replica is in sync."""
        hangs = set(self.adding) & set(self.removing)
        if not self.is_moving or hangs or not self.isr.issuperset(self.target):
            return False
        self._settle_on(self.target, live)
        return True

    def _settle_on(self, replicas: tuple[int, ...], live: Collection[int]) -> None:
        self.replicas = replicas
        self.adding = self.removing = ()
        self.isr.intersection_update(replicas)
        self.copied = {b: size for b, size in self.copied.items() if b in replicas}
        self.find_leader(live)

    def find_leader(self, live: Collection[int]) -> None:
        """Keep the leader if it may lead, else take the first in-sync live replica; none if there
        is none.
        """
        able = [b for b in self.replicas if b in self.isr and b in live]
        if self.leader not in able:
            self._lead(able[0] if able else None)

    def elect_preferred(self, live: Collection[int]) -> str:
        """A preferred leader election; "" also where none is needed."""
        preferred = self.replicas[0]
        if self.leader == preferred:
            return ""
        if preferred not in self.isr or preferred not in live:
            return "PREFERRED_LEADER_NOT_AVAILABLE: The preferred leader was not available."
        self._lead(preferred)
        return ""

    def _lead(self, broker_id: int | None) -> None:
        self.leader = broker_id
        self.leader_epoch += 1

    def lose(self, broker_id: int, live: Collection[int]) -> None:
        """The broker is dead: it leaves the ISR, unless nobody else would be left in it."""
        if broker_id in self.isr and len(self.isr) > 1:
            self.isr.discard(broker_id)
            self.copied[broker_id] = self.size_bytes
        self.find_leader(live)

    def regain(self, broker_id: int, live: Collection[int]) -> None:
        """The broker is back: it may lead again; if it fell out of the ISR it has to catch up
        first.
        """
        if broker_id in self.replicas:
            self.find_leader(live)

    def behind(self, live: Collection[int]) -> tuple[int, ...]:
        """Live replicas that have to copy from the leader."""
        return tuple(b for b in self.replicas if b in live and b not in self.isr)
