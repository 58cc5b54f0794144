"""Fewer bytes copied, by a linear program and its core; and what no plan as even can go below.

    copy_less(placement, choice, loads, is_pinned)

For clusters that are too large to be solved (`small`), and small enough for a linear program, after
the local search. Racks, counts, bytes, traffic and disks stay as good as they are.

    a variable per partition and broker that may hold it; least bytes copied, where
        each partition has its replicas, and as many per rack as now, or as it should have
        no partition gets another new replica than now beside its first
        each broker has a replica more or less than now, or as many; squares sum up to no more
        each broker holds bytes, and takes in traffic, in its band, or no farther outside than now
        no log dir gets fuller than it may
    1. the relaxation, where replicas may be split. It splits few: two or three rows of each broker
       couple the partitions, all others are those of a network. Its prices give a lower bound
    2. what would cost more than a plan near to the bound, by its reduced cost, keeps its value in
       any such plan. Of all others so many partitions are taken as the solver can choose from
    3. these, the core, by branch and bound

Worked example. The relaxation puts 0.4 of a replica of 2 GB on broker 1 and 0.6 on broker 2, and
copies 100 GB. For a plan that copies 100.5 GB at most, all that costs 0.5 GB more elsewhere is
fixed; 40 partitions remain. Of these a choice copies 100.1 GB, and no other one less than 100.

Work is counted in nodes and iterations of the solver (HiGHS in SciPy, one thread), never in
seconds: the same input gives the same plan. Limits: replicas larger than a share stay where they
are; how topics are spread is left to the search before and the leaders after, and nothing is done
where the request limits them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterpoise.model.columns import Flags, Ints, count_within
from counterpoise.model.racks import RackBounds, bounds_of_partition
from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.local_search import Load
from counterpoise.planning.placing.replica_choice import ReplicaChoice, stands_of

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MAX_REPLICAS: Final = 2_500  # more: `rack_program`
_MAX_CELLS: Final = 60_000  # variables of the relaxation
_NEAR: Final = 1.05  # of its value: what costs more by itself is in no plan that is looked for
_CORES: Final = (2_000, 3_500)  # variables: the second one where the first one has no plan
_MAX_NODES: Final = 40
_MAX_ITERATIONS: Final = 20_000
_GAP: Final = 0.001  # of the bound: so near is near enough
_SPLIT: Final = 1e-6
_ROUNDING: Final = 1e-9
_UNITS_IN_SHARE: Final = 1_000.0
COST_OF_A_COPY: Final = 1e-3  # units: of two choices that copy as much, the one with fewer copies
_MARGIN: Final = 1e-4  # units: the solver's rows may be off by less

Numbers: TypeAlias = NDArray[np.float64]


def copy_less(
    placement: Placement, choice: ReplicaChoice, loads: Sequence[Load], is_pinned: Flags
) -> int:
    """Move replicas so that fewer bytes are copied, where a linear program finds out how.

    Return the bytes that any placement as even copies; 0 where the cluster is too large.
    """
    program = _Program.of(placement, choice, loads, is_pinned)
    if program is None:
        return 0
    chosen, min_copied_bytes = program.solve()
    if chosen is not None:
        program.apply(placement, chosen)
    return min_copied_bytes


@dataclass(frozen=True, slots=True, eq=False)
class Relaxed:
    """The relaxation: replicas may be split."""

    value: float
    values: Numbers
    reduced_costs: Numbers  # what it costs at least to change each variable
    prices: Numbers  # of each row: what the value changes with its end


@dataclass(slots=True)
class Rows:
    """Rows of the program: coefficients by row and column, and what each row may sum up to."""

    row_numbers: list[Ints] = field(default_factory=list)
    columns: list[Ints] = field(default_factory=list)
    values: list[Numbers] = field(default_factory=list)
    low: list[Numbers] = field(default_factory=list)
    high: list[Numbers] = field(default_factory=list)
    is_bounding: list[Flags] = field(default_factory=list)  # any plan as even keeps to it
    count: int = 0

    def add(
        self,
        rows: Ints,
        columns: Ints,
        values: Numbers,
        low: Ints | Numbers,
        high: Ints | Numbers,
        *,
        is_bounding: bool = True,
    ) -> None:
        """Add as many rows as `low` and `high` have entries."""
        self.row_numbers.append(rows + self.count)
        self.columns.append(columns)
        self.values.append(values)
        self.low.append(np.asarray(low, dtype=np.float64))
        self.high.append(np.asarray(high, dtype=np.float64))
        self.is_bounding.append(np.full(len(low), is_bounding))
        self.count += len(low)

    def matrix(self, width: int) -> "csr_array":
        from scipy.sparse import coo_array

        entries = np.concatenate(self.values)
        places = np.concatenate(self.row_numbers), np.concatenate(self.columns)
        return coo_array((entries, places), shape=(self.count, width)).tocsr()

    def relaxed(self, costs: Numbers, upper: Numbers, method: str = "highs-ipm") -> Relaxed | None:
        """Return the relaxation of least cost; None where the solver finds none."""
        from scipy.optimize import linprog
        from scipy.sparse import vstack

        matrix = self.matrix(len(costs))
        low, high = np.concatenate(self.low), np.concatenate(self.high)
        is_equation = low == high
        answer = linprog(
            costs,
            A_eq=matrix[is_equation],
            b_eq=low[is_equation],
            A_ub=vstack([matrix[~is_equation], -matrix[~is_equation]]),
            b_ub=np.concatenate([high[~is_equation], -low[~is_equation]]),
            bounds=np.stack([np.zeros_like(upper), upper], axis=1),
            method=method,
            options={"maxiter": _MAX_ITERATIONS},
        )
        if answer.status != 0:
            return None
        prices = np.zeros(self.count)
        prices[is_equation] = answer.eqlin.marginals
        prices[~is_equation] = np.subtract(*np.split(answer.ineqlin.marginals, 2))
        reduced_costs = np.maximum(answer.lower.marginals, -answer.upper.marginals)
        return Relaxed(float(answer.fun), answer.x, reduced_costs, prices)

    def solved(self, costs: Numbers, low: Numbers, high: Numbers) -> Numbers | None:
        """Return the choice in whole numbers that costs least; None where none is found."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        ends = np.concatenate(self.low), np.concatenate(self.high)
        answer = milp(
            costs,
            constraints=LinearConstraint(self.matrix(len(costs)), *ends),
            integrality=np.ones_like(costs),
            bounds=Bounds(low, high),
            options={"node_limit": _MAX_NODES, "mip_rel_gap": _GAP},
        )
        return None if answer.x is None else np.round(answer.x)


def unit_of(load: Load) -> float:
    """Return the bytes, or bytes per second, that count as one: whole ones would be too large."""
    return max(1.0, float(load.band.fair.max(initial=0)) / _UNITS_IN_SHARE)


def rack_bounds(choice: ReplicaChoice, now: Flags) -> RackBounds:
    """Return how many replicas of each partition stand in each rack: as now, or as they should."""
    factors, stacks = now.sum(axis=1), now @ choice.in_rack.T
    rack_sizes = choice.start.cluster.rack_sizes(choice.roles.staying)
    lowest, highest = np.zeros_like(stacks), np.zeros_like(stacks)
    for factor in np.unique(factors).tolist():
        bounds = bounds_of_partition(factor, rack_sizes)
        lowest[factors == factor], highest[factors == factor] = bounds
    return RackBounds(np.minimum(lowest, stacks), np.maximum(highest, stacks))


@dataclass(eq=False)
class _Program:
    """The partitions and brokers that may change, as variables and rows."""

    placement: Placement
    choice: ReplicaChoice
    loads: Sequence[Load]
    partitions: Ints  # whose replicas are chosen
    home: Flags  # a row per partition of these, a column per broker: where it was
    now: Flags
    cells: tuple[Ints, ...]  # row and broker of each variable

    @classmethod
    def of(
        cls, placement: Placement, choice: ReplicaChoice, loads: Sequence[Load], is_pinned: Flags
    ) -> "_Program | None":
        """Return the program; None where it has too many variables, or nothing is copied."""
        is_free = ~is_pinned[choice.partitions]
        partitions = choice.partitions[is_free]
        home, now = choice.stands[is_free], stands_of(placement, partitions)
        sizes = placement.cluster.size_bytes[partitions]
        if not (sizes @ (now & ~home)).any():
            return None
        may_stand = (choice.may_stand[is_free] | now) & ~choice.roles.leaving
        must_stand = choice.must_stand[is_free] & now
        cells = np.nonzero((may_stand & ~must_stand) | (now & choice.roles.leaving))
        if len(cells[0]) > _MAX_CELLS:
            return None
        return cls(placement, choice, loads, partitions, home, now, cells)

    # -- columns

    @property
    def cell_count(self) -> int:
        return len(self.cells[0])

    @property
    def broker_count(self) -> int:
        return int(self.now.shape[1])

    @property
    def width(self) -> int:
        """Return the variables: the cells, and one more or one fewer replica per broker."""
        return self.cell_count + 2 * self.broker_count

    @cached_property
    def sizes(self) -> Ints:
        return np.asarray(self.placement.cluster.size_bytes[self.partitions])

    @cached_property
    def unit(self) -> float:
        """Return the bytes that count as one."""
        return unit_of(self.loads[0])

    @cached_property
    def is_new(self) -> Flags:
        return np.asarray(~self.home[self.cells])

    @cached_property
    def costs(self) -> Numbers:
        costs = np.zeros(self.width)
        copied = self.sizes[self.cells[0]] / self.unit + COST_OF_A_COPY
        costs[: self.cell_count] = np.where(self.is_new, copied, 0.0)
        return costs

    @cached_property
    def values_now(self) -> Numbers:
        values = np.zeros(self.width)
        values[: self.cell_count] = self.now[self.cells]
        return values

    @cached_property
    def upper(self) -> Numbers:
        """Return the most that each variable may be."""
        counts, sharing = self.placement.counts, self.choice.roles.sharing
        may_get_one = sharing & (counts < self.choice.max_counts)
        ones = np.ones(self.cell_count)
        return np.concatenate([ones, may_get_one, sharing & (counts > 0)]).astype(np.float64)

    # -- rows

    def _rows(self, *, margin: float) -> Rows:
        """Return all rows; loads keep a `margin` to the ends of their bands."""
        rows = Rows()
        fixed = self.now.copy()
        fixed[self.cells] = False
        self._add_partitions(rows, fixed)
        self._add_counts(rows, fixed)
        for load in self.loads:
            self._add_load(rows, fixed, load, margin, is_bounding=load is self.loads[0])
        self._add_room(rows)
        return rows

    def _add_partitions(self, rows: Rows, fixed: Flags) -> None:
        partition, broker = self.cells
        columns, ones = np.arange(self.cell_count), np.ones(self.cell_count)
        factors = self.now.sum(axis=1)
        open_count = factors - fixed.sum(axis=1)
        rows.add(partition, columns, ones, open_count, open_count)

        fixed_stacks = fixed @ self.choice.in_rack.T
        bounds = rack_bounds(self.choice, self.now)
        low, high = bounds.lowest - fixed_stacks, bounds.highest - fixed_stacks
        racks = self.placement.cluster.racks
        rack_of_cell = partition * fixed_stacks.shape[1] + racks[broker]
        cells_there = np.bincount(rack_of_cell, minlength=fixed_stacks.size)
        binds = ((low.ravel() > 0) | (high.ravel() < cells_there)) & (cells_there > 0)
        numbers = np.cumsum(binds) - 1
        is_bound = binds[rack_of_cell]
        rows.add(
            numbers[rack_of_cell[is_bound]],
            columns[is_bound],
            ones[is_bound],
            low.ravel()[binds],
            high.ravel()[binds],
        )
        is_new, new_now = self.is_new, (self.now & ~self.home).sum(axis=1)
        most = np.maximum(1, new_now) - (fixed & ~self.home).sum(axis=1)
        none = np.zeros_like(most)
        of_new = partition[is_new], columns[is_new], ones[is_new]
        rows.add(*of_new, none, most, is_bounding=False)

    def _add_counts(self, rows: Rows, fixed: Flags) -> None:
        """Keep counts: one more or one fewer on a broker, while the sum of squares, each times the
        broker's cost of a replica, gets no more.
        """
        brokers, first = np.arange(self.broker_count), self.cell_count
        more, fewer = first + brokers, first + self.broker_count + brokers
        ones = np.ones(self.broker_count)
        open_counts = self.now.sum(axis=0) - fixed.sum(axis=0)
        rows.add(
            np.concatenate([self.cells[1], brokers, brokers]),
            np.concatenate([np.arange(first), more, fewer]),
            np.concatenate([np.ones(first), -ones, ones]),
            open_counts,
            open_counts,
        )
        counts = self.placement.counts
        costs = self.choice.replica_costs / self.choice.replica_costs.min()
        squares = np.concatenate([(2 * counts + 1) * costs, -(2 * counts - 1) * costs])
        columns = np.concatenate([more, fewer])
        at_most, at_least = np.zeros(1), -np.abs(squares).sum(keepdims=True)
        rows.add(np.zeros_like(columns), columns, squares, at_least, at_most)

    def _add_load(
        self, rows: Rows, fixed: Flags, load: Load, margin: float, *, is_bounding: bool
    ) -> None:
        sharing = np.flatnonzero(self.choice.roles.sharing)
        unit = unit_of(load)
        weights = load.weights[self.partitions]
        others = load.held - weights @ (self.now & ~fixed)
        low = (np.minimum(load.band.lowest, load.held) - others) / unit
        high = (np.maximum(load.band.highest, load.held) - others) / unit
        numbers = np.full(self.broker_count, -1)
        numbers[sharing] = np.arange(len(sharing))
        is_counted = numbers[self.cells[1]] >= 0
        rows.add(
            numbers[self.cells[1][is_counted]],
            np.flatnonzero(is_counted),
            weights[self.cells[0][is_counted]] / unit,
            low[sharing] + margin,
            high[sharing] - margin,
            is_bounding=is_bounding,
        )

    def _add_room(self, rows: Rows) -> None:
        """Let no broker get more than its log dirs have room for, or than it gets now."""
        new_sizes = np.where(self.is_new, self.sizes[self.cells[0]], 0)
        at_most = np.bincount(self.cells[1], new_sizes, minlength=self.broker_count)
        arriving_now = self.sizes @ (self.now & ~self.home)
        others = self.placement.arriving - arriving_now
        room = np.maximum(self.placement.cluster.headroom_bytes - others, arriving_now)
        bound = np.flatnonzero(room < at_most)
        numbers = np.full(self.broker_count, -1)
        numbers[bound] = np.arange(len(bound))
        is_counted = (numbers[self.cells[1]] >= 0) & self.is_new
        rows.add(
            numbers[self.cells[1][is_counted]],
            np.flatnonzero(is_counted),
            new_sizes[is_counted] / self.unit,
            np.zeros_like(bound),
            room[bound] / self.unit,
        )

    # -- relaxation and core

    def solve(self) -> tuple[Flags | None, int]:
        """Return the best choice, None where the present one is, and a lower bound in bytes."""
        rows = self._rows(margin=0.0)
        relaxed = rows.relaxed(self.costs, self.upper)
        if relaxed is None:
            return None, 0
        best, found = None, float(self.costs @ self.values_now)
        tight_rows = self._rows(margin=_MARGIN)
        may_cost = min(relaxed.value * _NEAR, found) - relaxed.value
        for max_cells in _CORES if may_cost > relaxed.value * _GAP else ():
            is_free = self._core(relaxed, may_cost, max_cells)
            fixed = np.round(relaxed.values)
            low, high = np.where(is_free, 0.0, fixed), np.where(is_free, self.upper, fixed)
            chosen = tight_rows.solved(self.costs, low, high)
            if chosen is not None:
                is_better = self.costs @ chosen < found
                best = self._flags_of(chosen) if is_better else None
                break
        return best, self._bound(rows, relaxed.prices)

    def _core(self, relaxed: "Relaxed", may_cost: float, max_cells: int) -> Flags:
        """Return the variables to choose: of all split partitions, and of some others.

        Those are of all sizes, more of the large ones, so that what splits leave over finds a
        partition that makes up for it.
        """
        partition, count = self.cells[0], self.cell_count
        is_open = relaxed.reduced_costs <= may_cost
        open_cells = np.bincount(partition, is_open[:count], minlength=len(self.now))
        is_split_cell = np.abs(relaxed.values - np.round(relaxed.values))[:count] > _SPLIT
        is_chosen = np.bincount(partition, is_split_cell, minlength=len(self.now)) > 0
        others = np.flatnonzero((open_cells > 0) & ~is_chosen)
        others = others[np.lexsort((others, -self.sizes[others]))]
        space = max(0.0, max_cells - open_cells[is_chosen].sum())
        share = min(1.0, space / max(1.0, open_cells[others].sum()))
        steps = np.arange(int(len(others) * share)) / max(1, int(len(others) * share))
        picks = steps if share == 1.0 else steps * steps
        is_chosen[others[np.unique((len(others) * picks + 0.5).astype(np.int64))]] = True
        is_open[:count] &= is_chosen[partition]
        return np.asarray(is_open)

    def _bound(self, rows: "Rows", prices: Numbers) -> int:
        """Return the bytes that any choice as even copies, by weak duality.

        With a price for each row, a choice costs at least what its cells cost at these prices. That
        holds for any prices: so those of rows that a plan need not keep to are left out (traffic,
        several new replicas), and the cells of each partition are chosen anew, the cheapest ones.
        Worked example: two replicas to place, three cells for 0, 2 and 5: at least 2.
        """
        kept = np.where(np.concatenate(rows.is_bounding), prices, 0.0)
        open_counts = rows.low[0]
        kept[: len(open_counts)] = 0.0  # rows of the partitions
        sizes = self.sizes[self.cells[0]] / self.unit
        costs = np.zeros(self.width)
        costs[: self.cell_count] = np.where(self.is_new, sizes, 0.0)
        left = costs - rows.matrix(self.width).T @ kept
        ends = np.where(kept > 0, np.concatenate(rows.low), np.concatenate(rows.high))
        partition, of_cells = self.cells[0], left[: self.cell_count]
        cheapest_first = np.lexsort((of_cells, partition))
        ranks = count_within(np.bincount(partition, minlength=len(open_counts)))
        is_chosen = ranks < open_counts[partition[cheapest_first]]
        value = float(kept @ np.where(kept == 0, 0.0, ends))
        value += float(of_cells[cheapest_first][is_chosen].sum())
        value += float((np.minimum(0, left) * self.upper)[self.cell_count :].sum())
        return int(max(0.0, value * (1 - _ROUNDING)) * self.unit)

    def _flags_of(self, values: Numbers) -> Flags:
        chosen = self.now.copy()
        chosen[self.cells] = values[: self.cell_count] > 0
        return chosen

    def apply(self, placement: Placement, chosen: Flags) -> None:
        """Set the chosen replicas; those that stay keep their places."""
        rows = placement.replicas.copy()
        for number in np.flatnonzero((chosen != self.now).any(axis=1)).tolist():
            row = rows[self.partitions[number]]
            is_gone = ~chosen[number][row] & (row >= 0)
            row[is_gone] = np.flatnonzero(chosen[number] & ~self.now[number])
        placement.reset_to(rows)
