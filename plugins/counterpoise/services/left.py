"""What a run has in flight and set, as its ledger has it: for whoever leaves it, or asks about it.

    left_of(installation, run_id).in_words   # "2 partitions keep moving, throttled; 6 throttle ..."

Limits: what arrived since the last observation counts as in flight.
"""

from dataclasses import dataclass

from counterpoise.installation import Installation
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.words import join_names, pluralize


@dataclass(frozen=True, slots=True)
class Left:
    moving: tuple[TopicPartition, ...]  # in flight when observed last, or submitted since
    keys: int  # throttle keys that are set and not restored

    def __bool__(self) -> bool:
        return bool(self.moving or self.keys)

    @property
    def in_words(self) -> str:
        keep = pluralize(len(self.moving), "partition keeps", "partitions keep")
        throttled = f", throttled ({join_names(self.moving)})" if self.moving else ""
        keys = pluralize(self.keys, "throttle key stays", "throttle keys stay")
        return f"{keep} moving{throttled}; {keys} set"


def left_of(installation: Installation, run_id: str) -> Left:
    journal = installation.ledger.journal(run_id)
    run_progress = journal.run_progress()
    seen = run_progress.arrived_bytes if run_progress else {}
    moving = {
        row.topic_partition
        for row in journal.submitted(only_open=True)
        if run_progress is None
        or str(row.topic_partition) in seen
        or row.sent_at >= run_progress.observed_at
    }
    return Left(
        tuple(sorted(moving)),
        sum(key.done_at is None for key in journal.owned_keys()),
    )
