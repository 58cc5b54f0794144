"""The best choice of replicas, proven: all in small clusters, racks and counts in larger ones.

    is_placed = place_best(placement, choice, find_band, is_counted)
    make_counts_best(placement, choice)

    1. racks, counts and least bytes by a flow (`replica_choice`)
    2. if that leaves bytes outside the band: an integer program, with a variable per partition and
       broker; racks and counts as good as the flow's
           first:  least bytes outside the band, over all brokers that count
           second: with no more than that, least bytes copied, then fewest replicas copied
    3. if a partition would get several new replicas: with no more than all that, the fewest such

Racks: every partition has as few pairs of replicas in the same rack as in the flow's answer; where
a constraint keeps some from as few as they could have, so few in all. Counts: choices whose sum of
squared counts is least differ by at most 1 per broker (Frank and Murota, Decreasing minimization on
M-convex sets: they are a matroid's bases, shifted), so each broker holds one replica more or less
than in the flow's answer, or as many, and the squares add up to no more.

Worked example: brokers 1 and 2 hold 2 replicas each, of 8 + 4 and 3 + 1 GB; the band is 7.2 to 8.8
GB. To exchange 4 for 1 leaves 9 and 7 GB, to exchange 8 for 3 leaves 7 and 9 GB. Both are 0.4 GB
out of the band; the first copies 5 GB, the second 11, so the first is chosen.

Limits: up to as many replicas to choose as `SearchLimits` say. What is larger, or would fill a disk
too far, is left to the ways of large clusters, which come near; False says so. Where they leave
racks or counts less even than can be, `make_counts_best` finds the nearest choice that is. The
program's work grows with luck, not only with size. It stops after as many steps as the limits say
(counted by the solver, not by a clock: the same answer on every machine), and says whether its
answer is proven. Sizes count in units of 2^-22 of the largest. To be nearer to the band by less
than that, or than a ten-thousandth of what is outside, is not worth a copy.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import mul
from typing import TYPE_CHECKING, Final

import numpy as np

from counterpoise.model.columns import Flags, Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.planning.placement import CopyBound, Placement, Roles
from counterpoise.planning.placing.replica_choice import (
    ReplicaChoice,
    are_costs_exact,
    copy_fewest_bytes,
    nearest_to,
    stands_of,
)

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

_MIN_GAIN: Final = 10  # a tenth
_MAX_SEARCHES: Final = 4
_MAX_CELLS: Final = 300_000  # partitions x brokers of a flow that takes some seconds
_SIZE_BITS: Final = 22
_GAP: Final = 1e-4  # so near to the bound counts as proven


def is_affordable(placement: Placement, destinations: Flags, partition_count: int) -> bool:
    """Return whether a flow over so many partitions is, to destinations and to where they are."""
    brokers_of_each = int(destinations.sum()) + int(placement.replicas.shape[1])
    return partition_count * brokers_of_each <= _MAX_CELLS


def place_best(
    placement: Placement,
    choice: ReplicaChoice,
    find_band: Callable[[Placement], ByteBand],
    is_counted: Flags,
) -> bool:
    """Place replicas as well as can be; False where that would fill a disk too far.

    The placement then knows what any plan as good has to copy.
    """
    if not choice.replica_count:
        return True
    chosen = copy_fewest_bytes(choice)
    if not choice.has_room_for(chosen):
        return False
    fewest = int((nearest_to(choice, choice.stands) & ~choice.stands).sum())
    copied_bytes = int((choice.sizes @ (chosen & ~choice.stands)).sum())
    bound = CopyBound(fewest, copied_bytes, is_reached=True)
    after = placement.copy()
    choice.apply(after, chosen)
    band = find_band(after)
    outside = int(band.bytes_outside(after.bytes_held)[is_counted].sum())
    if outside:
        answer, band = _within_its_band(after, choice, chosen, band, find_band, is_counted)
        bound = CopyBound(fewest, max(bound.bytes, answer.min_copied_bytes), answer.is_proven)
        still_outside = int(band.bytes_outside(after.bytes_held)[is_counted].sum())
        is_start_best = bool((chosen == choice.stands).all())
        is_worth_it = still_outside <= outside - outside // _MIN_GAIN
        if answer.is_proven or not is_start_best or is_worth_it:
            chosen = answer.chosen
    chosen = _with_fewest_several(choice, chosen, band, is_counted)
    choice.apply(placement, chosen)
    placement.bound = bound
    return True


def _with_fewest_several(
    choice: ReplicaChoice, chosen: Flags, band: ByteBand, is_counted: Flags
) -> Flags:
    """Return a choice as good, with the fewest new replicas beside another one of a partition."""
    if (choice.new_replicas(chosen) <= 1).all():
        return chosen
    program = Program(choice, chosen, is_counted)
    outside, copied = program.add_band(band), program.copying_costs()
    program.limit(outside, program.bytes_off(chosen))
    program.limit(copied, program.cost_of_copying(chosen))
    return program.solve(program.several_new(), chosen).chosen


def _within_its_band(
    after: Placement,
    choice: ReplicaChoice,
    chosen: Flags,
    band: ByteBand,
    find_band: Callable[[Placement], ByteBand],
    is_counted: Flags,
) -> "tuple[_BandAnswer, ByteBand]":
    """Set the replicas nearest to the band which they themselves have; return answer and band.

    `band` is the one of the replicas as they are before.

    Where not every partition can be on as many racks as it should be, what a rack has to hold, and
    with it each fair share, depends on which partitions are. An answer that changes the band is
    asked for again with the new one; without an end to that it is not proven.
    """
    for _ in range(_MAX_SEARCHES):
        answer = _nearest_to_band(choice, chosen, band, is_counted)
        choice.apply(after, answer.chosen)
        asked_for, band = band, find_band(after)
        if asked_for.is_about(band):
            return answer, band
    return replace(answer, is_proven=False), band


def solve(
    placement: Placement,
    choose: Callable[[Placement], ReplicaChoice],
    find_band: Callable[[Placement], ByteBand],
    is_counted: Flags,
) -> bool:
    """Place replicas as `place_best` does, and return the same; search on where it is unproven.

    An unproven answer has to take a tenth off what is outside the band, or replicas stay as they
    are in racks and counts that are the best already. So the last search here finds what the first
    one of another plan would find: nothing that is worth a move.
    """
    if not place_best(placement, choose(placement), find_band, is_counted):
        return False
    bound = placement.bound
    for _ in range(_MAX_SEARCHES):
        if placement.bound is None or placement.bound.is_reached:
            break
        again = placement.as_cluster()
        if not place_best(again, choose(again), find_band, is_counted):
            break
        if (again.replicas == placement.replicas).all():
            break
        placement.reset_to(again.replicas)
        placement.bound = again.bound
    if bound is not None and not bound.is_reached:
        placement.bound = bound
    return True


def make_counts_best(placement: Placement, choice: ReplicaChoice) -> bool:
    """Change as few replicas as can be until racks and counts are the best that there are.

    False where that cannot be told exactly, or would fill a disk too far.
    """
    if not are_costs_exact(choice):
        return False
    chosen = nearest_to(choice, stands_of(placement, choice.partitions))
    if not choice.has_room_for(chosen):
        return False
    choice.apply(placement, chosen)
    return True


def best_counts(placement: Placement, roles: Roles) -> Ints:
    """Return replicas per broker that no moves between all that share could make more even.

    The cluster has to be small.
    """
    choice = ReplicaChoice.to_even(placement, roles.unrestricted)
    return choice.counts_of(nearest_to(choice, choice.stands))


def _pairs_in(rack_counts: Ints) -> Ints:
    """Return, per partition, the pairs of replicas in the same rack."""
    return np.asarray((rack_counts * (rack_counts - 1) // 2).sum(axis=1))


# -- bytes within the band, by an integer program


@dataclass(frozen=True, slots=True, eq=False)
class _BandAnswer:
    chosen: Flags
    is_proven: bool
    min_copied_bytes: int  # no choice as good in racks, counts and the band copies less


def _nearest_to_band(
    choice: ReplicaChoice, chosen: Flags, band: ByteBand, is_counted: Flags
) -> _BandAnswer:
    """Return the choice whose bytes are nearest to the band; of those the one that copies least."""
    program = Program(choice, chosen, is_counted)
    outside = program.add_band(band)
    first = program.solve(outside, chosen)
    program.limit(outside, first.value + program.rounding + int(first.value * _GAP))
    second = program.solve(program.copying_costs(), first.chosen)
    is_proven = first.is_proven and second.is_proven
    return _BandAnswer(second.chosen, is_proven, program.bytes_of(second.bound))


@dataclass(frozen=True, slots=True, eq=False)
class _Solution:
    chosen: Flags
    value: int
    bound: int

    @property
    def is_proven(self) -> bool:
        return self.value <= self.bound + int(self.value * _GAP)


class Program:
    """The integer program; racks and counts as good as those of the flow's answer."""

    def __init__(self, choice: ReplicaChoice, chosen: Flags, is_counted: Flags) -> None:
        from ortools.sat.python import cp_model

        self._work = choice.start.search_limits.work
        self._choice, self._flow, self._is_counted = choice, chosen, is_counted
        self._model = cp_model.CpModel()
        self._cells: dict[tuple[int, int], cp_model.IntVar] = {
            (row, broker): self._model.new_bool_var("")
            for row, broker in np.argwhere(choice.is_open).tolist()
        }
        self._variables: list[list[cp_model.IntVar | int]] = [
            [self._cells.get((row, broker), is_fixed) for broker, is_fixed in enumerate(fixed)]
            for row, fixed in enumerate(choice.must_stand.astype(np.int64).tolist())
        ]
        # What other variables are where replicas stand as a hint says: with it the hint is whole.
        self._derived: list[tuple[cp_model.IntVar, Callable[[Flags], int]]] = []
        self._bytes_off_of: list[
            Callable[[Flags], int]
        ] = []  # of each broker, in the band that was added last
        self._unit = max(1, int(choice.sizes.max(initial=0)) >> _SIZE_BITS)
        self._sizes: list[int] = (-(-choice.sizes // self._unit)).tolist()
        self._add_racks()
        self._add_topics()
        self._add_counts()

    def _on(self, broker: int, rows: Sequence[int] | None = None) -> "list[cp_model.IntVar | int]":
        """Return the variables of a broker, of some rows or of all."""
        rows = range(len(self._variables)) if rows is None else rows
        return [self._variables[row][broker] for row in rows]

    def _add_racks(self) -> None:
        """Keep each partition as even over racks as in the flow's answer.

        Where a constraint keeps some less even than they could be, it may be others; all together
        are then as even, and each as even as in the flow's answer or before.
        """
        choice, in_rack = self._choice, self._choice.in_rack
        factors = self._flow.sum(axis=1).tolist()
        pairs = _pairs_in(self._flow @ in_rack.T)
        pairs_before = _pairs_in((choice.stands & ~choice.roles.leaving) @ in_rack.T)
        is_each_best = bool((pairs == choice.fewest_pairs(self._flow.sum(axis=1))).all())
        limits = pairs if is_each_best else np.maximum(pairs, pairs_before)
        brokers_of_rack = [np.flatnonzero(is_in_rack).tolist() for is_in_rack in in_rack]
        all_pairs: list[cp_model.LinearExprT] = []
        for row, variables in enumerate(self._variables):
            self._model.add(sum(variables) == factors[row])
            for broker in np.flatnonzero(choice.roles.leaving & ~self._flow[row]).tolist():
                self._model.add(variables[broker] == 0)
            of_row: list[cp_model.LinearExprT] = []
            for brokers in brokers_of_rack:
                of_row += self._pairs(row, brokers, int(limits[row]))
            self._model.add(sum(of_row) <= int(limits[row]))
            all_pairs += of_row
        self.pairs: cp_model.LinearExprT = sum(all_pairs)
        if not is_each_best:
            self._model.add(self.pairs <= int(pairs.sum()))

    def _pairs(self, row: int, brokers: list[int], limit: int) -> "list[cp_model.LinearExprT]":
        """Return terms whose sum is at least the pairs among the replicas of a row in a rack.

        The replica number k + 1 in a rack makes k pairs more.
        """
        highest = min(len(brokers), int(self._flow[row].sum()), limit + 1)
        further = [self._model.new_bool_var("") for _ in range(1, highest)]
        in_rack = sum(self._variables[row][broker] for broker in brokers)
        self._model.add(in_rack <= 1 + sum(further))
        for pairs, variable in enumerate(further, start=1):

            def is_needed(chosen: Flags, pairs: int = pairs) -> int:
                return int(chosen[row, brokers].sum() > pairs)

            self._derived.append((variable, is_needed))
        return [pairs * variable for pairs, variable in enumerate(further, start=1)]

    def _add_topics(self) -> None:
        """Keep topics as little concentrated as the limits say, or as in the flow's answer."""
        cluster = self._choice.start.cluster
        topics = cluster.topic_numbers[self._choice.partitions]
        for topic in np.unique(topics).tolist():
            rows = np.flatnonzero(topics == topic).tolist()
            others = self._choice.start.topic_counts[topic] - self._choice.stands[rows].sum(axis=0)
            limits = self._choice.topic_limits[topic] - others
            limits = np.maximum(limits, self._flow[rows].sum(axis=0))
            for broker in np.flatnonzero(limits < len(rows)).tolist():
                self._model.add(sum(self._on(broker, rows)) <= int(limits[broker]))

    def _add_counts(self) -> None:
        counts = self._flow.sum(axis=0).tolist()
        held = self._choice.counts_of(self._flow)
        brokers = np.arange(len(held))
        costs = self._choice.unit_costs(np.tile(brokers, 2), np.concatenate([held, held - 1]))
        gained, lost = costs[: len(held)].tolist(), costs[len(held) :].tolist()
        limits = self._choice.max_counts - self._choice.fixed_counts
        limits = np.maximum(limits, self._flow.sum(axis=0)).tolist()
        changes = []
        for broker, count in enumerate(counts):
            replicas = sum(self._on(broker))
            if not self._is_counted[broker]:
                self._model.add(replicas == count)
                continue
            more, fewer = self._model.new_bool_var(""), self._model.new_bool_var("")
            self._model.add(replicas == count + more - fewer)
            self._derived.append((more, partial(self._is_more, broker=broker, count=count)))
            self._derived.append((fewer, partial(self._is_fewer, broker=broker, count=count)))
            self._model.add(replicas <= limits[broker])
            self._model.add(more + fewer <= 1)
            changes.append(more * gained[broker] - fewer * lost[broker])
        self._model.add(sum(changes) <= 0)

    @staticmethod
    def _is_more(chosen: Flags, broker: int, count: int) -> int:
        return int(chosen[:, broker].sum() > count)

    @staticmethod
    def _is_fewer(chosen: Flags, broker: int, count: int) -> int:
        return int(chosen[:, broker].sum() < count)

    def add_band(self, band: ByteBand) -> "cp_model.LinearExprT":
        """Add the bytes outside the band, and the room on disks; return their sum."""
        self._bytes_off_of.clear()
        choice, outside = self._choice, []
        fixed = -(-choice.fixed_bytes // self._unit)
        rounding = choice.counts_of(self._flow) + 1 if self._unit > 1 else 0  # sizes count up
        highest, lowest = band.highest // self._unit, -(-band.lowest // self._unit) + rounding
        room = np.minimum(choice.start.cluster.headroom_bytes // self._unit, sum(self._sizes))
        stands = choice.stands.tolist()
        max_bytes_off = int(fixed.sum()) + len(stands) * sum(self._sizes)
        for broker in np.flatnonzero(self._is_counted).tolist():
            replicas = self._on(broker)
            bytes_held = sum(map(mul, replicas, self._sizes)) + int(fixed[broker])
            bytes_off = self._model.new_int_var(0, max_bytes_off, "")
            self._model.add(bytes_held - bytes_off <= int(highest[broker]))
            self._model.add(bytes_held + bytes_off >= int(lowest[broker]))
            value_with = partial(
                self._bytes_off,
                broker=broker,
                fixed=int(fixed[broker]),
                lowest=int(lowest[broker]),
                highest=int(highest[broker]),
            )
            self._derived.append((bytes_off, value_with))
            self._bytes_off_of.append(value_with)
            outside.append(bytes_off)
            new_sizes = [
                0 if row[broker] else size for row, size in zip(stands, self._sizes, strict=True)
            ]
            self._model.add(sum(map(mul, replicas, new_sizes)) <= int(room[broker]))
        return sum(outside)

    def _bytes_off(self, chosen: Flags, broker: int, fixed: int, lowest: int, highest: int) -> int:
        held = int(np.array(self._sizes) @ chosen[:, broker]) + fixed
        return max(0, held - highest, lowest - held)

    @property
    def rounding(self) -> int:
        """Return by how much sizes in units can be too large, over all replicas."""
        return self._choice.replica_count if self._unit > 1 else 0

    def limit(self, expression: "cp_model.LinearExprT", value: int) -> None:
        self._model.add(expression <= value)

    def copying_costs(self) -> "cp_model.LinearExprT":
        """Return bytes copied, and replicas copied where these are the same."""
        stands = self._choice.stands.tolist()
        return sum(
            variable * (size * self._copy_weight + 1)
            for variables, row, size in zip(self._variables, stands, self._sizes, strict=True)
            for variable, is_there in zip(variables, row, strict=True)
            if not is_there
        )

    def cost_of_copying(self, chosen: Flags) -> int:
        costs = np.array(self._sizes) * self._copy_weight + 1
        return int(costs @ self._choice.new_replicas(chosen))

    def bytes_off(self, chosen: Flags) -> int:
        """Return the bytes outside the band, in units, of a choice."""
        return sum(value_with(chosen) for value_with in self._bytes_off_of)

    def several_new(self) -> "cp_model.LinearExprT":
        """Return how many partitions keep no replica, and how many new replicas come beside another
        new one of their partition; the former before the latter.
        """
        beside: list[cp_model.LinearExprT] = []
        factors = self._choice.factors.tolist()
        for row, (variables, stands) in enumerate(
            zip(self._variables, self._choice.stands.tolist(), strict=True)
        ):
            new = [one for one, is_there in zip(variables, stands, strict=True) if not is_there]
            further = self._model.new_int_var(0, len(new), "")
            self._model.add(sum(new) - further <= 1)
            self._derived.append((further, partial(self._more_new_than, row=row, number=1)))
            beside.append(further)
            if factors[row] > 1:
                keeps_none = self._model.new_bool_var("")
                kept = factors[row] - 1
                self._model.add(sum(new) - keeps_none <= kept)
                value_with = partial(self._more_new_than, row=row, number=kept)
                self._derived.append((keeps_none, value_with))
                beside.append(keeps_none * self._copy_weight)
        total: cp_model.LinearExprT = sum(beside)
        return total

    def _more_new_than(self, chosen: Flags, row: int, number: int) -> int:
        return max(0, int(self._choice.new_replicas(chosen)[row]) - number)

    @property
    def _copy_weight(self) -> int:
        return self._choice.replica_count + 1

    def bytes_of(self, cost: int) -> int:
        """Return the bytes that such a cost of copying has at least."""
        units = -(-(cost - self._choice.replica_count) // self._copy_weight)
        return max(0, units - self._choice.replica_count) * self._unit

    def solve(self, objective: "cp_model.LinearExprT", hint: Flags) -> _Solution:
        """Return the best choice that the solver finds, `hint` or a better one."""
        from ortools.sat.python import cp_model

        self._model.clear_hints()  # type: ignore[no-untyped-call]  # ortools types all but this
        for (row, broker), variable in self._cells.items():
            self._model.add_hint(variable, bool(hint[row, broker]))
        for derived, value_with in self._derived:
            self._model.add_hint(derived, value_with(hint))
        self._model.minimize(objective)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 1
        solver.parameters.linearization_level = 2
        solver.parameters.relative_gap_limit = _GAP
        solver.parameters.max_deterministic_time = self._work
        status = solver.solve(self._model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            name = solver.status_name(status)
            raise AssertionError(f"the hint is a solution, but the solver says {name}")
        values = [[bool(solver.value(variable)) for variable in row] for row in self._variables]
        value, bound = round(solver.objective_value), math.ceil(solver.best_objective_bound - 0.5)
        return _Solution(np.array(values, dtype=np.bool_), value, bound)
