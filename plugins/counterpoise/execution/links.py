"""The links of a run: what each broker sends and receives, and since when that makes no progress.

    links, counted_copies = find_links(base, observation, moving, is_lowered=False)
    stalled_links(run_progress)            # those without progress for STALL_PATIENCE

Pure. Example: 12 partitions are copied to broker 4, 50 MB are left at 12:00:00, and no fewer at
12:01:30: after 90 s "broker 4 receiving" has stalled.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Final

from counterpoise.execution.observation import Observation
from counterpoise.model.grouping import grouped
from counterpoise.model.plan import Move
from counterpoise.model.run_progress import Link, RunProgress

# After this time without a byte less to copy on a link there is an alarm; after twice this the run
# halts. Observations are 10 s apart through Airflow: a time of fewer than three would be chance.
STALL_PATIENCE: Final = timedelta(seconds=90)
_DIGEST_BYTES: Final = 4


def stalled_links(run_progress: RunProgress, patience_factor: int = 1) -> tuple[Link, ...]:
    """Return the links without progress for `patience_factor` times STALL_PATIENCE."""
    patience = patience_factor * STALL_PATIENCE
    return tuple(
        link
        for link in run_progress.links
        if link.moves and run_progress.observed_at - link.last_progress_at >= patience
    )


def find_links(
    base: RunProgress, observation: Observation, moving: Iterable[Move], *, is_lowered: bool
) -> tuple[tuple[Link, ...], dict[str, str]]:
    """Return each direction of each broker that copies, with its bytes and since when it is stuck;
    and, by its name, which copies those bytes are of (`_counted`).

    A link that had 50 MB left at 12:00:00, its least, and has 60 MB at 12:00:10 has made no
    progress: its `last_progress_at` stays 12:00:00. Where all its copies are in sync it is not
    stuck: its moves wait for other replicas. It begins anew whenever it counts other copies than
    before: one began or ended, moved to another leader, or it is no longer known, or known again,
    what has arrived of it.
    """
    copies_by_link = _copies_by_link(observation, moving)
    links_before = {(link.broker_id, link.sends): link for link in base.links}
    links, counted_by_link = [], {}
    for (broker_id, sends), copies in sorted(copies_by_link.items()):
        link = _new_link(base, observation, broker_id, sends, copies)
        counted = _counted(observation, copies)
        before = links_before.get((broker_id, sends))
        is_same = base.readings.counted_copies.get(link.name) == counted
        if before is not None and is_same and _is_unfinished(observation, copies):
            before = _without_deleted(before, base, observation, copies)
            link = _followed(link, before, is_lowered=is_lowered)
        links.append(link)
        counted_by_link[link.name] = counted
    return tuple(links), counted_by_link


def unfinished_links(observation: Observation, moving: Iterable[Move]) -> set[tuple[int, bool]]:
    """Return broker and direction of the links with a copy that is not in sync yet, as far as it is
    known what has arrived; also where the sizes tell that nothing is left.
    """
    copies_by_link = _copies_by_link(observation, moving)
    return {key for key, copies in copies_by_link.items() if _is_unfinished(observation, copies)}


def _copies_by_link(
    observation: Observation, moving: Iterable[Move]
) -> dict[tuple[int, bool], list[tuple[Move, int]]]:
    """Return each copy, as its move and its destination, at both brokers of it."""
    return grouped(
        ((broker_id, sends), (move, destination))
        for move in moving
        if (leader := observation.leader_of(move)) is not None  # else it waits for a leader
        for destination in observation.adding_replicas(move)
        for broker_id, sends in ((destination, False), (leader, True))
    )


def _new_link(
    base: RunProgress,
    observation: Observation,
    broker_id: int,
    sends: bool,
    copies: list[tuple[Move, int]],
) -> Link:
    """Return a link as if its moves began now.

    Copies without a leader, and those of unknown size, are not counted as stuck.
    """
    bytes_left = 0
    known_bytes_left = 0
    for move, destination in copies:
        arrived_before = base.arrived_bytes.get(str(move.topic_partition), 0)
        missing_bytes = observation.bytes_to_copy(move, destination)
        if _is_in_sync(observation, move, destination):
            missing_bytes = 0  # it follows its leader, and waits for another replica
        elif _is_followed(observation, move, destination):
            known_bytes_left += missing_bytes
        else:
            missing_bytes = max(0, missing_bytes - arrived_before)
        bytes_left += missing_bytes
    return Link(
        broker_id=broker_id,
        sends=sends,
        moves=len(copies),
        bytes_left=bytes_left,
        bytes_per_second=sum(observation.speed_of(*copy) for copy in copies),
        min_bytes_left=known_bytes_left,
        last_progress_at=observation.observed_at,
    )


def _is_unfinished(observation: Observation, copies: Iterable[tuple[Move, int]]) -> bool:
    return any(_is_followed(observation, *copy) for copy in copies)


def _is_in_sync(observation: Observation, move: Move, destination: int) -> bool:
    return destination in observation.partitions[move.topic_partition].description.isr


def _is_followed(observation: Observation, move: Move, destination: int) -> bool:
    """Return whether a copy is not in sync yet, and it is known what has arrived."""
    has_leader = observation.leader_of(move) is not None
    is_known = has_leader and observation.is_measured(move)
    return is_known and not _is_in_sync(observation, move, destination)


def _counted(observation: Observation, copies: Iterable[tuple[Move, int]]) -> str:
    """Return a digest of the copies of a link, each with its leader, whose size it is measured
    against, and whether it is known what has arrived.
    """
    counted = sorted(
        (
            str(move.topic_partition),
            destination,
            observation.leader_of(move),
            observation.is_measured(move),
        )
        for move, destination in copies
    )
    return hashlib.blake2b(repr(counted).encode(), digest_size=_DIGEST_BYTES).hexdigest()


def _without_deleted(
    before: Link, base: RunProgress, observation: Observation, copies: Iterable[tuple[Move, int]]
) -> Link:
    """Return a link as if what was deleted since had been deleted then: its fewest bytes left
    change with the copies whose leader or destination has become smaller.

    Both delete the same segments, some minutes apart. That is neither progress nor a lack of it.
    """
    deleted_bytes = 0
    for move, destination in copies:
        leader = observation.leader_of(move)
        if leader is None or not _is_followed(observation, move, destination):
            continue
        leader_bytes, arrived_bytes = (
            reading.sizes.get(str(move.topic_partition), 0)
            if (reading := base.readings.log_dirs.get(str(broker_id)))
            else 0
            for broker_id in (leader, destination)
        )
        leader_shrank = (observation.size_at(move, leader) or 0) < leader_bytes
        if leader_shrank or (observation.size_at(move, destination) or 0) < arrived_bytes:
            left_before = max(0, leader_bytes - arrived_bytes)
            deleted_bytes += left_before - observation.bytes_to_copy(move, destination)
    return replace(before, min_bytes_left=before.min_bytes_left - deleted_bytes)


def _followed(link: Link, before: Link, *, is_lowered: bool) -> Link:
    """Return a link with since when it has made no progress.

    Progress are fewer bytes left; while we hold the rate below the approved one, any bytes that
    arrive, since producers may write more than that; and so where destinations are as large as
    their leaders, and not in sync: the leaders have compacted what the destinations have not.
    """
    arrives = link.bytes_per_second > 0 and (is_lowered or not link.min_bytes_left)
    if arrives or link.min_bytes_left < before.min_bytes_left:
        return link
    return replace(
        link,
        min_bytes_left=before.min_bytes_left,
        last_progress_at=before.last_progress_at,
    )
