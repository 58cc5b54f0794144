"""One move of a plan, and all moves of a plan as columns.

    Move("orders", 3, "id", (1, 2, 3), (4, 2, 3), 1, 1_000_000).adding      # (4,)
    MoveColumns.of(plan.moves).adding                                       # [(4,), ...]

Whatever is summed over all moves is summed over columns: 60,000 moves are a dozen lists then, and
each is an object only where it is looked at.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cache, cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Final, get_type_hints, overload

from counterpoise.model.cluster import TopicPartition, is_another_topic
from counterpoise.model.json_values import MAX_ID, Count, Id, Range

if TYPE_CHECKING:
    from msgspec.json import Decoder


class MoveReason(StrEnum):
    """The measure that a move serves first."""

    RACKS = "racks"  # the partition is on more racks than before, or with fewer replicas on one
    REPLICAS = "replicas"  # replicas per broker
    BYTES = "bytes"  # bytes per broker
    TRAFFIC = "traffic"  # bytes-in per broker, as leader and as follower
    LEADERS = "leaders"  # leaders per broker, or per topic
    DRAIN = "drain"  # its broker is to be emptied
    REPAIR = "repair"  # its broker is dead
    DEMOTE = "demote"  # its broker is to lead nothing
    REPLICATION_FACTOR = "replication-factor"
    PREFERRED = "preferred"  # another replica than the preferred one leads it now
    IMPORTED = "imported"


@dataclass(frozen=True)
class Move:
    """One partition's change.

    `replicas_after == replicas_before` means: only elect the preferred leader.
    """

    topic: str
    partition: Id
    topic_id: str  # "" when the snapshot did not tell
    replicas_before: tuple[Id, ...]  # ordered: the first is the preferred leader
    replicas_after: tuple[Id, ...]
    leader_before: Annotated[int, Range(-1, MAX_ID)]  # -1: none
    size_bytes: Count  # of one replica
    bytes_in_per_second: Count | None = None
    why: MoveReason = MoveReason.REPLICAS
    # of a move for the sake of traffic: by how many bytes per second brokers come nearer to the
    # tolerance; 0 for the move that comes back in an exchange
    traffic_gain: Count | None = None

    @cached_property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @cached_property
    def adding(self) -> tuple[int, ...]:
        return tuple(b for b in self.replicas_after if b not in self.replicas_before)

    @cached_property
    def removing(self) -> tuple[int, ...]:
        return tuple(b for b in self.replicas_before if b not in self.replicas_after)

    @property
    def copied_bytes(self) -> int:
        return self.size_bytes * len(self.adding)

    def is_of_another_topic(self, topic_id: str | None) -> bool:
        """Return whether a topic of this name, which has this id, is not the planned one: it was
        deleted and made again.
        """
        return is_another_topic(self.topic_id, topic_id)

    @property
    def changes_leader(self) -> bool:
        return self.leader_before != self.replicas_after[0]


@dataclass(frozen=True, eq=False)
class MoveColumns(Sequence[Move]):
    """Moves as a list for each field of a move, in its order; a Move is made of a row when asked
    for.
    """

    topics: Sequence[str]
    partitions: Sequence[int]
    topic_ids: Sequence[str]
    replicas_before: Sequence[tuple[int, ...]]
    replicas_after: Sequence[tuple[int, ...]]
    leaders_before: Sequence[int]
    sizes_bytes: Sequence[int]
    bytes_in_per_second: Sequence[int | None]
    reasons: Sequence[MoveReason]
    traffic_gains: Sequence[int | None]

    @classmethod
    def of(cls, moves: Sequence[Move]) -> "MoveColumns":
        """Return the moves of a plan as columns."""
        return moves if isinstance(moves, cls) else cls._of_rows(moves)

    @classmethod
    def of_json(cls, text: bytes) -> "MoveColumns":
        """Return the moves of a plan document.

        Raises ValueError where a field is missing, unknown or of another type.
        """
        return cls._of_rows(_row_decoder().decode(text))

    @classmethod
    def _of_rows(cls, rows: Sequence[object]) -> "MoveColumns":
        return cls(*(list(map(attrgetter(name), rows)) for name in _FIELDS))

    @cached_property
    def adding(self) -> Sequence[tuple[int, ...]]:
        """Return the brokers that each partition gets; those that many get are one tuple."""
        found = []
        shared: dict[tuple[int, ...], tuple[int, ...]] = {}
        for before, after in zip(self.replicas_before, self.replicas_after, strict=True):
            adding = tuple([broker_id for broker_id in after if broker_id not in before])
            found.append(shared.setdefault(adding, adding))
        return found

    @cached_property
    def copied_bytes(self) -> Sequence[int]:
        return [
            size_bytes * len(adding)
            for size_bytes, adding in zip(self.sizes_bytes, self.adding, strict=True)
        ]

    @cached_property
    def changes_leader(self) -> Sequence[bool]:
        return [
            leader_before != after[0]
            for leader_before, after in zip(self.leaders_before, self.replicas_after, strict=True)
        ]

    @cached_property
    def by_name(self) -> Sequence[int]:
        """Return the indexes of the moves by topic and partition."""
        ranks = {topic: rank for rank, topic in enumerate(sorted(set(self.topics)))}
        names = zip(self.topics, self.partitions, strict=True)
        keys = [ranks[topic] * (MAX_ID + 1) + partition for topic, partition in names]
        return sorted(range(len(self)), key=keys.__getitem__)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __len__(self) -> int:
        return len(self.topics)

    def __iter__(self) -> Iterator[Move]:
        return map(Move, *self._columns)

    @overload
    def __getitem__(self, index: int) -> Move: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Move, ...]: ...

    def __getitem__(self, index: int | slice) -> Move | tuple[Move, ...]:
        if isinstance(index, slice):
            return tuple(map(Move, *(column[index] for column in self._columns)))
        return Move(*(column[index] for column in self._columns))

    @property
    def _columns(self) -> Iterator[Sequence[Any]]:
        return (getattr(self, field.name) for field in fields(self))


_FIELDS: Final = tuple(field.name for field in fields(Move))


@cache
def _row_decoder() -> "Decoder[list[Any]]":
    """Return what reads moves without making 60,000 objects that Python's garbage collection would
    visit: neither a Move nor a dictionary each.
    """
    import msgspec

    types = get_type_hints(Move)
    columns = [(name, types[name]) for name in _FIELDS if name != "traffic_gain"]
    row = msgspec.defstruct(
        "Row",
        [*columns, ("traffic_gain", types["traffic_gain"], None)],
        gc=False,
        forbid_unknown_fields=True,
    )
    return msgspec.json.Decoder(list[row])  # type: ignore[valid-type]
