"""relief: disks that are fuller than a mark get below it with the least bytes; nothing else moves.

    make_plan(snapshot, PlanRequest(Goal.RELIEF, below_percent=80))

    for each disk above the mark, the one with most bytes too many first:
        choose replicas there whose sizes add up to what is too many, or a little more (`_cover`)
        largest first: each goes to the broker with most room below the mark, in a rack that suits
        what fits nowhere is left out, and others are chosen for what is still too many
    where few replicas and brokers are concerned: an integer program finds the least, proven

Worked example: a disk of 1000 GB holds 860, and the mark is 80 %: 60 GB and a byte are too many. Of
replicas of 50, 40, 30 and 25 GB, those of 50 and 25 are chosen: 75 GB; the program finds 40 + 25.

A disk is a file system: log dirs that tell the same figures share one. A broker chooses the log dir
of a new replica by the number of replicas there (KIP-113), so its fullest disk says what it may
receive; one above the mark receives nothing. What any plan copies is at least what is too many.

Limits: one replica of a partition moves. Where log dirs are several, the snapshot has to tell which
replicas are in them; a cluster document does not.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, NamedTuple

import numpy as np
import pyarrow.compute as pc

from counterpoise.errors import InputError, RefusedError
from counterpoise.model.columns import Flags, Ints
from counterpoise.model.grouping import grouped
from counterpoise.model.plan import LowerBound, MoveReason
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.model.words import join_names, verb
from counterpoise.planning.arrays import ClusterArrays
from counterpoise.planning.placement import CopyBound, Placement, Replicas, Roles
from counterpoise.planning.planning_result import PlanningGoal, PlanningResult
from counterpoise.units import format_bytes

_MAX_CELLS: Final = 20_000  # replicas x brokers of the integer program
_SIZE_BITS: Final = 30


class Relief(PlanningGoal):
    name: ClassVar[Goal] = Goal.RELIEF
    copy_reason: ClassVar[MoveReason | None] = MoveReason.RELIEF
    keeps_order: ClassVar[bool] = True

    def left_to_repair(self, cluster: ClusterArrays, request: PlanRequest) -> Flags:
        return cluster.is_on_dead

    def may_change_leader(self, cluster: ClusterArrays, roles: Roles) -> Flags:
        return np.zeros(cluster.partition_count, dtype=np.bool_)

    def place(self, result: PlanningResult) -> Placement:
        """Return the replicas; raise RefusedError, with what would do, where a disk stays above the
        mark.
        """
        relief, placement = _Relief.of(result), result.before.copy()
        moves, bound = relief.choose(), None
        if relief.cell_count <= _MAX_CELLS:
            moves, bound = relief.solve(moves)
        for move in moves:
            placement.give(move.partition, move.position, move.destination)
        placement.bound = bound
        left = [
            disk
            for disk in relief.disks
            if disk.too_many
            > relief.bytes_of(disk, ~(placement.replicas == disk.broker).any(axis=1))
        ]
        if left:
            raise RefusedError(relief.why_not(left))
        return placement

    def lower_bound(self, result: PlanningResult) -> LowerBound:
        relief, bound = _Relief.of(result), result.after.bound
        replicas = sum(map(relief.fewest, relief.disks))
        copied_bytes = sum(disk.too_many for disk in relief.disks)
        if bound is not None:
            copied_bytes = max(copied_bytes, bound.bytes)
        return replace(super().lower_bound(result), replicas=replicas, bytes=copied_bytes)

    def reason(self, result: PlanningResult) -> str:
        fullest = max(_read_disks(result), key=lambda disk: disk.use_percent)
        unknown = self.undone(result)
        known = " that is known" if unknown else ""
        done = (
            f"already done: each disk{result.in_scope}{known} is below "
            f"{result.request.below_percent} %; the fullest is {fullest.name} with "
            f"{int(10 * fullest.use_percent) / 10} %"
        )
        return "; ".join(filter(None, (done, unknown)))

    def undone(self, result: PlanningResult) -> str:
        """Return which brokers may be above the mark, since they tell no sizes."""
        cluster = result.cluster
        is_unknown = cluster.is_live & cluster.is_in_scope
        is_unknown[[disk.broker for disk in _read_disks(result)]] = False
        unknown = np.flatnonzero(is_unknown)
        if not len(unknown):
            return ""
        return (
            f"{result.list_brokers(unknown)} {verb(len(unknown), 'tells', 'tell')} no sizes of log "
            "dirs: whether a disk there is above the mark is not known, and nothing comes there"
        )


# -- disks


@dataclass(frozen=True, slots=True, eq=False)
class _Disk:
    """A file system of a broker."""

    broker: int  # its position
    name: str  # `broker 3`, or `broker 3 /data/a` where it has several
    paths: frozenset[str]  # of its log dirs; none where the broker alone tells its size
    total_bytes: int
    used_bytes: int  # other files included
    below_percent: int
    rows: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # that may move from it

    @property
    def use_percent(self) -> float:
        return 100 * self.used_bytes / self.total_bytes

    @property
    def room(self) -> int:
        """Return what may arrive so that its use stays below the mark; negative: what has to go."""
        return (self.total_bytes * self.below_percent - 1) // 100 - self.used_bytes

    @property
    def too_many(self) -> int:
        return max(0, -self.room)


def _read_disks(result: PlanningResult) -> list[_Disk]:
    """Return the disks of the brokers in scope, as far as their sizes are known.

    Raise InputError where none is.
    """
    cluster, snapshot = result.cluster, result.snapshot
    is_open = cluster.is_live & cluster.is_in_scope
    ids = cluster.broker_ids.tolist()
    told: dict[tuple[int, int | None, int | None], set[str]] = {}
    with_dirs = set()
    for row in snapshot.log_dirs.to_pylist():
        if row["error"] is None:
            with_dirs.add(row["broker_id"])
            key = row["broker_id"], row["total_bytes"], row["usable_bytes"]
            told.setdefault(key, set()).add(row["log_dir"])
    for row in snapshot.brokers.to_pylist():
        if row["broker_id"] not in with_dirs:
            told[row["broker_id"], row["disk_total_bytes"], row["disk_usable_bytes"]] = set()
    per_broker = Counter(broker_id for broker_id, *_ in told)
    disks = []
    for (broker_id, total, usable), paths in sorted(told.items(), key=lambda item: str(item[0])):
        position = bisect_left(ids, broker_id)
        if total and usable is not None and is_open[position]:
            path = f" {min(paths)}" if per_broker[broker_id] > 1 else ""
            known = frozenset(paths if path else ())
            name = f"broker {broker_id}{path}"
            percent = result.request.below_percent or 0
            disks.append(_Disk(position, name, known, total, total - usable, percent))
    if not disks:
        raise InputError(
            "no broker in scope tells how large its disks are (brokers from 3.3 on do, KIP-827), "
            "so nobody knows what is above the mark; give total_bytes and usable_bytes of log_dirs "
            "in the cluster document"
        )
    return disks


def _rows_on(result: PlanningResult, disk: _Disk) -> Ints:
    """Return the partitions that have a replica on the disk and may move.

    Raise InputError where the snapshot does not tell in which of several log dirs replicas are.
    """
    cluster = result.cluster
    may_move = cluster.may_change & cluster.may_elect
    rows = np.flatnonzero((cluster.replicas == disk.broker).any(axis=1) & may_move)
    if not disk.paths:
        return rows
    replicas = result.snapshot.replicas
    broker_id = int(cluster.broker_ids[disk.broker])
    of_broker = replicas.filter(pc.equal(replicas["broker_id"], broker_id)).to_pylist()
    if any(row["log_dir"] is None for row in of_broker):
        raise InputError(
            f"{disk.name} is above {disk.below_percent} %, and the snapshot does not tell which "
            "replicas are in it; plan from a fresh one (--cluster or --bootstrap)"
        )
    there = {(row["topic"], row["partition"]) for row in of_broker if row["log_dir"] in disk.paths}
    names = zip(cluster.topics.take(rows).to_pylist(), cluster.numbers[rows].tolist(), strict=True)
    return rows[[name in there for name in names]]


# -- which replicas, and where to


class _Move(NamedTuple):
    partition: int
    position: int
    destination: int


@dataclass(frozen=True, slots=True, eq=False)
class _Relief:
    """The disks above the mark, and the brokers that may receive."""

    result: PlanningResult
    disks: list[_Disk]  # above the mark, the one with most bytes too many first
    destinations: Ints
    room: Ints  # of each broker: bytes that may arrive

    @classmethod
    def of(cls, result: PlanningResult) -> "_Relief":
        disks = _read_disks(result)
        hot = sorted((disk for disk in disks if disk.too_many), key=lambda disk: disk.room)
        room = np.full(result.cluster.broker_count, -1)
        for broker, rooms in grouped((disk.broker, disk.room) for disk in disks).items():
            room[broker] = min(rooms)
        room = np.minimum(room, result.cluster.headroom_bytes)
        destinations = np.flatnonzero(result.roles.destinations & (room > 0))
        disks = [replace(disk, rows=_rows_on(result, disk)) for disk in hot]
        return cls(result, disks, destinations, room)

    @property
    def sizes(self) -> Ints:
        return self.result.cluster.size_bytes

    @property
    def cell_count(self) -> int:
        return sum(len(disk.rows) for disk in self.disks) * len(self.destinations)

    def bytes_of(self, disk: _Disk, is_moved: Flags) -> int:
        return int(self.sizes[disk.rows[is_moved[disk.rows]]].sum())

    def fewest(self, disk: _Disk) -> int:
        """Return how many of the largest replicas there add up to what is too many."""
        sizes = np.sort(self.sizes[disk.rows])[::-1]
        return min(len(sizes), int(np.searchsorted(np.cumsum(sizes), disk.too_many)) + 1)

    def able(self, placement: Placement, partition: int, position: int) -> Flags:
        """Return, per destination, whether it may have a replica, however much room there is."""
        cluster, brokers = placement.cluster, self.destinations
        may = ~np.isin(brokers, placement.replicas[partition])
        may &= placement.counts[brokers] < cluster.max_counts[brokers]
        may &= cluster.broker_sets[brokers] == cluster.sets_of_partitions[partition]
        replica = Replicas(np.array([partition]), np.array([position]))
        for rack in np.unique(cluster.racks[brokers]).tolist():
            may &= (cluster.racks[brokers] != rack) | placement.suits(replica, rack)
        return np.asarray(may)

    def choose(self) -> list[_Move]:
        """Return the moves that the sums of sizes give; some disks may stay above the mark."""
        placement, room = self.result.before.copy(), self.room.copy()
        moves: list[_Move] = []
        for disk in self.disks:
            needed, open_rows = disk.too_many, disk.rows[placement.new_replicas[disk.rows] == 0]
            while needed > 0 and (chosen := _cover(self.sizes[open_rows], needed)):
                for partition in open_rows[chosen].tolist():
                    size = int(self.sizes[partition])
                    position = _position(placement, partition, disk)
                    has_room = room[self.destinations] >= size
                    able = self.destinations[has_room & self.able(placement, partition, position)]
                    if needed <= 0 or not len(able):
                        continue
                    destination = int(able[np.argmax(room[able])])
                    placement.give(partition, position, destination)
                    room[destination] -= size
                    needed -= size
                    moves.append(_Move(partition, position, destination))
                open_rows = np.delete(open_rows, chosen)
        return moves

    def solve(self, hint: list[_Move]) -> tuple[list[_Move], CopyBound | None]:
        """Return the moves that copy least, and what any have to copy where that is proven."""
        from ortools.sat.python import cp_model

        placement, cluster = self.result.before, self.result.cluster
        model, cells = cp_model.CpModel(), {}
        unit = max(1, int(self.sizes.max(initial=0)) >> _SIZE_BITS)
        by_partition: dict[int, list[cp_model.IntVar]] = {}
        by_broker: dict[int, list[tuple[cp_model.IntVar, int]]] = {}
        hinted = set(hint)
        for disk in self.disks:
            leaving = []
            for partition in disk.rows.tolist():
                position = _position(placement, partition, disk)
                size, able = int(self.sizes[partition]), self.able(placement, partition, position)
                for destination in self.destinations[able].tolist():
                    move = _Move(partition, position, destination)
                    cell = cells[move] = model.new_bool_var("")
                    model.add_hint(cell, move in hinted)
                    by_partition.setdefault(partition, []).append(cell)
                    by_broker.setdefault(destination, []).append((cell, -(-size // unit)))
                    leaving.append(cell * (size // unit))
            model.add(sum(leaving) >= -(-disk.too_many // unit))
        for of_partition in by_partition.values():
            model.add(sum(of_partition) <= 1)
        for broker, arriving in by_broker.items():
            model.add(sum(cell * size for cell, size in arriving) <= int(self.room[broker]) // unit)
            most = max(0, int(cluster.max_counts[broker]) - int(placement.counts[broker]))
            model.add(sum(cell for cell, _ in arriving) <= min(most, len(arriving)))
        weight = len(by_partition) + 1  # of a byte, against a replica
        model.minimize(
            sum(
                cell * (int(self.sizes[move.partition]) // unit * weight + 1)
                for move, cell in cells.items()
            )
        )
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 1
        solver.parameters.max_deterministic_time = placement.search_limits.work
        status = solver.solve(model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return hint, None
        moves = [move for move, cell in cells.items() if solver.value(cell)]
        if status == cp_model.FEASIBLE:
            return moves, None
        copied_bytes = sum(int(self.sizes[move.partition]) for move in moves)
        rounding = unit * len(moves) if unit > 1 else 0
        return moves, CopyBound(len(moves), copied_bytes - rounding, is_reached=True)

    def why_not(self, left: Sequence[_Disk]) -> str:
        """Return why some disks stay above the mark, and what would do."""
        everything = np.ones(len(self.sizes), dtype=np.bool_)
        names, percent = join_names([disk.name for disk in left]), left[0].below_percent
        help_ = "keep fewer bytes (retention), add brokers or disk, or give a higher --below"
        for disk in left:
            movable_bytes = self.bytes_of(disk, everything)
            if movable_bytes < disk.too_many:
                return (
                    f"{disk.name} cannot get below {percent} %: {format_bytes(disk.too_many)} have "
                    f"to leave, and the replicas there that may move have "
                    f"{format_bytes(movable_bytes)}; the others are excluded, under reassignment "
                    f"or beside a dead broker, or other files take the space: {help_}"
                )
        needed = sum(disk.too_many for disk in self.disks)
        rooms: list[int] = self.room[self.destinations].tolist()
        elsewhere = f"{format_bytes(needed)} have to leave, and {format_bytes(sum(rooms))} fit"
        if sum(rooms) < needed:
            missing = format_bytes(needed - sum(rooms))
            return (
                f"{names} cannot get below {percent} %: {elsewhere} below it elsewhere; {missing} "
                f"of room are missing: {help_}"
            )
        largest = int(left[0].rows[np.argmax(self.sizes[left[0].rows])])
        name, size = self.result.cluster.name(largest), format_bytes(int(self.sizes[largest]))
        return (
            f"{names} cannot get below {percent} %: {elsewhere} elsewhere, at most "
            f"{format_bytes(max(rooms))} on one broker, but no way was found to fit whole "
            f"replicas into it (the largest on {left[0].name} is {name}, {size}), within racks, "
            f"broker sets and limits: {help_}"
        )


def _position(placement: Placement, partition: int, disk: _Disk) -> int:
    return int(np.flatnonzero(placement.replicas[partition] == disk.broker)[0])


def _cover(sizes: Ints, needed: int) -> list[int]:
    """Return which sizes add up to `needed`, or to a little more; none where all are too few.

    The largest that is not more than what is left comes first, again and again; then the smallest
    of the others, each of which is enough for the rest.
    """
    if int(sizes.sum()) < needed:
        return []
    chosen: list[int] = []
    others: list[int] = []
    for number in np.argsort(-sizes, kind="stable").tolist():
        size = int(sizes[number])
        if size > needed:
            others.append(number)
        elif size:
            chosen.append(number)
            needed -= size
    return [*chosen, others[-1]] if needed else chosen
