"""One partition of a simulated cluster: what Kafka's controller does with its replicas.

    partition = SimulatedPartition(replicas=(1, 2, 3), isr={1, 2, 3}, leader=1, size_bytes=1000)
    partition.reassign((4, 2, 3), registered={1, 2, 3, 4})
    partition.replicas          # (4, 2, 3, 1): the union, target first

The rules are those of `ReplicationControlManager`, `PartitionChangeBuilder`,
`PartitionReassignmentReplicas` and `PartitionReassignmentRevert` of Kafka 4.3, oddities included: a
cancelled reassignment changes the order; going back to the old replicas while one is being added
never completes; a reassignment with a changed target that is then cancelled leaves one replica too
many. Completion waits for the replicas being added; where fewer are added than removed, for the
kept ones, too (KAFKA-16218). A broker that leaves an ISR below the minimum is an
eligible leader (KIP-966); so the last one leaves the ISR empty. docs/kafka-facts.md has the tests
that hold this to real brokers.

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
    eligible: set[int] = field(default_factory=set)  # may lead while the ISR is empty (KIP-966)

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
            return "INVALID_REPLICATION_ASSIGNMENT: reverting would need an unclean leader election"
        self._set_replicas(kept, live)
        return ""

    def complete_if_ready(
        self, live: Collection[int], *, waits_for_kept_replicas: bool = False
    ) -> bool:
        """Complete the reassignment if every replica being added is in sync; return whether it did.

        The ISR never becomes empty by it. Where more is removed than added, every target replica
        has to be in sync; before KAFKA-16218 was mended (`waits_for_kept_replicas`) always, and
        that is enough: going back is complete at once.
        """
        stays_in_sync = self.isr.intersection(self.target)
        needed = set() if waits_for_kept_replicas else set(self.adding)
        if waits_for_kept_replicas or len(self.adding) < len(self.removing):
            needed.update(self.target)
        if not self.is_moving or not stays_in_sync or not needed <= stays_in_sync:
            return False
        self._set_replicas(self.target, live)
        return True

    def _set_replicas(self, replicas: tuple[int, ...], live: Collection[int]) -> None:
        has_removed = not set(self.replicas) <= set(replicas)
        epoch_before = self.leader_epoch
        self.replicas = replicas
        self.adding = self.removing = ()
        self.isr.intersection_update(replicas)
        self.eligible.intersection_update(replicas)
        self.copied = {b: size for b, size in self.copied.items() if b in replicas}
        self.find_leader(live)
        if has_removed and self.leader_epoch == epoch_before:
            self.leader_epoch += 1  # so that a removed follower's requests are refused

    def find_leader(self, live: Collection[int]) -> None:
        """Keep the leader if it may lead, else elect the first live replica that may, if any."""
        may_lead = self.isr or self.eligible
        candidates = [b for b in self.replicas if b in may_lead and b in live]
        if self.leader in candidates:
            return
        elected = candidates[0] if candidates else None
        if elected is not None and not self.isr:
            self.isr.add(elected)
            self.eligible.discard(elected)
            self.copied.pop(elected, None)
        if elected != self.leader:
            self._set_leader(elected)

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

    def lose(self, broker_id: int, live: Collection[int], min_isr: int | None = 1) -> None:
        """Remove a dead broker from the ISR; below `min_isr` it becomes an eligible leader.

        None is Kafka without eligible leaders: the last replica stays in the ISR.
        """
        is_last = self.isr == {broker_id}
        if broker_id in self.isr and not (is_last and min_isr is None):
            self.isr.discard(broker_id)
            self.copied[broker_id] = self.size_bytes
            if min_isr is not None and len(self.isr) < min(min_isr, len(self.replicas)):
                self.eligible.add(broker_id)
        self.find_leader(live)

    def join(self, broker_id: int, min_isr: int | None = 1) -> None:
        """Add a complete replica to the ISR; from `min_isr` up no other replica is eligible."""
        self.isr.add(broker_id)
        self.copied.pop(broker_id, None)
        self.eligible.discard(broker_id)
        if len(self.isr) >= min(min_isr or 1, len(self.replicas)):
            self.eligible.clear()

    def regain(self, broker_id: int, live: Collection[int]) -> None:
        """Let a broker that is back lead again; outside the ISR it has to catch up first."""
        if broker_id in self.replicas:
            self.find_leader(live)

    def behind(self, live: Collection[int]) -> tuple[int, ...]:
        """Return the live replicas that have to copy from the leader."""
        return tuple(b for b in self.replicas if b in live and b not in self.isr)
