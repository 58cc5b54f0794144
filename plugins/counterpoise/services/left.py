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
    moving: tuple[TopicPartition, ...]  # submitted, and not seen to arrive
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
    submissions = journal.unfinished_submissions()
    return Left(
        tuple(sorted(tp for tp, submission in submissions.items() if not submission.is_over)),
        sum(touched.restored_at is None for touched in journal.touched()),
    )
