"""The plan: **what** is to move, and nothing about how or when. Write-once canonical JSON with a
fingerprint.

    plan = RebalancePlan(...)
    text = plan.to_json()                       # byte for byte the same for the same plan
    RebalancePlan.from_json(text).fingerprint   # "sha256:..." over all the rest of the document

Only integers and strings, keys sorted, no time stamps: the same input gives the same bytes. A
document whose fingerprint does not match its content was edited and is refused.
"""

import gc
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from functools import cached_property
from operator import attrgetter, gt
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    NamedTuple,
    overload,
)

import msgspec

from counterpoise.errors import InputError
from counterpoise.model.cluster import TopicPartition, is_another_topic, is_topic
from counterpoise.model.constraints import Constraints
from counterpoise.model.json_values import MAX_ID, json_keys, read_json
from counterpoise.model.kafka import ConfigResource, ConfigResourceType
from counterpoise.model.request import KINDS, Budget, Goal, Scope
from counterpoise.model.safe_text import is_broken_text

# -- Makes many objects without Python's collections of garbage, each of which visits all of them
#
# with collecting_no_garbage():    # what 60,000 moves are read into
#     plan = json.loads(text)


@contextmanager
def collecting_no_garbage() -> Iterator[None]:
    """Leave out the collections that many new objects set off.

    For objects that do not refer back to what holds them: they are freed without a collection.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


# -- One move of a plan, and all moves of a plan as columns
#
#     Move("orders", 3, "id", (1, 2, 3), (4, 2, 3), 1, 1_000_000).adding      # (4,)
#     MoveColumns.of(plan.moves).adding                                       # [(4,), ...]
#
# Whatever is summed over all moves is summed over columns: 60,000 moves are a dozen lists then, and
# each is an object only where it is looked at.


class MoveReason(StrEnum):
    """The measure that a move serves first."""

    BROKER_SET = "broker-set"  # a replica stood outside of the broker set of its topic
    RACKS = "racks"  # the partition is spread over racks more evenly than before
    REPLICAS = "replicas"  # replicas per broker
    BYTES = "bytes"  # bytes per broker
    TRAFFIC = "traffic"  # bytes-in per broker, as leader and as follower
    LEADERS = "leaders"  # leaders per broker, or per topic
    DRAIN = "drain"  # its broker is to be emptied
    REPAIR = "repair"  # its broker is dead
    RELIEF = "relief"  # its disk is too full
    REPLACE = "replace"  # its broker gives its place to another one
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
    partition: int
    topic_id: str  # "" when the snapshot did not tell
    replicas_before: tuple[int, ...]  # ordered: the first is the preferred leader
    replicas_after: tuple[int, ...]
    leader_before: int  # -1: none
    size_bytes: int  # of one replica
    bytes_in_per_second: int | None = None
    why: MoveReason = MoveReason.REPLICAS
    # of a move for the sake of traffic: by how many bytes per second brokers come nearer to the
    # tolerance; 0 for the move that comes back in an exchange
    traffic_gain: int | None = None

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
    def of_content(cls, rows: object) -> "MoveColumns":
        """Return the moves of a plan document.

        Raises ValueError where a field is missing, unknown, or no value that a plan may have.
        """
        read = msgspec.convert(rows, list[_Row])
        return replace(cls._of_rows(read), traffic_gains=[row.gain() for row in read])

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


_BrokerId = Annotated[int, msgspec.Meta(ge=0, le=MAX_ID)]
_Replicas = Annotated[tuple[_BrokerId, ...], msgspec.Meta(min_length=1)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _Row(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A move in the document: 60,000 of them are objects that Python's garbage collection need not
    visit.
    """

    topic: str
    partition: Annotated[int, msgspec.Meta(ge=0, le=MAX_ID)]
    topic_id: str
    replicas_before: _Replicas
    replicas_after: _Replicas
    leader_before: Annotated[int, msgspec.Meta(ge=-1, le=MAX_ID)]
    size_bytes: _Count
    bytes_in_per_second: _Count | None
    why: MoveReason
    traffic_gain: _Count | msgspec.UnsetType = msgspec.UNSET  # null is not written

    def gain(self) -> int | None:
        return None if self.traffic_gain is msgspec.UNSET else self.traffic_gain


FORMAT: Final = "counterpoise-plan/2"
_MAX_COMPLAINTS: Final = 5


@dataclass(frozen=True, slots=True)
class BrokerFigure:
    """One registered broker before and after the plan, with the best that any plan could give it.

    Bytes-in is what it takes in as a leader, network-in that and what it fetches as a follower;
    None where the snapshot tells no rates, or the plan was made before it was told. `bytes_peak` is
    the most that it may hold on the way, when everything it receives is there and nothing that
    it gives is gone yet.
    """

    broker_id: int
    rack: str | None
    leaders_before: int
    leaders_after: int
    leaders_best: int
    replicas_before: int
    replicas_after: int
    replicas_best: int
    bytes_before: int
    bytes_after: int
    bytes_best: int
    bytes_peak: int
    bytes_in_before: int | None = None
    bytes_in_after: int | None = None
    bytes_in_best: int | None = None
    network_in_before: int | None = None
    network_in_after: int | None = None
    network_in_best: int | None = None
    disk_total_bytes: int | None = None
    disk_used_bytes: int | None = None  # before, other files included

    @property
    def peak_used_bytes(self) -> int:
        """Return the most that its disks may hold on the way.

        All that it receives is there then, nothing that it loses is gone yet, and files of others
        are there too.
        """
        other_files_bytes = max(0, (self.disk_used_bytes or 0) - self.bytes_before)
        return self.bytes_peak + other_files_bytes

    @property
    def peak_share(self) -> float | None:
        """Return that as a share of the disks, 0 to 1; None where their size is not known."""
        return self.peak_used_bytes / self.disk_total_bytes if self.disk_total_bytes else None


@dataclass(frozen=True, slots=True)
class LowerBound:
    """What ANY plan that gets as far as this one has to copy, and how even leaders can be at best.

    As far: racks, replicas and bytes per broker as even as this plan leaves them.
    """

    replicas: int
    bytes: int
    leaders_max_minus_min: int


@dataclass(frozen=True, slots=True)
class Deferred:
    """What the budget leaves for a later plan."""

    partitions: int = 0
    replicas: int = 0
    bytes: int = 0


class SettingBefore(NamedTuple):
    """A throttle key that was set, at the resource itself, when the snapshot was made."""

    resource_type: ConfigResourceType
    resource_name: str
    key: str
    value: str  # as Kafka has it; a list may be set and empty

    @property
    def resource(self) -> ConfigResource:
        return ConfigResource(self.resource_type, self.resource_name)


@dataclass(frozen=True)
class RebalancePlan:
    """What is to move, what that costs, and what it leads to."""

    __pydantic_config__: ClassVar = json_keys({"deferred": "left"})

    cluster: str
    cluster_id: str
    snapshot_id: str
    goal: Goal
    broker_ids: tuple[int, ...]
    policy_digest: str
    moves: Sequence[Move]  # by topic, then partition
    figures: tuple[BrokerFigure, ...]  # by broker id, every registered broker
    lower_bound: LowerBound
    # What the whole goal would take, where the plan does not get there.
    goal_bound: LowerBound | None = None
    reason: str = ""  # why nothing moves, when nothing does
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # good to know, and nothing to be wary of
    scope: Scope = field(default_factory=Scope)
    budget: Budget = field(default_factory=Budget)
    replication_factor: int | None = None  # only of the goal of that name
    deferred: Deferred = field(default_factory=Deferred)
    # Of the brokers and topics that its copies touch, sorted: what to go back to where there is no
    # ledger.
    settings_before: tuple[SettingBefore, ...] = ()
    new_broker_ids: tuple[int, ...] = ()  # of replace-brokers: one for each of `broker_ids`
    below_percent: int | None = None  # of relief: how full disks may be
    constraints: Constraints = field(default_factory=Constraints)  # asked for beside the policy's
    undoes: str = ""  # the fingerprint of the plan that this one takes back

    @property
    def is_empty(self) -> bool:
        return not self.moves

    @cached_property
    def columns(self) -> MoveColumns:
        return MoveColumns.of(self.moves)

    @cached_property
    def moves_by_topic(self) -> Mapping[str, Mapping[int, Move]]:
        """Return the moves of each topic, by partition."""
        by_topic: dict[str, dict[int, Move]] = {}
        for move in self.moves:
            by_topic.setdefault(move.topic, {})[move.partition] = move
        return by_topic

    @cached_property
    def copied_replicas(self) -> int:
        return sum(map(len, self.columns.adding))

    @cached_property
    def copied_bytes(self) -> int:
        return sum(self.columns.copied_bytes)

    @property
    def receiving_broker_ids(self) -> frozenset[int]:
        """Return the brokers that get a replica, or begin to lead."""
        columns = self.columns
        new_leaders = {
            after[0]
            for after, changes in zip(columns.replicas_after, columns.changes_leader, strict=True)
            if changes
        }
        return frozenset(new_leaders.union(*columns.adding))

    @property
    def emptied_broker_ids(self) -> tuple[int, ...]:
        """Return the brokers that a person wants empty and that the plan leaves without a replica:
        those of a removal, and those that an import or an undo empties.

        Of a broker that is not registered no plan says what is left there.
        """
        empty = [figure for figure in self.figures if not figure.replicas_after]
        if KINDS[self.goal].empties:
            return tuple(one.broker_id for one in empty if one.broker_id in self.broker_ids)
        if self.goal is not Goal.IMPORTED:
            return ()
        return tuple(one.broker_id for one in empty if one.replicas_before)

    @cached_property
    def leader_changes(self) -> int:
        return sum(self.columns.changes_leader)

    @cached_property
    def lowers_replication_factor(self) -> bool:
        columns = self.columns
        return any(map(gt, map(len, columns.replicas_before), map(len, columns.replicas_after)))

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint_of(self._content())

    def to_json(self) -> str:
        """Return the document, one move a line, so that text tools can compare two plans."""
        content = self._content()
        if "fingerprint" not in vars(self):  # content of many moves takes long to make again
            vars(self)["fingerprint"] = fingerprint_of(content)
        moves = content.pop("moves")
        head = [
            f"  {_canonical(key)}: {_canonical(value)}," for key, value in sorted(content.items())
        ]
        rows = ",\n".join(f"    {_canonical(row)}" for row in moves)
        body = f'  "moves": [\n{rows}\n  ]' if moves else '  "moves": []'
        return "\n".join(
            ["{", f'  "fingerprint": {_canonical(self.fingerprint)},', *head, body, "}", ""]
        )

    @classmethod
    def from_json(cls, text: str, *, where: str = "plan") -> "RebalancePlan":
        """Return the plan of a document, whose fingerprint is the one that the document claims.

        Raises InputError, naming `where`, when it is no plan, was cut short, edited after it was
        made, or made by another version.
        """
        with collecting_no_garbage():
            return cls._from_json(text, where)

    @classmethod
    def _from_json(cls, text: str, where: str) -> "RebalancePlan":
        try:
            document = json.loads(text, parse_constant=_refuse, parse_float=_refuse)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: not JSON ({error}); was the file cut short?") from None
        _check_format(document, where)
        claimed = document.pop("fingerprint", None)
        try:
            actual = fingerprint_of(document)
        except ValueError as error:
            actual = f"no plan's ({error})"
        if claimed != actual:
            raise InputError(
                f"{where}: was edited after it was made: it says {claimed}, "
                f"its content is {actual}. Make a new plan."
            )
        try:
            return cls._of_content(document, actual)
        except ValueError as error:
            raise InputError(
                f"{where}: was made by another version of Counterpoise: a field is missing, "
                f"unknown or malformed ({error}). Make a new plan."
            ) from None

    @classmethod
    def _of_content(cls, content: Mapping[str, Any], fingerprint: str) -> "RebalancePlan":
        moves = MoveColumns.of_content(content.get("moves"))
        _check_moves(moves)
        without_moves = {**content, "moves": []}
        plan = read_json(cls, _canonical(without_moves))
        if plan._content() != without_moves:
            raise ValueError("this version does not know all of its fields")
        plan = replace(plan, moves=moves)
        vars(plan)["fingerprint"] = fingerprint  # what counting it again would give
        return plan

    def _content(self) -> dict[str, Any]:
        # Numbers are text, as in all settings.
        constraints = json.loads(_canonical(asdict(self.constraints)), parse_int=str)
        return {
            "format": FORMAT,
            "cluster": self.cluster,
            "cluster_id": self.cluster_id,
            "snapshot_id": self.snapshot_id,
            "goal": str(self.goal),
            "broker_ids": list(self.broker_ids),
            "policy_digest": self.policy_digest,
            "scope": {name: list(values) for name, values in asdict(self.scope).items()},
            "budget": asdict(self.budget),
            "replication_factor": self.replication_factor,
            "figures": [_figure_content(figure) for figure in self.figures],
            "lower_bound": asdict(self.lower_bound),
            **({"goal_bound": asdict(self.goal_bound)} if self.goal_bound else {}),
            "left": asdict(self.deferred),
            "reason": self.reason,
            "warnings": list(self.warnings),
            **({"notes": list(self.notes)} if self.notes else {}),
            "undoes": self.undoes,
            "settings_before": [list(setting) for setting in self.settings_before],
            "moves": [_move_content(move) for move in self.moves],
            **({"below_percent": self.below_percent} if self.below_percent else {}),
            **({"constraints": constraints} if self.constraints != Constraints() else {}),
            **({"new_broker_ids": list(self.new_broker_ids)} if self.new_broker_ids else {}),
        }


def fingerprint_of(content: Mapping[str, Any]) -> str:
    """Return `sha256:` and the digest of the canonical JSON of a plan without its fingerprint.

    Raises ValueError where it holds half a character (a lone surrogate), as no plan does.
    """
    canonical = msgspec.json.encode(content, order="sorted")
    return f"sha256:{hashlib.sha256(canonical).hexdigest()}"


def _check_format(document: object, where: str) -> None:
    found = document.get("format") if isinstance(document, dict) else None
    if found == FORMAT:
        return
    if str(found).startswith(FORMAT.partition("/")[0] + "/"):
        raise InputError(
            f"{where}: was made by another version of Counterpoise: its format is {found}, "
            f"not {FORMAT}. Make a new plan."
        )
    raise InputError(f'{where}: not a plan: it has no "format": "{FORMAT}"')


def _refuse(number: str) -> None:
    raise ValueError(f"{number} is no whole number")


def _canonical(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def _figure_content(figure: BrokerFigure) -> dict[str, Any]:
    """Return all fields; network-in is left out where it is not known."""
    values = {name: getattr(figure, name) for name in BrokerFigure.__slots__}
    return {
        name: value
        for name, value in values.items()
        if value is not None or not name.startswith("network_in_")
    }


def _move_content(move: Move) -> dict[str, Any]:
    gain = {} if move.traffic_gain is None else {"traffic_gain": move.traffic_gain}
    return {
        "topic": move.topic,
        "partition": move.partition,
        "topic_id": move.topic_id,
        "replicas_before": list(move.replicas_before),
        "replicas_after": list(move.replicas_after),
        "leader_before": move.leader_before,
        "size_bytes": move.size_bytes,
        "bytes_in_per_second": move.bytes_in_per_second,
        "why": str(move.why),
    } | gain


def _check_moves(moves: MoveColumns) -> None:
    """Raise ValueError where there is a move that no plan may have, whatever the cluster is."""
    times_named = Counter(zip(moves.topics, moves.partitions, strict=True))
    replica_sets = {*moves.replicas_before, *moves.replicas_after}
    complaints = [
        *(f"{name[:60]!r} is no topic of Kafka" for name in {*moves.topics} if not is_topic(name)),
        *("half a character in a topic_id" for one in {*moves.topic_ids} if is_broken_text(one)),
        *(f"{tp[0]}-{tp[1]} moves twice" for tp, times in times_named.items() if times > 1),
        *(f"a broker twice in {ids}" for ids in replica_sets if len({*ids}) != len(ids)),
    ]
    if complaints:
        raise ValueError(f"moves: {'; '.join(sorted(complaints)[:_MAX_COMPLAINTS])}")
