"""One partition of a simulated cluster: what Kafka's controller does with its replicas.

    partition = SimulatedPartition(replicas=(1, 2, 3), isr={1, 2, 3}, leader=1, size_bytes=1000)
    partition.reassign((4, 2, 3), registered={1, 2, 3, 4})
    partition.replicas          # (4, 2, 3, 1): the union, target first

The rules are those of `ReplicationControlManager`, `PartitionReassignmentReplicas` and
`PartitionReassignmentRevert` of Kafka 4.3, oddities included: a cancelled reassignment changes the
order; going back to the old replicas while one is being added never completes; a reassignment with
a changed target that is then cancelled leaves one replica too many. Completion waits for every
target replica, as before KAFKA-16218 was fixed: the slower case.

Limits: a replica is complete when it is as long as the leader's; records have no offsets or epochs.
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
    copied: dict[int, float] = field(default_factory=dict)  # bytes of replicas outside the ISR

    @property
    def is_moving(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(b for b in self.replicas if b not in self.removing)

    def bytes_on(self, broker_id: int) -> int:
        """Return the bytes of the replica on a broker; in-sync ones are as long as the leader's."""
        return int(self.size_bytes if broker_id in self.isr else self.copied.get(broker_id, 0.0))

    def reassign(
        self, target: tuple[int, ...], registered: Collection[int], *, may_resize: bool = False
    ) -> str:
        """Start, or change, a reassignment; return "" or the refusal.

        Fenced brokers are accepted, as Kafka does. Without `may_resize` another number of replicas
        is refused (KIP-860).
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
        # An empty list is not written to the change record, so the earlier one stays: this is why
        # going back never completes.
        self.removing = removing or self.removing
        self.adding = adding or self.adding
        return ""

    def _complaint(self, target: tuple[int, ...], registered: Collection[int]) -> str:
        assigned = "INVALID_REPLICATION_ASSIGNMENT: The manual partition assignment includes"
        if not target:
            return f"{assigned} an empty replica list."
        for broker_id in target:
            if broker_id not in registered:
                return f"{assigned} broker {broker_id}, but no such broker is registered."
            if target.count(broker_id) > 1:
                return f"{assigned} the broker {broker_id} more than once."
        return ""

    def cancel(self, live: Collection[int]) -> str:
        """Drop the replicas being added, keep those being removed; return "" or the refusal."""
        if not self.is_moving:
            return "NO_REASSIGNMENT_IN_PROGRESS"
        kept = tuple(b for b in self.replicas if b not in self.adding)
        if not kept or not self.isr.intersection(kept):
            return "INVALID_REPLICA_ASSIGNMENT: reverting would need an unclean leader election"
        self._set_replicas(kept, live)
        return ""

    def complete_if_ready(self, live: Collection[int]) -> bool:
        """Complete the reassignment if every target replica is in sync; return whether it did."""
        never_completes = set(self.adding) & set(self.removing)
        if not self.is_moving or never_completes or not self.isr.issuperset(self.target):
            return False
        self._set_replicas(self.target, live)
        return True

    def _set_replicas(self, replicas: tuple[int, ...], live: Collection[int]) -> None:
        self.replicas = replicas
        self.adding = self.removing = ()
        self.isr.intersection_update(replicas)
        self.copied = {b: size for b, size in self.copied.items() if b in replicas}
        self.find_leader(live)

    def find_leader(self, live: Collection[int]) -> None:
        """Keep the leader if it may lead, else elect the first in-sync live replica, if any."""
        candidates = [b for b in self.replicas if b in self.isr and b in live]
        if self.leader not in candidates:
            self._set_leader(candidates[0] if candidates else None)

    def elect_preferred(self, live: Collection[int]) -> str:
        """Elect the preferred leader; return "", also where none is needed, or the refusal."""
        preferred = self.replicas[0]
        if self.leader == preferred:
            return ""
        if preferred not in self.isr or preferred not in live:
            return "PREFERRED_LEADER_NOT_AVAILABLE: The preferred leader was not available."
        self._set_leader(preferred)
        return ""

    def _set_leader(self, broker_id: int | None) -> None:
        self.leader = broker_id
        self.leader_epoch += 1

    def lose(self, broker_id: int, live: Collection[int]) -> None:
        """Remove a dead broker from the ISR, unless it is the last in it."""
        if broker_id in self.isr and len(self.isr) > 1:
            self.isr.discard(broker_id)
            self.copied[broker_id] = self.size_bytes
        self.find_leader(live)

    def regain(self, broker_id: int, live: Collection[int]) -> None:
        """Let a broker that is back lead again; outside the ISR it has to catch up first."""
        if broker_id in self.replicas:
            self.find_leader(live)

    def behind(self, live: Collection[int]) -> tuple[int, ...]:
        """Return the live replicas that have to copy from the leader."""
        return tuple(b for b in self.replicas if b in live and b not in self.isr)
