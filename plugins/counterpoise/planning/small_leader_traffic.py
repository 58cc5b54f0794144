"""Leaders by bytes-in of a small cluster, by an integer program.

    leaders = least_above_aim(candidates, leaders, band)

Counts stay as even as they are, and no topic gets less even. Then, the first before the second:

    1. the largest bytes-in above the aim, once per broker, and all bytes-in above the band
    2. changes of leader

The aim is half of the tolerated band, so that the largest is within a twentieth of the least.

    a variable per partition and broker that may lead it
    leaders of a topic on a broker, and of all topics:
        the one after k others costs 2k + 1: so much do the squares grow
        the sum of a topic is at most what it is now, and so is that of all topics together

Worked example: brokers 1 and 2 lead 9 + 2 + 1 and 1 + 1 + 1 MB/s, and each partition has a replica
on both. To exchange 9 for 1 leaves 4 and 11, 2 for 1 leaves 11 and 4: as good, since all leaders
count the same.

The solver stops after so many steps, which it counts itself: the same answer on every machine. An
answer is taken where it takes a tenth off, a proven one where it takes a twentieth off: so the next
plan leaves it as it is.
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
_AIM_PERCENT: Final = 50  # of the tolerance
_WORK: Final = 2.0  # of each step, in the solver's own unit, which takes about a second
_GAP: Final = 0.005  # so near to the bound counts as proven
_RATE_BITS: Final = 20
_MIN_GAIN: Final = 10  # a tenth
_MIN_PROVEN_GAIN: Final = 20
_MAX_SEARCHES: Final = 4


def least_above_aim(candidates: Candidates, leaders: Ints, band: ByteBand, *, start: Ints) -> Ints:
    """Return leaders whose largest bytes-in is as near to the aim as found.

    They are the given ones where others gain too little. The solver begins with `start`.
    """
    return _Program(candidates, leaders, band).solve(start)


@dataclass(frozen=True, slots=True)
class _Step:
    leaders: Ints
    value: int
    is_proven: bool


class _Program:
    def __init__(self, candidates: Candidates, leaders: Ints, band: ByteBand) -> None:
        from ortools.sat.python import cp_model

        self._candidates, self._leaders = candidates, leaders
        self._band, self._aim = band, band.narrowed(_AIM_PERCENT)
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

    def solve(self, start: Ints) -> Ints:
        """Return the leaders nearest to the aim, or those of now where others gain too little."""
        excess = self._add_excess()
        now = self._excess_of(self._leaders)
        best = _Step(self._leaders, now, is_proven=False)
        hint = start
        for _ in range(_MAX_SEARCHES):
            step = self._minimize(excess, hint, _GAP)
            min_gain = best.value // (_MIN_PROVEN_GAIN if step.is_proven else _MIN_GAIN)
            if best.value - step.value < max(1, min_gain):
                break
            best, hint = step, step.leaders
            if step.is_proven:
                break
        if best.value == now:
            return self._leaders
        self._model.add(excess <= best.value)
        return self._minimize(self._costs(), best.leaders, 0.0).leaders

    def _excess_of(self, leaders: Ints) -> int:
        candidates, brokers = self._candidates, self._candidates.eligible_brokers
        loads = candidates.led_bytes(leaders)
        largest = np.maximum(0, loads - self._aim.highest)[brokers].max(initial=0)
        above = np.maximum(0, loads - self._band.highest)[brokers].sum()
        return int(len(brokers) * largest + above) // self._unit

    def _add_excess(self) -> "cp_model.LinearExprT":
        """Return the largest above the aim, once per broker, and all above the band, in units."""
        candidates = self._candidates
        rates = (candidates.bytes_in // self._unit).tolist()
        fixed = candidates.led_bytes(np.where(candidates.is_free, NOBODY, self._leaders))
        most = int(sum(rates)) + int(fixed.sum()) // self._unit + 1
        largest = self._model.new_int_var(0, most, "")
        above = []
        for broker in candidates.eligible_brokers.tolist():
            led = int(fixed[broker]) // self._unit
            loads = [
                variable * rates[partition]
                for (partition, head), variable in self._leads.items()
                if head == broker
            ]
            load = sum(loads) + led
            off = self._model.new_int_var(0, most, "")
            self._model.add(load - off <= int(self._band.highest[broker]) // self._unit)
            self._model.add(load - largest <= int(self._aim.highest[broker]) // self._unit)
            above.append(off)
        return len(above) * largest + sum(above)

    def _costs(self) -> "cp_model.LinearExprT":
        partitions = np.array([partition for partition, _ in self._leads], dtype=np.int64)
        heads = np.array([head for _, head in self._leads], dtype=np.int64)
        costs = self._candidates.cost(partitions, heads).tolist()
        pairs = zip(self._leads.values(), costs, strict=True)
        total: cp_model.LinearExprT = sum(variable * cost for variable, cost in pairs)
        return total

    def _minimize(self, objective: "cp_model.LinearExprT", leaders: Ints, gap: float) -> _Step:
        """Return the leaders with the least value that is found, beginning with the given ones."""
        from ortools.sat.python import cp_model

        self._model.clear_hints()  # type: ignore[no-untyped-call]  # ortools types all but this
        for (partition, broker), variable in self._leads.items():
            self._model.add_hint(variable, bool(leaders[partition] == broker))
        self._model.minimize(objective)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 1
        solver.parameters.linearization_level = 2
        solver.parameters.relative_gap_limit = gap
        solver.parameters.max_deterministic_time = _WORK
        status = solver.solve(self._model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return _Step(leaders, 1 << 60, is_proven=False)
        found = leaders.copy()
        for (partition, broker), variable in self._leads.items():
            if solver.value(variable):
                found[partition] = broker
        return _Step(found, round(solver.objective_value), status == cp_model.OPTIMAL)
