"""The best that any plan could do on a small cluster, by a solver that is told the goal and nothing
of how we plan.

    best = best_placement(case, plan)   # racks, squares of counts, bytes outside, bytes copied
    found = Placed.of(case, plan)           # the same figures of a plan

The order of priorities, each as good as it can be before the next one counts:

    1. replicas that find no place (a drain, a higher replication factor)
    2. replicas outside of the broker set of their topic
    3. pairs of replicas in the same rack, over all partitions
    4. squares of the replicas per broker; each weighed by the largest disks / its own, where these
       differ
    5. bytes outside the band, over all brokers
    6. bytes copied; where the request has a budget, no more than that from the start

A case is read from a document and a request alone. The fair share of bytes, around which the band
lies, is taken from the plan's figures: it is a definition, and this is about how near a plan comes.
"""

import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ortools.sat.python import cp_model

from counterpoise.model.constraints import matching
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.request import Goal, PlanRequest

Key = tuple[str, int]
_WORK = 60.0  # of one step, in the solver's own unit
DISK_LIMIT_PERCENT = 85


@dataclass(frozen=True)
class OracleCase:
    document: Mapping[str, Any]
    request: PlanRequest

    @cached_property
    def rows(self) -> dict[Key, Any]:
        return {(row[0], row[1]): row for row in self.document["partitions"]}

    @cached_property
    def before(self) -> dict[Key, frozenset[int]]:
        return {key: frozenset(row[2]) for key, row in self.rows.items()}

    @cached_property
    def racks(self) -> dict[int, str | None]:
        return {broker["id"]: broker["rack"] for broker in self.document["brokers"]}

    @cached_property
    def live(self) -> set[int]:
        return {broker["id"] for broker in self.document["brokers"] if not broker["fenced"]}

    @cached_property
    def named(self) -> set[int]:
        return set(self.request.broker_ids)

    @cached_property
    def leaving(self) -> set[int]:
        if self.request.goal is Goal.REMOVE_BROKERS:
            return self.named
        return set(self.racks) - self.live if self.request.goal is Goal.REPAIR else set()

    @cached_property
    def able(self) -> set[int]:
        """Live brokers in scope that stay."""
        return {b for b in self.live - self.leaving if self.request.scope.may_touch_broker(b)}

    @cached_property
    def costs(self) -> dict[int, int]:
        """What a replica weighs on each able broker, in hundredths: less where disks are larger, by
        more than a tenth of the smallest of its broker set.
        """
        disks = {b["id"]: b.get("disk_total_bytes") or 0 for b in self.document["brokers"]}
        costs = {}
        for broker in self.able:
            peers = [
                disks[b] for b in self.able if self.set_of_broker(b) == self.set_of_broker(broker)
            ]
            is_by_disk = min(peers) > 0 and max(peers) * 10 > min(peers) * 11
            costs[broker] = round(100 * max(peers) / disks[broker]) if is_by_disk else 100
        return costs

    @cached_property
    def in_share(self) -> set[Key]:
        """Partitions that count: those of the request, for goals about evenness."""
        scope, topics = self.request.scope, {key[0] for key in self.rows}
        if self.request.goal not in (Goal.REBALANCE, Goal.ADD_BROKERS):
            return set(self.rows)
        included = matching(scope.topics or ("*",), topics)
        included -= matching(scope.excluded_topics, topics)
        return {key for key in self.rows if key[0] in included}

    @cached_property
    def free(self) -> set[Key]:
        """Partitions whose replicas may change."""
        scope, topics = self.request.scope, {key[0] for key in self.rows}
        included = matching(scope.topics or ("*",), topics)
        included -= matching(scope.excluded_topics, topics)
        dead = set(self.racks) - self.live
        return {
            key
            for key, row in self.rows.items()
            if key[0] in included
            and row[3] >= 0
            and (self.leaving or not self.before[key] & dead)
            and (not self.leaving or self.before[key] & self.leaving)
        }

    def allowed(self, key: Key) -> set[int]:
        """Brokers on which replicas of the topic may stand, by the broker sets."""
        sets = self.request.policy.constraints.broker_sets
        topic_set = next((n for n, s in enumerate(sets) if matching(s.topics, [key[0]])), -1)
        return {broker for broker in self.racks if self.set_of_broker(broker) == topic_set}

    def set_of_broker(self, broker: int) -> int:
        sets, rack = self.request.policy.constraints.broker_sets, self.racks[broker]
        members = (n for n, s in enumerate(sets) if broker in s.broker_ids or rack in s.racks)
        return next(members, -1)

    @cached_property
    def max_counts(self) -> dict[int, int]:
        """The most replicas of partitions that count, on each able broker."""
        most = self.request.policy.constraints.max_replicas_per_broker
        if most is None:
            return {}
        others = Counter(b for key in set(self.rows) - self.in_share for b in self.before[key])
        now = Counter(b for key in self.in_share for b in self.before[key])
        return {b: max(most - others[b], now[b]) for b in self.able}

    @cached_property
    def rooms(self) -> dict[int, int]:
        found = {}
        for broker in self.document["brokers"]:
            total = broker.get("disk_total_bytes")
            if total is not None:
                kept_free = total - total * DISK_LIMIT_PERCENT // 100
                found[broker["id"]] = max(0, broker["disk_usable_bytes"] - kept_free)
        return found

    @cached_property
    def ignorable_bytes(self) -> int:
        """A gain in bytes that is too small for a plan: two thousandths of all bytes."""
        return sum(row[4] * len(row[2]) for row in self.rows.values()) * 2 // 1000

    def factor(self, key: Key) -> int:
        return self.request.replication_factor or len(self.before[key])

    def may_gain(self, *, anyone: bool) -> set[int]:
        if self.request.goal is Goal.ADD_BROKERS and not anyone:
            return self.able & self.named
        return self.able

    def may_lose(self, *, anyone: bool) -> set[int]:
        if self.leaving:
            return self.leaving
        if self.request.goal is Goal.REPLICATION_FACTOR:
            return set()
        if self.request.goal is Goal.ADD_BROKERS and not anyone:
            return self.able - self.named
        return self.able


@dataclass(frozen=True)
class Placed:
    """The figures of one placement, in the order of priorities."""

    unplaced: int
    outside: int
    racks: int  # pairs of replicas in the same rack, of all partitions together
    squares: int
    bytes_outside: int
    copied_bytes: int
    is_proven: bool = True
    counts: tuple[tuple[int, int], ...] = ()

    @property
    def priorities(self) -> tuple[int, int, int, int, int]:
        """The figures that come before bytes copied: the smaller the better."""
        return self.unplaced, self.outside, self.racks, self.squares, self.bytes_outside

    @classmethod
    def of(cls, case: OracleCase, plan: RebalancePlan) -> "Placed":
        moved = {(move.topic, move.partition): move.replicas_after for move in plan.moves}
        after = {key: frozenset(moved.get(key, old)) for key, old in case.before.items()}
        staying = {key: new - case.leaving for key, new in after.items()}
        counts = Counter(b for key in case.in_share for b in after[key] & case.allowed(key))
        held: Counter[int] = Counter()
        for key in case.in_share:
            held.update(dict.fromkeys(after[key] & case.allowed(key), case.rows[key][4]))
        bands = bands_of(case, plan)
        return cls(
            outside=sum(len(staying[key] - case.allowed(key)) for key in case.free),
            unplaced=sum(case.factor(key) - len(staying[key]) for key in case.free),
            racks=sum(racks_of(case, staying[key]) for key in case.free),
            squares=sum(counts[b] ** 2 * case.costs[b] for b in case.able),
            bytes_outside=sum(
                max(0, low - held[b], held[b] - up) for b, (low, up) in bands.items()
            ),
            copied_bytes=plan.copied_bytes,
        )


def racks_of(case: OracleCase, brokers: frozenset[int]) -> int:
    """The pairs of replicas in the same rack: fewest where they are as even as can be."""
    stacks = Counter(case.racks[b] for b in brokers)
    return sum(count * (count - 1) // 2 for count in stacks.values())


def bands_of(case: OracleCase, plan: RebalancePlan) -> dict[int, tuple[int, int]]:
    """Return the band of each able broker, around the fair share that the plan names.

    Its figures are of the whole cluster: what the request leaves out is taken off again.
    """
    others: Counter[int] = Counter()
    for key in set(case.rows) - case.in_share:
        others.update(dict.fromkeys(case.before[key], case.rows[key][4]))
    percent = case.request.policy.bytes_tolerance_percent
    bands = {}
    for figure in plan.figures:
        if figure.broker_id in case.able:
            fair = figure.bytes_best - others[figure.broker_id]
            slack = fair * percent // 100
            bands[figure.broker_id] = fair - slack, fair + slack
    return bands


def best_placement(case: OracleCase, plan: RebalancePlan) -> Placed:
    """Return the best figures that any plan could have."""
    limits: dict[int, int] = {}
    if case.request.goal is Goal.ADD_BROKERS:
        limits = fair_shares(case)
    return _Model(case, limits=limits, anyone=False).best(bands_of(case, plan))


def fair_shares(case: OracleCase) -> dict[int, int]:
    """Return the most replicas that are fair for each new broker: the mean of its rack, rounded
    down, where every broker could give and receive; by disk, what it would hold then.

    A plan that rounds up may do better than that, and never worse.
    """
    counts = dict(_Model(case, limits={}, anyone=True).best({}).counts)
    shares = {}
    for broker in case.named:
        if len(set(case.costs.values())) > 1:
            shares[broker] = counts[broker]
            continue
        rack = [counts[b] for b in case.able if case.racks[b] == case.racks[broker]]
        shares[broker] = sum(rack) // len(rack)
    return shares


class _Model:
    def __init__(self, case: OracleCase, *, limits: Mapping[int, int], anyone: bool) -> None:
        self.case, self.model, self.is_proven = case, cp_model.CpModel(), True
        gaining, losing = case.may_gain(anyone=anyone), case.may_lose(anyone=anyone)
        self.stands: dict[tuple[Key, int], Any] = {}
        self.unplaced: list[Any] = []
        self.outside: list[Any] = []
        self.racks: list[Any] = []
        for key in sorted(case.free):
            self._add_partition(key, gaining, losing)
        left_alone = case.in_share - case.free
        fixed = Counter(b for key in left_alone for b in case.before[key])
        own = Counter(b for key in left_alone for b in case.before[key] & case.allowed(key))
        self.counts, self.squares = {}, []
        for broker in sorted(case.able):
            chosen = sum(self._on(broker).values())
            units = [self.model.new_bool_var("") for _ in range(len(case.free))]
            self.model.add(sum(self._own_on(broker).values()) == sum(units))
            first = own[broker]
            cost = case.costs[broker]
            self.squares += [unit * (2 * (first + n) + 1) * cost for n, unit in enumerate(units)]
            self.squares.append(first * first * cost)
            for earlier, later in itertools.pairwise(units):
                self.model.add(earlier >= later)
            self.counts[broker] = sum(self._own_on(broker).values()) + first
            if broker in case.max_counts:
                self.model.add(chosen + fixed[broker] <= case.max_counts[broker])
            if broker in limits:
                now = sum(broker in case.before[key] for key in case.in_share)
                self.model.add(chosen + fixed[broker] <= max(limits[broker], now))

    def _on(self, broker: int) -> dict[Key, Any]:
        return {key: var for (key, b), var in self.stands.items() if b == broker}

    def _own_on(self, broker: int) -> dict[Key, Any]:
        """What counts for the broker's share: of the topics of its broker set."""
        on_broker = self._on(broker).items()
        return {key: var for key, var in on_broker if broker in self.case.allowed(key)}

    def _add_partition(self, key: Key, gaining: set[int], losing: set[int]) -> None:
        case, old, size = self.case, self.case.before[key], self.case.rows[key][4]
        row, allowed = {}, case.allowed(key)
        if case.request.goal is Goal.ADD_BROKERS:
            losing = losing & allowed
        gaining = gaining & allowed
        gaining -= set(case.request.policy.constraints.no_new_replicas_on)
        for broker in case.racks:
            fits = case.rooms.get(broker, size) >= size
            if broker in old or (broker in gaining and fits):
                row[broker] = self.model.new_bool_var("")
                self.stands[key, broker] = row[broker]
            if broker in old and broker not in losing:
                self.model.add(row[broker] == 1)
        self.model.add(sum(row.values()) <= case.factor(key))
        staying = {b: var for b, var in row.items() if b not in case.leaving}
        for broker in case.leaving & set(row):
            self.model.add(row[broker] == 0)
        self.outside += [var for b, var in staying.items() if b not in allowed]
        self.unplaced.append(case.factor(key) - sum(staying.values()))
        for rack in sorted(set(case.racks.values()), key=str):
            members = [var for b, var in staying.items() if case.racks[b] == rack]
            units = [self.model.new_bool_var("") for _ in members]
            self.model.add(sum(members) == sum(units))
            self.racks += [number * unit for number, unit in enumerate(units)]

    def best(self, bands: Mapping[int, tuple[int, int]]) -> Placed:
        case, sizes = self.case, {key: row[4] for key, row in self.case.rows.items()}
        copies = {
            cell: var for cell, var in self.stands.items() if cell[1] not in case.before[cell[0]]
        }
        max_bytes = case.request.budget.max_bytes
        if max_bytes is not None:
            self.model.add(sum(sizes[key] * var for (key, _), var in copies.items()) <= max_bytes)
        unplaced = self._least(sum(self.unplaced))
        outside = self._least(sum(self.outside))
        racks = self._least(sum(self.racks))
        squares = self._least(sum(self.squares))
        counts = tuple((b, self._value(count)) for b, count in self.counts.items())
        out_of_band = []
        for broker, (low, high) in bands.items():
            left_alone = case.in_share - case.free
            fixed = sum(sizes[k] for k in left_alone if broker in case.before[k] & case.allowed(k))
            held = fixed + sum(sizes[key] * var for key, var in self._own_on(broker).items())
            out = self.model.new_int_var(0, 1 << 50, "")
            self.model.add(held - out <= high)
            self.model.add(held + out >= low)
            out_of_band.append(out)
        for broker, room in case.rooms.items():
            arriving = [sizes[key] * var for (key, b), var in copies.items() if b == broker]
            self.model.add(sum(arriving) <= room)
        bytes_outside = self._least(sum(out_of_band)) if out_of_band else 0
        copied = self._least(sum(sizes[key] * var for (key, _), var in copies.items()))
        found = unplaced, outside, racks, squares, bytes_outside, copied
        return Placed(*found, self.is_proven, counts)

    def _least(self, objective: Any) -> int:
        """Return the least value, and keep it from now on."""
        if isinstance(objective, int):
            return objective
        self.model.minimize(objective)
        self.solver = cp_model.CpSolver()
        self.solver.parameters.num_workers = 1
        self.solver.parameters.linearization_level = 2
        self.solver.parameters.max_deterministic_time = _WORK
        status = self.solver.solve(self.model)
        assert status in (cp_model.OPTIMAL, cp_model.FEASIBLE), self.solver.status_name(status)
        self.is_proven &= status == cp_model.OPTIMAL
        value = round(self.solver.objective_value)
        self.model.add(objective <= value)
        self.model.clear_hints()
        for var in self.stands.values():
            self.model.add_hint(var, self.solver.value(var))
        return value

    def _value(self, expression: Any) -> int:
        return expression if isinstance(expression, int) else int(self.solver.value(expression))
