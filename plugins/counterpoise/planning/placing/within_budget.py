"""The most even cluster that so many bytes buy: racks first, then counts, then bytes.

    place_within(placement, choice, find_band, is_counted, max_bytes, hint)     # small clusters
    search_within(placement, roles, policy, max_counts, max_bytes)              # all others

Both start from the present placement. In small clusters the budget is a constraint of the integer
program of `small`, which is solved for one part of the order after the other:

    replicas left on brokers that leave, pairs of replicas in the same rack, squares of the counts,
    bytes outside the band, bytes copied

In larger ones what buys most for its bytes comes first:

    racks    the smallest partitions that are not spread evenly
    counts   the smallest replicas of brokers that have too many, to those that lack some: first
             those that take most off the sum of squares for their bytes
    bytes    the exchanges of `local_search`, as long as what they copy is left

Worked example: broker 1 holds replicas of 1, 2 and 9 GB, broker 2 none; 3 GB may be copied. Counts
are 2 and 1 once the replica of 1 GB has moved; 2 GB are left, and to exchange it for that of 2 GB
brings bytes nearer. The plan without a budget would move 9 GB.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from counterpoise.model.columns import Flags, Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.model.policy import BalancePolicy
from counterpoise.planning.fair_shares import count_targets, replica_costs
from counterpoise.planning.placement import Placement, Roles
from counterpoise.planning.placing.local_search import Search
from counterpoise.planning.placing.replica_choice import ReplicaChoice, stands_of
from counterpoise.planning.placing.small import Program
from counterpoise.planning.placing.spread import repair_racks

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

_MAX_SEARCHES: Final = 4


def place_within(
    placement: Placement,
    choice: ReplicaChoice,
    find_band: Callable[[Placement], ByteBand],
    is_counted: Flags,
    max_bytes: int,
    hint: Placement,
) -> None:
    """Place replicas as well as so many copied bytes allow; `hint` is one way to do it."""
    if not len(choice.partitions):  # a broker set whose topics are all excluded
        return
    program = _BudgetProgram(choice, choice.stands, is_counted)
    program.limit(program.copied_units(), max_bytes // program.unit)
    chosen = stands_of(hint, choice.partitions)
    for objective in (program.left_behind(), program.pairs, program.squares):
        chosen = program.improve(objective, chosen)

    def band_of(choice_made: Flags) -> tuple[ByteBand, int]:
        """Return the band of a choice, and the bytes outside of it."""
        choice.apply(placement, choice_made)
        band = find_band(placement)
        return band, int(band.bytes_outside(placement.bytes_held)[is_counted].sum())

    band, _ = band_of(chosen)
    for _ in range(_MAX_SEARCHES):  # racks that are not even make the band another one
        outside = program.add_band(band)
        chosen = program.solve(outside, chosen).chosen
        asked_for, (band, bytes_outside) = band, band_of(chosen)
        if asked_for.is_about(band):
            break
    program.limit(outside, program.bytes_off(chosen))
    cheapest = program.improve(program.copying_costs(), chosen)
    if band_of(cheapest)[1] > bytes_outside:
        choice.apply(placement, chosen)


class _BudgetProgram(Program):
    """The program with counts as an objective, since a budget may not buy the best ones."""

    squares: "cp_model.LinearExprT"

    def _add_counts(self) -> None:
        choice = self._choice
        costs = replica_costs(choice.start.cluster, choice.roles)
        limits = np.maximum(choice.max_counts, choice.start.counts) - choice.fixed_counts
        held = self._flow.sum(axis=0)
        squares: list[cp_model.LinearExprT] = []
        for broker in range(len(held)):
            replicas = sum(self._on(broker))
            if not self._is_counted[broker]:
                self._model.add(replicas <= int(held[broker]))
                continue
            most = min(len(self._variables), int(limits[broker]))
            units = [self._model.new_bool_var("") for _ in range(most)]
            self._model.add(replicas == sum(units))
            first = int(choice.fixed_counts[broker])
            for number, unit in enumerate(units):
                squares.append(unit * ((2 * (first + number) + 1) * int(costs[broker])))

                def is_held(chosen: Flags, broker: int = broker, number: int = number) -> int:
                    return int(chosen[:, broker].sum() > number)

                self._derived.append((unit, is_held))
        self.squares = sum(squares)

    @property
    def unit(self) -> int:
        """Return the bytes of a unit of size."""
        return self._unit

    def copied_units(self) -> "cp_model.LinearExprT":
        stands = self._choice.stands
        total: cp_model.LinearExprT = sum(
            variable * self._sizes[row]
            for (row, broker), variable in self._cells.items()
            if not stands[row, broker]
        )
        return total

    def left_behind(self) -> "cp_model.LinearExprT":
        """Return the replicas on brokers that leave."""
        leaving = self._choice.roles.leaving
        total: cp_model.LinearExprT = sum(
            variable for (_, broker), variable in self._cells.items() if leaving[broker]
        )
        return total

    def improve(self, objective: "cp_model.LinearExprT", chosen: Flags) -> Flags:
        """Return the best choice found, and keep its value from now on."""
        if isinstance(objective, int):
            return chosen
        solution = self.solve(objective, chosen)
        self.limit(objective, solution.value)
        return solution.chosen


def search_within(
    placement: Placement, roles: Roles, policy: BalancePolicy, max_counts: Ints, max_bytes: int
) -> None:
    """Place replicas for what buys most, while bytes are left."""
    wanted = count_targets(placement, roles, max_counts)
    repair_racks(placement, roles, wanted, max_counts, max_bytes)
    wanted = count_targets(placement, roles, max_counts)
    search = Search.of(
        placement, roles, policy, may_copy_for_traffic=True, max_copied_bytes=max_bytes
    )
    search.buy_counts(wanted)
    search.run()
    placement.traffic_gains |= search.gains
