"""Leaders by bytes-in of a small cluster, by an integer program.

    leaders = nearest_to_band(candidates, leaders, band)

Counts stay as even as they are, and no topic gets less even. Then, each before the next:

    1. the largest bytes-in above the band
    2. bytes-in outside the band, over all brokers
    3. changes of leader

    a variable per partition and broker that may lead it
    leaders of a topic on a broker, and of all topics:
        the one after k others costs 2k + 1: so much do the squares grow
        the sum of a topic is at most what it is now, and so is that of all topics together

Worked example: brokers 1 and 2 lead 9 + 2 + 1 and 1 + 1 + 1 MB/s, and each partition has a replica
on both. To exchange 9 for 1 leaves 4 and 11, 2 for 1 leaves 11 and 4: as good, since all leaders
count the same.

The solver stops after so many steps, which it counts itself: the same answer on every machine. An
answer that is not proven is taken where it takes a tenth off: so the next plan leaves it as it is.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from counterpoise.model.columns import NOBODY, Ints
from counterpoise.model.evenness import ByteBand
from counterpoise.planning.leader_candidates import Candidates

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

MAX_PARTITIONS: Final = 200
_WORK: Final = 2.0  # of each step, in the solver's own unit, which takes about a second
_GAP: Final = 0.005  # so near to the bound counts as proven
_RATE_BITS: Final = 20
_MIN_GAIN: Final = 10  # a tenth
_MAX_SEARCHES: Final = 4


def nearest_to_band(candidates: Candidates, leaders: Ints, band: ByteBand) -> Ints:
    """Return leaders whose bytes-in are nearest to the band."""
    for _ in range(_MAX_SEARCHES):
        found, is_proven = _Program(candidates, leaders, band).solve()
        is_gain = _is_tenth_better(candidates, leaders, found, band)
        if not is_proven and not is_gain:
            return leaders
        leaders = found
        if is_proven:
            return leaders
    return leaders


def _is_tenth_better(candidates: Candidates, leaders: Ints, found: Ints, band: ByteBand) -> bool:
    """Return whether the largest excess, or all that is outside with the same, is a tenth less."""

    def outside(choice: Ints) -> tuple[int, int]:
        loads, brokers = candidates.led_bytes(choice), candidates.eligible_brokers
        excess = np.maximum(0, loads - band.highest)[brokers]
        return int(excess.max(initial=0)), int(band.bytes_outside(loads)[brokers].sum())

    largest_before, all_before = outside(leaders)
    largest, everything = outside(found)
    if largest < largest_before:
        return largest <= largest_before - largest_before // _MIN_GAIN
    return largest == largest_before and everything <= all_before - all_before // _MIN_GAIN


@dataclass(frozen=True, slots=True)
class _Step:
    value: int
    is_proven: bool


class _Program:
    def __init__(self, candidates: Candidates, leaders: Ints, band: ByteBand) -> None:
        from ortools.sat.python import cp_model

        self._candidates, self._leaders, self._band = candidates, leaders, band
        self._model = cp_model.CpModel()
        self._unit = max(1, int(candidates.bytes_in.max(initial=0)) >> _RATE_BITS)
        self._leads: dict[tuple[int, int], cp_model.IntVar] = {}
        for partition in candidates.free_partitions.tolist():
            choices = candidates.replicas[partition]
            variables = []
            for broker in choices[choices >= 0].tolist():
                variable = self._model.new_bool_var("")
                self._leads[partition, broker] = variable
                variables.append(variable)
            self._model.add_exactly_one(variables)
        self._keep_counts()
        self._keep_topics()

    def _keep_counts(self) -> None:
        """Keep the sum of squared leaders per broker."""
        everything = range(len(self._leaders))
        self._model.add(sum(self._squares(list(everything))) <= self._squares_now(list(everything)))

    def _keep_topics(self) -> None:
        topics = self._candidates.topic_numbers
        for topic in np.unique(topics[self._candidates.free_partitions]).tolist():
            partitions = np.flatnonzero(topics == topic).tolist()
            self._model.add(sum(self._squares(partitions)) <= self._squares_now(partitions))

    def _squares(self, partitions: list[int]) -> "list[cp_model.LinearExprT]":
        """Return terms whose sum is at least that of the squares of what brokers lead of these."""
        terms: list[cp_model.LinearExprT] = []
        counted = set(partitions)
        by_broker: dict[int, list[cp_model.IntVar]] = {}
        for (partition, broker), variable in self._leads.items():
            if partition in counted:
                by_broker.setdefault(broker, []).append(variable)
        fixed = self._candidates.counts(self._fixed(partitions))
        for broker, variables in by_broker.items():
            units = [self._model.new_bool_var("") for _ in variables]
            self._model.add(sum(variables) == sum(units))
            first = int(fixed[broker])
            terms += [unit * (2 * (first + n) + 1) for n, unit in enumerate(units)]
        return terms

    def _fixed(self, partitions: list[int]) -> Ints:
        """Return the leaders of those that have no choice."""
        is_free = self._candidates.is_free[partitions]
        return np.where(is_free, NOBODY, self._leaders[partitions])

    def _squares_now(self, partitions: list[int]) -> int:
        """Return the squares of what brokers lead of these, less those of what is fixed."""
        led = self._candidates.counts(self._leaders[partitions])
        fixed = self._candidates.counts(self._fixed(partitions))
        return int((led * led - fixed * fixed).sum())

    def solve(self) -> tuple[Ints, bool]:
        """Return the leaders, and whether no others are nearer to the band."""
        largest, outside = self._add_band()
        proven = []
        for objective in (largest, outside):
            step = self._minimize(objective, _GAP)
            self._model.add(objective <= step.value)
            proven.append(step.is_proven)
        self._minimize(self._costs(), 0.0)
        return self._leaders, all(proven)

    def _add_band(self) -> "tuple[cp_model.IntVar, cp_model.LinearExprT]":
        """Return the largest bytes-in above the band, and all that is outside, in units."""
        candidates, band = self._candidates, self._band
        rates = (candidates.bytes_in // self._unit).tolist()
        fixed = candidates.led_bytes(np.where(candidates.is_free, NOBODY, self._leaders))
        most = int(sum(rates)) + int(fixed.sum()) // self._unit + 1
        largest = self._model.new_int_var(0, most, "")
        outside = []
        for broker in candidates.eligible_brokers.tolist():
            led = int(fixed[broker]) // self._unit
            loads = [
                variable * rates[partition]
                for (partition, head), variable in self._leads.items()
                if head == broker
            ]
            load = sum(loads) + led
            off = self._model.new_int_var(0, most, "")
            self._model.add(load - off <= int(band.highest[broker]) // self._unit)
            self._model.add(load + off >= -(-int(band.lowest[broker]) // self._unit))
            self._model.add(load - largest <= int(band.highest[broker]) // self._unit)
            outside.append(off)
        return largest, sum(outside)

    def _costs(self) -> "cp_model.LinearExprT":
        partitions = np.array([partition for partition, _ in self._leads], dtype=np.int64)
        heads = np.array([head for _, head in self._leads], dtype=np.int64)
        costs = self._candidates.cost(partitions, heads).tolist()
        pairs = zip(self._leads.values(), costs, strict=True)
        total: cp_model.LinearExprT = sum(variable * cost for variable, cost in pairs)
        return total

    def _minimize(self, objective: "cp_model.LinearExprT", gap: float) -> _Step:
        """Find the least value; `self._leaders` has the leaders afterwards."""
        from ortools.sat.python import cp_model

        self._model.clear_hints()  # type: ignore[no-untyped-call]  # ortools types all but this
        for (partition, broker), variable in self._leads.items():
            self._model.add_hint(variable, bool(self._leaders[partition] == broker))
        self._model.minimize(objective)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 1
        solver.parameters.linearization_level = 2
        solver.parameters.relative_gap_limit = gap
        solver.parameters.max_deterministic_time = _WORK
        status = solver.solve(self._model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return _Step(1 << 60, is_proven=False)
        leaders = self._leaders.copy()
        for (partition, broker), variable in self._leads.items():
            if solver.value(variable):
                leaders[partition] = broker
        self._leaders = leaders
        return _Step(round(solver.objective_value), status == cp_model.OPTIMAL)
