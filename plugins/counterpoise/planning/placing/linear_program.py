"""A linear program: its rows, and its solution.

    rows = Rows()
    rows.add(row_numbers, columns, coefficients, low, high)
    split = rows.relaxed(costs, upper)            # values, and the price of each row
    whole = rows.solved(costs, upper, is_whole)

Work is counted in nodes and iterations of the solver (HiGHS in SciPy, one thread), never in
seconds: the same input gives the same plan.

Worked example: two variables from 0 to 1 that cost 3 and 5, and a row that says that they sum up to
1.5: the values are 1 and 0.5, and the price of the row is 5, what one more would cost.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterpoise.model.columns import Flags, Ints

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_MAX_NODES: Final = 20
_MAX_ITERATIONS: Final = 20_000
_GAP: Final = 0.001  # of the bound: so near is near enough

Numbers: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    values: Numbers
    prices: Numbers  # of each row: what the cost changes with its end; 0 in whole numbers


@dataclass(slots=True)
class Rows:
    """Rows of the program: coefficients by row and column, and what each row may sum up to."""

    row_numbers: list[Ints] = field(default_factory=list)
    columns: list[Ints] = field(default_factory=list)
    values: list[Numbers] = field(default_factory=list)
    low: list[Numbers] = field(default_factory=list)
    high: list[Numbers] = field(default_factory=list)
    count: int = 0

    def add(
        self,
        rows: Ints,
        columns: Ints,
        values: Numbers,
        low: Ints | Numbers,
        high: Ints | Numbers,
    ) -> None:
        """Add as many rows as `low` and `high` have entries."""
        self.row_numbers.append(rows + self.count)
        self.columns.append(columns)
        self.values.append(values)
        self.low.append(np.asarray(low, dtype=np.float64))
        self.high.append(np.asarray(high, dtype=np.float64))
        self.count += len(low)

    def matrix(self, width: int) -> "csr_array":
        from scipy.sparse import coo_array

        entries = np.concatenate(self.values)
        places = np.concatenate(self.row_numbers), np.concatenate(self.columns)
        return coo_array((entries, places), shape=(self.count, width)).tocsr()

    def relaxed(self, costs: Numbers, upper: Numbers) -> Solution | None:
        """Return the choice of least cost, in which replicas may be split; None where the solver
        finds none.
        """
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
            method="highs-ds",
            options={"maxiter": _MAX_ITERATIONS},
        )
        if answer.status != 0:
            return None
        prices = np.zeros(self.count)
        prices[is_equation] = answer.eqlin.marginals
        prices[~is_equation] = np.subtract(*np.split(answer.ineqlin.marginals, 2))
        return Solution(answer.x, prices)

    def solved(self, costs: Numbers, upper: Numbers, is_whole: Flags) -> Solution | None:
        """Return the choice of least cost in which some variables are whole, by branch and bound;
        None where none is found.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp

        ends = np.concatenate(self.low), np.concatenate(self.high)
        answer = milp(
            costs,
            constraints=LinearConstraint(self.matrix(len(costs)), *ends),
            integrality=is_whole,
            bounds=Bounds(np.zeros_like(upper), upper),
            options={"node_limit": _MAX_NODES, "mip_rel_gap": _GAP},
        )
        if answer.x is None:
            return None
        values = np.where(is_whole, np.round(answer.x), answer.x)
        return Solution(values, np.zeros(self.count))
