"""Find better plans for the crooked clusters, and keep the best of each.

    .venv/bin/python -m benchmarks.crooked.search [--nodes 200] [--several] [NAME ...]

Starts from the best plan known, or else from the planner's own. Needs SciPy (HiGHS). In three
steps, each as good as it gets before the next one counts:

    counts    least sum of squared replicas per broker
    band      least bytes outside the band, with these counts; none, if that is found
    copies    least bytes copied, with these counts and no more bytes outside

    each step:  a variable per partition and broker (does a replica stand there?)
                the relaxation gives a bound, and what each variable would cost that changes
                a variable which would cost more than is left up to a limit keeps its value
                the rest, some hundred variables, by branch and bound; then with a wider limit

Racks: no partition has more than one replica in a rack, unless its goal cannot repair that. No
partition gets several new replicas, unless racks or brokers that leave need it; a second search
(`--several`) allows all but one. Goals move what they may: add-brokers to the named brokers only,
and to no more replicas than their share; remove-brokers only what stands on the named ones. What
arrives on a disk leaves it at most 85 % full.

Worked example: the relaxation copies 100.0 GB and splits 12 replicas. With the limit 100.5 GB all
variables that cost 0.5 GB more are fixed; of the 300 that remain the best choice copies 100.1 GB.

Limits: each branch and bound ends after so many nodes. Results are kept only where `measure` says
that they are better.
"""

import argparse
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import coo_array, csr_array, vstack

from benchmarks.crooked.clusters import CASES, Case, digest, make
from benchmarks.crooked.measure import Figures, Shares, measure, staying_brokers
from benchmarks.crooked.records import SEVERAL, Record, read_plan, read_records, write_record
from counterpoise.model.document import from_document_text
from counterpoise.model.reassignment import to_reassignment_json
from counterpoise.model.request import PlanRequest
from counterpoise.planning import make_plan

DISK_LIMIT: Final = 0.85
_LIMITS: Final = (1.002, 1.01, 1.05, 1.2)  # of the bound
_COUNTS_AROUND: Final = 4
_NEAR: Final = 0.0005  # of the bound: not worth another search


@dataclass(frozen=True, slots=True)
class Rows:
    matrix: csr_array
    low: Any
    high: Any


@dataclass
class Model:
    """One cluster and its goal as a program; columns are cells, then helpers of each step."""

    case: Case
    document: Mapping[str, Any]
    start: Mapping[tuple[str, int], tuple[int, ...]]  # the best replicas known
    may_give_several: bool = False
    rows: list[Rows] = field(default_factory=list)

    def __post_init__(self) -> None:
        brokers = [broker["id"] for broker in self.document["brokers"]]
        self.position = {broker: number for number, broker in enumerate(brokers)}
        self.partitions = self.document["partitions"]
        shape = (len(self.partitions), len(brokers))
        self.home, self.now = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
        for number, (topic, partition, replicas, *_) in enumerate(self.partitions):
            self.home[number, [self.position[b] for b in replicas]] = True
            self.now[number, [self.position[b] for b in self.start[topic, partition]]] = True
        self.sizes = np.array([row[4] for row in self.partitions], dtype=float)
        self.staying = staying_brokers(self.document, self.case.goal)
        self.shares = Shares(self.document, self.staying)
        self.is_staying = np.isin(brokers, self.staying)
        self.is_named = np.isin(brokers, self.document["named"])
        self.unit = float(np.mean([high for _, high in self.shares.bands.values()]))
        self._find_cells()
        self._add_rows()

    def _find_cells(self) -> None:
        may, must = np.ones_like(self.home), np.zeros_like(self.home)
        if self.case.goal == "add-brokers":
            may = self.home | self.is_named
        if self.case.goal == "remove-brokers":
            may = self.home | (self.home & self.is_named).any(axis=1)[:, None]
            may, must = may & self.is_staying, self.home & self.is_staying
        self.lower, self.upper = must.astype(float), (may | self.now).astype(float)
        self.partition_of, self.broker_of = np.nonzero(self.upper)
        self.cell_count = len(self.partition_of)
        self.is_new = ~self.home[self.partition_of, self.broker_of]
        self.bounds = (
            self.lower[self.partition_of, self.broker_of],
            self.upper[self.partition_of, self.broker_of],
        )
        self.cell_sizes = self.sizes[self.partition_of]

    def _matrix(self, values: Any, numbers: Any, count: int) -> csr_array:
        columns = np.arange(self.cell_count)
        return coo_array((values, (numbers, columns)), shape=(count, self.cell_count)).tocsr()

    def _add(self, values: Any, numbers: Any, low: Any, high: Any) -> None:
        self.rows.append(Rows(self._matrix(values, numbers, len(high)), low, high))

    def _add_rows(self) -> None:
        ones, factors = np.ones(self.cell_count), self.home.sum(axis=1).astype(float)
        self._add(ones, self.partition_of, factors, factors)
        racks = [broker["rack"] for broker in self.document["brokers"]]
        names = sorted(set(racks))
        rack_of = np.array([names.index(rack) for rack in racks])
        is_in_rack = rack_of[:, None] == np.arange(len(names))
        staying = self.home & ~self.is_named if self.case.goal == "remove-brokers" else self.home
        stacks = staying @ is_in_rack.astype(float)
        may_be_repaired = np.ones(len(stacks), dtype=bool)
        if self.case.goal == "add-brokers":
            is_open_rack = (stacks == 0) & is_in_rack[self.is_named].any(axis=0)
            surplus = np.maximum(0, stacks - 1).sum(axis=1)
            may_be_repaired = is_open_rack.sum(axis=1) >= surplus
        if self.case.goal == "remove-brokers":
            may_be_repaired[:] = False
        highest = np.where(may_be_repaired[:, None], 1.0, np.maximum(1, stacks)).ravel()
        numbers = self.partition_of * len(names) + rack_of[self.broker_of]
        self._add(ones, numbers, np.zeros_like(highest), highest)
        needed = np.maximum(0, stacks - 1).sum(axis=1)
        if self.case.goal == "remove-brokers":
            needed = (self.home & self.is_named).sum(axis=1)
        most = factors - 1 if self.may_give_several else np.ones_like(factors)
        highest = np.maximum(np.maximum(1, needed), most).astype(float)
        self._add(self.is_new.astype(float), self.partition_of, np.zeros_like(highest), highest)
        if ((self.now & ~self.home).sum(axis=1) > highest).any():
            self.now = self.home.copy()
        brokers = self.document["brokers"]
        if "disk_total_bytes" in brokers[0]:
            room = [
                max(0.0, b["disk_usable_bytes"] - (1 - DISK_LIMIT) * b["disk_total_bytes"])
                for b in brokers
            ]
            arriving = ((self.now & ~self.home) * self.sizes[:, None]).sum(axis=0)
            highest = np.maximum(room, arriving) / self.unit
            values = self.is_new * self.cell_sizes / self.unit
            self._add(values, self.broker_of, np.zeros_like(highest), highest)

    @cached_property
    def costs(self) -> Any:
        """Return what a replica weighs on each broker: 1 on the largest that stays."""
        costs = np.ones(len(self.position))
        for broker, cost in self.shares.costs.items():
            costs[self.position[broker]] = cost / 100
        return costs

    @property
    def max_counts(self) -> Any:
        """Return the most replicas per broker: new ones get no more than their share."""
        most = np.full(len(self.position), float(len(self.partitions)))
        if self.case.goal == "add-brokers":
            fair = self.shares.of([1] * len(self.partitions), self.shares.weights)
            for broker in self.document["named"]:
                most[self.position[broker]] = np.ceil(fair[broker] - 1e-6)
        return np.maximum(most, self.now.sum(axis=0))

    # -- the three steps

    def find(self, nodes: int) -> tuple[Any, float]:
        """Return flags of the best choice found, and the least bytes that any such copies."""
        self.nodes = nodes
        self.now = self._with_best_counts()
        counts = self.now.sum(axis=0)
        self._keep_counts(counts)
        costs = np.where(self.is_new, self.cell_sizes / self.unit, 0.0)
        self._keep_within(np.zeros(1))
        self.now, bound = self._least(costs)
        if self._outside_of(self.now).sum() > 0:  # not all can be within their bands
            self.rows.pop()
            self.now = self._within_band()
            self._keep_within(self._outside_of(self.now))
            self.now, bound = self._least(costs)
        return self.now, bound * self.unit

    def _with_best_counts(self) -> Any:
        """Return a choice with the least sum of squares.

        A variable for each replica of a broker, from some below its share to some above it.
        """
        brokers = np.flatnonzero(self.is_staying)
        fair = self.shares.of([1] * len(self.partitions), self.shares.weights)
        near = np.array([fair[broker] for broker in self.staying])
        now = self.now.sum(axis=0)[brokers]
        bottoms, tops = near, near
        if self.case.goal != "rebalance":
            bottoms, tops = np.minimum(near, now), np.maximum(near, now)
        bottoms, tops = bottoms - _COUNTS_AROUND, tops + _COUNTS_AROUND
        bottoms = np.maximum(0, np.floor(bottoms)).astype(int)
        tops = np.maximum(bottoms, np.minimum(np.ceil(tops), self.max_counts[brokers])).astype(int)
        unit_of = np.repeat(brokers, tops - bottoms)
        ranks = np.concatenate(
            [np.arange(low, high) for low, high in zip(bottoms, tops, strict=True)]
        )
        on_broker = self._matrix(np.ones(self.cell_count), self.broker_of, len(self.position))
        shape = (len(self.position), len(ranks))
        units = coo_array((-np.ones(len(ranks)), (unit_of, np.arange(len(ranks)))), shape)
        is_counted = self.is_staying.nonzero()[0]
        least = bottoms.astype(float)
        more = Rows(on_broker[is_counted], least, least), units.tocsr()[is_counted]
        costs = np.concatenate([np.zeros(self.cell_count), (2.0 * ranks + 1) * self.costs[unit_of]])
        found = self._solve(costs, helpers=len(ranks), more=[more])
        if found is None:
            return self.now
        return found if self._squares(found) < self._squares(self.now) else self.now

    def _squares(self, chosen: Any) -> float:
        counts = chosen.sum(axis=0)
        return float((counts**2 * self.costs)[self.is_staying].sum())

    def _keep_counts(self, counts: Any) -> None:
        """Allow one replica more or less on a broker, where the squares add up to no more."""
        count = len(counts)
        self.counts, self.count_helpers = counts, 2 * count
        on_broker = self._matrix(np.ones(self.cell_count), self.broker_of, count)
        eye = np.arange(count)
        both = np.concatenate([-np.ones(count), np.ones(count)])
        helpers = coo_array((both, (np.tile(eye, 2), np.arange(2 * count))), (count, 2 * count))
        weighed = np.concatenate([2.0 * counts + 1, -(2.0 * counts - 1)])
        squares = (weighed * np.tile(self.costs, 2))[None, :]
        is_free = self.is_staying & (counts < self.max_counts)
        self.helper_bounds = np.concatenate([is_free, self.is_staying]).astype(float)
        no_cells = csr_array((1, self.cell_count))
        self.count_rows = [
            (Rows(on_broker, counts.astype(float), counts.astype(float)), helpers.tocsr()),
            (Rows(no_cells, np.array([-np.inf]), np.zeros(1)), csr_array(squares)),
        ]

    def _band_rows(self, slack: Any) -> Rows:
        brokers = [self.position[broker] for broker in self.staying]
        values = self.cell_sizes / self.unit
        on_broker = self._matrix(values, self.broker_of, len(self.position))[brokers]
        bands = np.array([self.shares.bands[broker] for broker in self.staying]) / self.unit
        margin = 1e-9
        return Rows(on_broker, bands[:, 0] - slack + margin, bands[:, 1] + slack - margin)

    def _outside_of(self, chosen: Any) -> Any:
        brokers = [self.position[broker] for broker in self.staying]
        held = (chosen * self.sizes[:, None]).sum(axis=0)[brokers] / self.unit
        bands = np.array([self.shares.bands[broker] for broker in self.staying]) / self.unit
        outside = np.maximum(0, np.maximum(bands[:, 0] - held, held - bands[:, 1]))
        return np.where(outside < 1e-8, 0.0, outside)

    def _within_band(self) -> Any:
        """Return the choice with the least bytes outside the band that is found."""
        count = len(self.staying)
        band = self._band_rows(0.0)
        inf = np.full(count, np.inf)
        eye = csr_array(np.eye(count))
        more = [
            (Rows(band.matrix, band.low, inf), eye),
            (Rows(band.matrix, -inf, band.high), csr_array(-eye)),
        ]
        costs = np.concatenate([np.zeros(self.cell_count + self.count_helpers), np.ones(count)])
        found = self._solve(costs, helpers=count, more=more, with_counts=True)
        if found is None or self._outside_of(found).sum() >= self._outside_of(self.now).sum():
            return self.now
        return found

    def _keep_within(self, outside: Any) -> None:
        """No more bytes outside the band than now, over all brokers."""
        count = len(self.staying)
        if not outside.sum():
            self.rows.append(self._band_rows(0.0))
            self.slack_rows = []
            return
        band, eye = self._band_rows(0.0), csr_array(np.eye(count))
        inf = np.full(count, np.inf)
        total = Rows(csr_array((1, self.cell_count)), np.zeros(1), np.array([outside.sum() + 1e-9]))
        self.slack_rows = [
            (Rows(band.matrix, band.low, inf), eye),
            (Rows(band.matrix, -inf, band.high), csr_array(-eye)),
            (total, csr_array(np.ones((1, count)))),
        ]

    # -- relaxation and core

    def _least(self, cell_costs: Any) -> tuple[Any, float]:
        helpers = len(self.staying) if self.slack_rows else 0
        costs = np.concatenate([cell_costs, np.zeros(self.count_helpers + helpers)])
        program = self._program(helpers, self.slack_rows, with_counts=True)
        is_within = self.slack_rows or not self._outside_of(self.now).sum()
        found = np.inf
        if is_within:
            found = float(cell_costs @ self.now[self.partition_of, self.broker_of])
        relaxed = linprog(
            costs,
            **_split(program),
            bounds=np.stack([program.bounds.lb, program.bounds.ub], axis=1),
            method="highs",
        )
        if relaxed.status != 0:
            return self.now, 0.0
        bound, best = float(relaxed.fun), self.now
        reduced = np.maximum(relaxed.lower.marginals, -relaxed.upper.marginals)
        for limit in (*_LIMITS, np.inf):
            limit_cost = min(found, bound * limit + 1e-9)
            if found <= bound * (1 + _NEAR):
                break
            is_fixed = reduced[: self.cell_count] > limit_cost - bound
            answer = self._core(costs, program, relaxed.x, is_fixed)
            if answer is not None:
                cost = float(cell_costs @ answer[self.partition_of, self.broker_of])
                if cost < found:
                    best, found = answer, cost
            if limit_cost >= found:
                break
        return best, bound

    def _core(self, costs: Any, program: "Program", x: Any, is_fixed: Any) -> Any:
        low, high = program.bounds.lb.copy(), program.bounds.ub.copy()
        value = np.round(x[: self.cell_count])
        low[: self.cell_count][is_fixed] = value[is_fixed]
        high[: self.cell_count][is_fixed] = value[is_fixed]
        return self._branch(costs, program, Bounds(low, high))

    def _solve(self, costs: Any, *, helpers: int, more: Any, with_counts: bool = False) -> Any:
        program = self._program(helpers, more, with_counts=with_counts)
        gap = _NEAR / 2 if with_counts else 0.0
        return self._branch(costs, program, program.bounds, gap)

    def _branch(
        self, costs: Any, program: "Program", bounds: Bounds, gap: float = _NEAR / 2
    ) -> Any:
        answer = milp(
            costs,
            constraints=LinearConstraint(program.matrix, program.low, program.high),
            integrality=program.is_whole,
            bounds=bounds,
            options={"node_limit": self.nodes, "mip_rel_gap": gap},
        )
        if answer.x is None:
            return None
        chosen = np.zeros_like(self.home)
        chosen[self.partition_of, self.broker_of] = answer.x[: self.cell_count] > 0.5
        return chosen

    def _program(self, helpers: int, more: Any, *, with_counts: bool) -> "Program":
        """Return all rows; columns are the cells, helpers of the counts, and of this step."""
        count_helpers = self.count_helpers if with_counts else 0
        blocks, low, high = [], [], []

        def add(rows: Rows, of_counts: Any, of_step: Any) -> None:
            parts = [rows.matrix]
            height = rows.matrix.shape[0]
            for width, part in ((count_helpers, of_counts), (helpers, of_step)):
                if width:
                    parts.append(csr_array((height, width)) if part is None else part)
            blocks.append(_beside(parts))
            low.append(rows.low)
            high.append(rows.high)

        for rows in self.rows:
            add(rows, None, None)
        for rows, part in self.count_rows if with_counts else ():
            add(rows, part, None)
        for rows, part in more:
            add(rows, None, part)
        ends = np.full(helpers, 1.0 if not with_counts else np.inf)
        upper = [self.bounds[1], self.helper_bounds if with_counts else np.empty(0), ends]
        lower = [self.bounds[0], np.zeros(count_helpers + helpers)]
        whole = [np.ones(self.cell_count + count_helpers), np.zeros(helpers)]
        return Program(
            vstack(blocks).tocsr(),
            np.concatenate(low),
            np.concatenate(high),
            Bounds(np.concatenate(lower), np.concatenate(upper)),
            np.concatenate(whole),
        )

    def reassignment(self, chosen: Any) -> dict[str, Any]:
        """Return Kafka's reassignment JSON; replicas that stay keep their places."""
        brokers = [broker["id"] for broker in self.document["brokers"]]
        entries = []
        for number in np.flatnonzero((chosen != self.home).any(axis=1)).tolist():
            topic, partition, replicas, *_ = self.partitions[number]
            coming = iter(np.flatnonzero(chosen[number] & ~self.home[number]).tolist())
            after = [
                b if chosen[number, self.position[b]] else brokers[next(coming)] for b in replicas
            ]
            entries.append({"topic": topic, "partition": partition, "replicas": after})
        return {"version": 1, "partitions": entries}


@dataclass(frozen=True, slots=True)
class Program:
    matrix: csr_array
    low: Any
    high: Any
    bounds: Bounds
    is_whole: Any


def _beside(parts: list[Any]) -> csr_array:
    from scipy.sparse import hstack

    return hstack(parts).tocsr()


def _split(program: Program) -> dict[str, Any]:
    """Return equations and inequalities apart, as `linprog` wants them."""
    is_equation = program.low == program.high
    has_high = ~is_equation & np.isfinite(program.high)
    has_low = ~is_equation & np.isfinite(program.low)
    return {
        "A_eq": program.matrix[is_equation],
        "b_eq": program.low[is_equation],
        "A_ub": vstack([program.matrix[has_high], -program.matrix[has_low]]),
        "b_ub": np.concatenate([program.high[has_high], -program.low[has_low]]),
    }


def improve(
    case: Case, plan: Mapping[str, Any], nodes: int, *, several: bool
) -> tuple[Any, Figures, int, float]:
    """Return a plan that is as good or better, its figures, a bound of bytes, and CPU seconds."""
    document, started = make(case), time.process_time()
    start = {(row[0], row[1]): tuple(row[2]) for row in document["partitions"]}
    start |= {(e["topic"], e["partition"]): tuple(e["replicas"]) for e in plan["partitions"]}
    model = Model(case, document, start, several)
    chosen, bound = model.find(nodes)
    found = model.reassignment(chosen)
    figures = measure(document, case.goal, found)
    return found, figures, int(bound), time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="all of them, unless named")
    parser.add_argument("--nodes", type=int, default=200, help="at most, of each branch and bound")
    parser.add_argument("--several", action="store_true", help="allow several new replicas")
    arguments = parser.parse_args()
    for name in arguments.names or CASES:
        key = f"{name}{SEVERAL}" if arguments.several else name
        record = read_records().get(key)
        before = read_plan(key) if record else first_plan(CASES[name])
        try:
            found = improve(CASES[name], before, arguments.nodes, several=arguments.several)
        except ValueError as error:
            print(f"{key}: {error}", flush=True)
            continue
        plan, figures, bound, seconds = found
        if figures.errors:
            print(f"{key}: {figures.errors}", flush=True)
            continue
        document = make(CASES[name])
        is_better = record is None or figures.rank < record.figures.rank
        if record is None:
            replicas = sum(len(row[2]) for row in document["partitions"])
            record = Record(digest(document), replicas, figures, 0, 0.0, "")
        kept = record.after_search(plan, figures, bound, seconds, is_better=is_better)
        write_record(key, *kept)
        gap = f"{kept[0].gap:.4f}" if kept[0].gap else "-"
        print(f"{key}: {seconds:.0f} CPU s, {figures.rank}, gap {gap}, {is_better}", flush=True)


def first_plan(case: Case) -> dict[str, Any]:
    """Return a plan to start from: the planner's own where replicas must leave, else none."""
    if case.goal != "remove-brokers":
        return {"partitions": []}
    document = make(case)
    snapshot = from_document_text(json.dumps(document))
    plan = make_plan(snapshot, PlanRequest(case.goal, tuple(document["named"])))
    found: dict[str, Any] = json.loads(to_reassignment_json(plan))
    return found


if __name__ == "__main__":
    main()
