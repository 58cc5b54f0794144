"""Fewer bytes copied in clusters that are too large to be solved, by a linear program: which
replicas leave, and for which rack.

    program = RackProgram.of(placement, choice, loads, is_pinned, margin)
    cheaper, min_copied_bytes = program.solve()

A program with a variable per partition and broker would be too large. To a replica that comes, all
brokers of a rack that receive are alike. So a variable is a replica that leaves its broker for a
rack, and what the brokers of the rack share out is counted apart:

    a variable per replica and rack that it may go to; least bytes copied, where
        each partition moves one replica, or none (or as many as now)
        it stands on its racks as evenly as now, or as it should
        each replica leaves once
        each broker loses and receives: as many replicas as it has now, a load in its band
        each rack receives what its brokers receive: replicas, bytes, bytes per second
    repeat, until prices say that little is left to gain:
        some partitions are free, all others keep what they have: the relaxation of that
        the prices of its rows say which partitions would gain by something else
        free next: those, the ones whose replica is split, and the ones nearest to a tie; of each,
            what it does now, and the moves that are cheapest at these prices
    where few replicas are split: the same once more in whole numbers, by branch and bound
    what comes to a rack goes to its brokers, the largest first, where most bytes are to come

Prices of two rounds are averaged: a round has prices that suit the partitions that were free, and
all others would change sides at once.

Worked example. Brokers 1 and 2 of rack a and 3 of rack b have 9, 3 and 3 GB, all others 5. To take
4 GB off broker 1, a replica of 2 GB goes to rack a, and one of 2 GB to rack b; that the first one
ends on broker 2 is no question of bytes.

The bound holds for any prices, by weak duality: each partition stands where it costs least at the
prices of replicas and of bytes per broker, on its racks as evenly as it should. No plan that is as
even copies less.

Limits: what is split is rounded, so brokers may be outside their band by a replica, which the local
search has to mend. Large partitions that are pinned stay.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from counterpoise.model.columns import NOBODY, Flags, Ints
from counterpoise.model.racks import RackBounds, bounds_of_partition
from counterpoise.planning.placement import Placement
from counterpoise.planning.placing.linear_program import Numbers, Rows
from counterpoise.planning.placing.local_search import Load
from counterpoise.planning.placing.replica_choice import ReplicaChoice, stands_of

MAX_REPLICAS: Final = 70_000
# Units within the ends of bands, for what splits leave over, in the order in which they are tried.
MARGINS: Final = (0.05, 4.0, 2.0, 1.0)
_UNITS_IN_SHARE: Final = 1_000.0
_FREE_PARTITIONS: Final = 1_500
_WHOLE_PARTITIONS: Final = 60  # so many are chosen for in whole numbers
_MAX_ROUNDS: Final = 4
_CHEAPEST: Final = 7  # moves of each partition that are chosen from, once there are prices
_NEAR: Final = 0.001  # of what is copied: so little is left to gain
_COST_OF_A_COPY: Final = 1e-3  # units: of two choices that copy as much, the one with fewer copies
_SPLIT: Final = 1e-6
_HALF: Final = 0.5
_NEVER: Final = 1e12  # costs more than anything else


class _Moves(NamedTuple):
    """Replicas that may leave, one entry for each rack that each may go to."""

    partitions: Ints
    brokers: Ints  # that the replica leaves
    racks: Ints  # that it goes to

    def only(self, chosen: Ints | Flags) -> "_Moves":
        return _Moves(*(column[chosen] for column in self))


class _Prices(NamedTuple):
    """What one replica, and one unit of each load, is worth: at each broker, and to each rack."""

    of_brokers: Numbers  # a row for replicas, then one per load
    of_racks: Numbers

    def mean(self, other: "_Prices") -> "_Prices":
        return _Prices(
            (self.of_brokers + other.of_brokers) / 2,
            (self.of_racks + other.of_racks) / 2,
        )


@dataclass(eq=False)
class RackProgram:
    placement: Placement
    choice: ReplicaChoice
    loads: Sequence[Load]
    partitions: Ints  # whose replicas are chosen; all other fields have a row per partition of them
    home: Flags
    now: Flags
    may_stand: Flags
    must_stand: Flags
    bounds: RackBounds  # replicas in each rack
    moves: _Moves
    is_made: Flags  # per move
    may_stay: Flags  # without a move it stands on its racks as evenly as now
    is_kept: Flags  # what it moves now is not among the moves
    margin: float  # units within the ends of bands, for what splits leave over

    @classmethod
    def of(
        cls,
        placement: Placement,
        choice: ReplicaChoice,
        loads: Sequence[Load],
        is_pinned: Flags,
        margin: float,
    ) -> "RackProgram":
        is_free = ~is_pinned[choice.partitions]
        partitions = choice.partitions[is_free]
        home, now = choice.stands[is_free], stands_of(placement, partitions)
        may_stand, must_stand = choice.may_stand[is_free], choice.must_stand[is_free]
        bounds = _rack_bounds(choice, now)
        moves = _moves(choice, home, home & ~must_stand, may_stand & ~home, bounds)
        stacks = home @ choice.in_rack.T
        is_even = (stacks >= bounds.lowest) & (stacks <= bounds.highest)
        may_stay = np.asarray(is_even.all(axis=1))
        made = _made(moves, home, now, placement.cluster.racks)
        arrivals = (now & ~home).sum(axis=1)
        made_count = np.bincount(moves.partitions[made], minlength=len(partitions))
        is_kept = (arrivals != made_count) | ~(may_stay | (made_count > 0))
        is_free_move = ~is_kept[moves.partitions]
        moves, made = moves.only(is_free_move), made[is_free_move]
        return cls(
            placement=placement,
            choice=choice,
            loads=loads,
            partitions=partitions,
            home=home,
            now=now,
            may_stand=(may_stand | now) & (~choice.roles.leaving | now),
            must_stand=must_stand & now,
            bounds=bounds,
            moves=moves,
            is_made=made,
            may_stay=may_stay,
            is_kept=is_kept,
            margin=margin,
        )

    # -- columns

    @cached_property
    def unit(self) -> float:
        """Return the bytes that count as one."""
        return _unit_of(self.loads[0])

    @cached_property
    def sizes(self) -> Numbers:
        return np.asarray(self.placement.cluster.size_bytes[self.partitions] / self.unit)

    @cached_property
    def weights(self) -> Numbers:
        """Return what each partition weighs: a row of ones, then one per load, in its units."""
        units = [_unit_of(load) for load in self.loads]
        of_loads = [
            load.weights[self.partitions] / unit
            for load, unit in zip(self.loads, units, strict=True)
        ]
        return np.stack([np.ones(len(self.partitions)), *of_loads])

    @cached_property
    def costs(self) -> Numbers:
        return np.asarray(self.sizes[self.moves.partitions] + _COST_OF_A_COPY)

    @cached_property
    def destinations(self) -> Ints:
        return np.flatnonzero(self.choice.roles.destinations)

    @property
    def broker_count(self) -> int:
        return int(self.now.shape[1])

    @property
    def rack_count(self) -> int:
        return len(self.choice.in_rack)

    @cached_property
    def base(self) -> Flags:
        """Return where each partition stands without any of the moves."""
        return np.where(self.is_kept[:, None], self.now, self.home)

    @cached_property
    def _room(self) -> Numbers:
        """Return the units that may arrive at each broker: no more than now where that is a lot."""
        arriving = self.sizes @ (self.now & ~self.base)
        others = self.placement.arriving / self.unit - arriving
        headroom = self.placement.cluster.headroom_bytes / self.unit
        return np.asarray(np.maximum(headroom - others, arriving))

    @cached_property
    def max_moves(self) -> Numbers:
        """Return the most replicas that each partition moves: no more than now, or one."""
        made = np.bincount(self.moves.partitions[self.is_made], minlength=len(self.partitions))
        return np.maximum(1.0, made)

    # -- rounds

    def solve(self) -> tuple[Placement, int]:
        """Return a placement that copies less, to be mended, and a lower bound in bytes."""
        values = self.is_made.astype(np.float64)
        arriving = np.zeros((len(self.weights), len(self.destinations)))
        is_free = self._spaced_by_size()
        prices: _Prices | None = None
        min_copied = 0.0
        for _ in range(_MAX_ROUNDS):
            found = self._round(values, is_free, prices)
            if found is None:
                break
            values, arriving, new_prices = found
            min_copied = max(min_copied, self._bound(new_prices))
            prices = prices.mean(new_prices) if prices else new_prices
            gains, ties = self._gains(values, new_prices)
            if gains.sum() <= _NEAR * (self.costs @ values):
                break
            gains, ties = self._gains(values, prices)
            is_free = self._freed(values, gains, ties, _FREE_PARTITIONS)
        if prices and self._split(values).sum() <= _WHOLE_PARTITIONS:
            gains, ties = self._gains(values, prices)
            is_free = self._freed(values, gains, ties, _WHOLE_PARTITIONS)
            if found := self._round(values, is_free, prices, is_whole=True):
                values, arriving, _ = found
        return self._rounded(values, arriving), int(min_copied * self.unit)

    def _spaced_by_size(self) -> Flags:
        movable = np.unique(self.moves.partitions)
        movable = movable[np.lexsort((movable, -self.sizes[movable]))]
        count = min(_FREE_PARTITIONS, len(movable))
        is_free = np.zeros(len(self.partitions), dtype=np.bool_)
        is_free[movable[np.arange(count) * len(movable) // max(1, count)]] = True
        return is_free

    def _freed(self, values: Numbers, gains: Numbers, ties: Numbers, count: int) -> Flags:
        """Return the partitions to choose for next: `count`, or as many as are split."""
        is_split = self._split(values)
        order = np.where(gains > _SPLIT, -gains, ties)
        order = np.where(is_split, -_NEVER, order)
        first = np.lexsort((np.arange(len(order)), order))
        is_free = np.zeros_like(is_split)
        is_free[first[: max(count, int(is_split.sum()))]] = True
        return is_free

    def _split(self, values: Numbers) -> Flags:
        is_split = np.zeros(len(self.partitions), dtype=np.bool_)
        is_split[self.moves.partitions[np.abs(values - np.round(values)) > _SPLIT]] = True
        return is_split

    def _gains(self, values: Numbers, prices: _Prices) -> tuple[Numbers, Numbers]:
        """Return, per partition, what the best choice costs less at these prices, and how much more
        the next one costs.
        """
        partitions, count = self.moves.partitions, len(self.partitions)
        costs = self._reduced_costs(prices)
        chosen = np.bincount(partitions, values * costs, minlength=count)
        best = np.where(self.may_stay, 0.0, _NEVER)
        np.minimum.at(best, partitions, costs)
        away = np.abs(costs - chosen[partitions])
        ties = np.where(self.may_stay & (np.abs(chosen) > _SPLIT), np.abs(chosen), _NEVER)
        np.minimum.at(ties, partitions, np.where(away > _SPLIT, away, _NEVER))
        is_movable = np.bincount(partitions, minlength=count) > 0
        return np.where(is_movable, chosen - best, 0.0), np.where(is_movable, ties, _NEVER)

    def _are_cheap(self, prices: _Prices) -> Flags:
        """Return the moves that cost least at these prices: some of each partition."""
        costs, partitions = self._reduced_costs(prices), self.moves.partitions
        order = np.lexsort((costs, partitions))
        starts = np.searchsorted(partitions[order], partitions[order])
        are_cheap = np.zeros(len(partitions), dtype=np.bool_)
        are_cheap[order[np.arange(len(order)) - starts < _CHEAPEST]] = True
        return are_cheap

    def _reduced_costs(self, prices: _Prices) -> Numbers:
        costs = self.costs.copy()
        of_kinds = zip(self.weights, prices.of_brokers, prices.of_racks, strict=True)
        for weights, of_brokers, of_racks in of_kinds:
            prices_of_move = of_racks[self.moves.racks] - of_brokers[self.moves.brokers]
            costs -= weights[self.moves.partitions] * prices_of_move
        return costs

    def _round(
        self,
        values: Numbers,
        is_free: Flags,
        earlier: _Prices | None,
        *,
        is_whole: bool = False,
    ) -> tuple[Numbers, Numbers, _Prices] | None:
        """Return the values where the free partitions are chosen anew, what each destination
        receives (a row of replicas, then one per load), and the prices.

        At prices of earlier rounds, only what is made or costs little is chosen from. With
        `is_whole` no replica is split, and there are no prices.
        """
        moves = self.moves
        is_open = is_free[moves.partitions]
        others = np.flatnonzero(~is_open & (values > 0))
        if earlier:
            is_open &= (values > 0) | self._are_cheap(earlier)
        free = np.flatnonzero(is_open)
        rows, width = self._rows(moves.only(free), moves.only(others), values[others])
        received_count = self.weights.shape[0] * len(self.destinations)
        costs, upper = np.zeros(width), np.full(width, np.inf)
        costs[: len(free)], upper[: len(free)] = self.costs[free], 1.0
        bytes_received = len(free) + len(self.destinations) + np.arange(len(self.destinations))
        upper[bytes_received] = self._room[self.destinations]
        if is_whole:
            counts_whole = np.arange(width) < len(free) + len(self.destinations)
            solution = rows.solved(costs, upper, counts_whole)
        else:
            solution = rows.relaxed(costs, upper)
        if solution is None:
            return None
        chosen = values.copy()
        chosen[free] = solution.values[: len(free)]
        received = solution.values[len(free) : len(free) + received_count]
        ends = np.cumsum([len(part) for part in rows.low])
        prices = np.split(solution.prices, ends)
        kinds = len(self.weights)
        of_brokers = np.stack([prices[0], *(self._by_broker(part) for part in prices[1:kinds])])
        of_racks = np.stack(prices[kinds : 2 * kinds])
        # A replica that leaves a broker lowers its load, one that comes to a rack raises that.
        return chosen, received.reshape(kinds, -1), _Prices(of_brokers, -of_racks)

    def _by_broker(self, of_sharing: Numbers) -> Numbers:
        prices = np.zeros(self.broker_count)
        prices[self.choice.roles.sharing] = of_sharing
        return prices

    # -- rows

    def _rows(self, free: _Moves, others: _Moves, made: Numbers) -> tuple[Rows, int]:
        """Return the rows, and how many variables they are about: moves, what each destination
        receives.
        """
        rows, weights, roles = Rows(), self.weights, self.choice.roles
        move_count, receiver_count = len(free.partitions), len(self.destinations)
        of_moves, receivers = np.arange(move_count), np.arange(receiver_count)
        racks = self.placement.cluster.racks
        received = [move_count + kind * receiver_count + receivers for kind in range(len(weights))]
        ones = np.ones(receiver_count)

        for kind, of_partitions in enumerate(weights):
            weight, gone = of_partitions[free.partitions], of_partitions[others.partitions] * made
            base = of_partitions @ self.base
            base = base - np.bincount(others.brokers, gone, minlength=self.broker_count)
            if not kind:
                open_counts = of_partitions @ self.now - base
                rows.add(
                    np.concatenate([free.brokers, self.destinations]),
                    np.concatenate([of_moves, received[0]]),
                    np.concatenate([-weight, ones]),
                    open_counts,
                    open_counts,
                )
                continue
            load = self.loads[kind - 1]
            unit = _unit_of(load)
            others_held = load.held / unit - of_partitions @ self.now
            low = np.minimum(load.band.lowest, load.held) / unit - others_held - base
            high = np.maximum(load.band.highest, load.held) / unit - others_held - base
            margin = np.minimum(self.margin, (high - low) / 4)
            numbers = np.full(self.broker_count, NOBODY)
            numbers[roles.sharing] = np.arange(int(roles.sharing.sum()))
            row = numbers[np.concatenate([free.brokers, self.destinations])]
            column = np.concatenate([of_moves, received[kind]])
            value = np.concatenate([-weight, ones])
            is_row = row != NOBODY
            ends = (low + margin)[roles.sharing], (high - margin)[roles.sharing]
            rows.add(row[is_row], column[is_row], value[is_row], *ends)

        for kind, of_partitions in enumerate(weights):
            weight, came = of_partitions[free.partitions], of_partitions[others.partitions] * made
            balance = np.bincount(others.racks, came, minlength=self.rack_count)
            rows.add(
                np.concatenate([free.racks, racks[self.destinations]]),
                np.concatenate([of_moves, received[kind]]),
                np.concatenate([-weight, ones]),
                balance,
                balance,
            )

        used, row_of = np.unique(free.partitions, return_inverse=True)
        fewest = np.where(self.may_stay[used], 0.0, 1.0)
        rows.add(row_of, of_moves, np.ones(move_count), fewest, self.max_moves[used])

        self._add_racks(rows, free)

        # What a broker receives is as large as so many replicas can be.
        sizes = self.sizes[self.moves.partitions]
        both = np.concatenate([receivers, receivers]), np.concatenate([received[1], received[0]])
        most, least = sizes.max(initial=0), sizes.min(initial=np.inf)
        nothing, endless = np.zeros(receiver_count), np.full(receiver_count, _NEVER)
        rows.add(*both, np.concatenate([ones, -most * ones]), -endless, nothing)
        rows.add(*both, np.concatenate([ones, -least * ones]), nothing, endless)

        return rows, move_count + len(weights) * receiver_count

    def _add_racks(self, rows: Rows, free: _Moves) -> None:
        """Keep partitions that may make several moves on their racks: one move alone does so."""
        several = np.flatnonzero(self.max_moves > 1)
        number_of = np.full(len(self.partitions), NOBODY)
        number_of[several] = np.arange(len(several))
        chosen = np.flatnonzero(number_of[free.partitions] != NOBODY)
        numbers = number_of[free.partitions[chosen]] * self.rack_count
        left = self.placement.cluster.racks[free.brokers[chosen]]
        stacks = (self.home[several] @ self.choice.in_rack.T).ravel()
        low, high = (ends[several].ravel() - stacks for ends in self.bounds)
        # Each replica leaves once.
        sources = free.partitions[chosen] * self.broker_count + free.brokers[chosen]
        leaving, row_of = np.unique(sources, return_inverse=True)
        one = np.ones(len(leaving))
        rows.add(row_of, chosen, np.ones(len(chosen)), -_NEVER * one, one)
        is_several = np.repeat(several, self.rack_count)
        is_free = np.isin(is_several, free.partitions)
        rows.add(
            np.concatenate([numbers + free.racks[chosen], numbers + left]),
            np.concatenate([chosen, chosen]),
            np.concatenate([np.ones(len(chosen)), -np.ones(len(chosen))]),
            np.where(is_free, np.minimum(low, high), -_NEVER),
            np.where(is_free, high, _NEVER),
        )

    # -- bound

    def _bound(self, prices: _Prices) -> float:
        """Return what any choice as even copies at least, in units.

        Prices of traffic are left out: a plan need not keep to its band.
        """
        sharing = self.choice.roles.sharing
        of_counts, of_bytes = prices.of_brokers[:2]
        load = self.loads[0]
        others_held = load.held / self.unit - self.sizes @ self.now
        low = np.minimum(load.band.lowest, load.held) / self.unit - others_held
        high = np.maximum(load.band.highest, load.held) / self.unit - others_held
        value = float(of_counts @ self.now.sum(axis=0))
        value += float((of_bytes * np.where(of_bytes > 0, low, high))[sharing].sum())
        value -= self._worth_of_other_counts(of_counts)
        costs = np.where(self.home, 0.0, self.sizes[:, None])
        costs -= of_counts + self.sizes[:, None] * of_bytes
        return value + float(self._cheapest(costs).sum())

    def _worth_of_other_counts(self, of_counts: Numbers) -> float:
        """Return how much less a plan may cost that is as even, and has one replica more or fewer
        on some brokers.

        The sum of squares, each times the broker's cost of a replica, is no more then.
        """
        counts, sharing, rows = self.placement.counts, self.choice.roles.sharing, Rows()
        costs = self.choice.replica_costs / self.choice.replica_costs.min()
        ones, columns = np.ones(len(counts)), np.arange(2 * len(counts))
        one_row, nothing = np.zeros_like(columns), np.zeros(1)
        rows.add(one_row, columns, np.concatenate([ones, -ones]), nothing, nothing)
        squares = np.concatenate([(2 * counts + 1) * costs, -(2 * counts - 1) * costs])
        rows.add(one_row, columns, squares, -np.abs(squares).sum(keepdims=True), nothing)
        worth = np.concatenate([of_counts, -of_counts])
        upper = np.concatenate([sharing, sharing & (counts > 0)]).astype(np.float64)
        solution = rows.relaxed(worth, upper)
        return float(np.abs(worth) @ upper if solution is None else -worth @ solution.values)

    def _cheapest(self, costs: Numbers) -> Numbers:
        """Return what the replicas of each partition cost where they cost least, on its racks as
        evenly as it should.
        """
        choice, (lowest, highest) = self.choice, self.bounds
        costs = np.where(self.may_stand, costs, _NEVER)
        order = np.where(self.must_stand, -_NEVER, costs)
        rows = np.arange(len(costs))[:, None]
        places, needs = [], []
        for rack in np.flatnonzero(choice.in_rack.any(axis=1)).tolist():
            brokers = np.flatnonzero(choice.in_rack[rack])
            cheapest = brokers[np.argsort(order[:, brokers], axis=1, kind="stable")]
            cheapest = cheapest[:, : int(highest[:, rack].max(initial=0))]
            place = np.arange(cheapest.shape[1])
            of_rack = np.where(place < highest[:, rack, None], costs[rows, cheapest], _NEVER)
            is_needed = (place < lowest[:, rack, None]) | self.must_stand[rows, cheapest]
            places.append(of_rack)
            needs.append(np.where(is_needed, -_NEVER, of_rack))
        values, ranks = np.concatenate(places, axis=1), np.concatenate(needs, axis=1)
        best = np.argsort(ranks, axis=1, kind="stable")
        is_chosen = np.arange(values.shape[1]) < self.now.sum(axis=1)[:, None]
        return np.asarray((values[rows, best] * is_chosen).sum(axis=1))

    # -- replicas

    def _whole_moves(self, values: Numbers) -> Ints:
        """Return the moves that each partition makes most of, as many as it makes in all."""
        moves, stacks = self.moves, self.home @ self.choice.in_rack.T
        totals = np.bincount(moves.partitions, values, minlength=len(self.partitions))
        left = np.round(totals).astype(np.int64)
        is_due = ~self.may_stay & (totals > _SPLIT)
        left[is_due] = np.maximum(1, left[is_due])
        likely = np.flatnonzero((values > _SPLIT) & (left[moves.partitions] > 0))
        likely = likely[np.lexsort((likely, -values[likely]))]
        is_single = self.max_moves[moves.partitions[likely]] == 1
        singles = likely[is_single]
        _, first = np.unique(moves.partitions[singles], return_index=True)
        racks, chosen = self.placement.cluster.racks, singles[first].tolist()
        for move in likely[~is_single].tolist():
            row, source, rack = (int(column[move]) for column in moves)
            after = stacks[row].copy()
            after[racks[source]] -= 1
            after[rack] += 1
            low, high = self.bounds.lowest[row], self.bounds.highest[row]
            if left[row] and (after >= low).all() and (after <= high).all():
                stacks[row] = after
                left[row] -= 1
                chosen.append(move)
        return np.array(chosen, dtype=np.int64)

    def _rounded(self, values: Numbers, received: Numbers) -> Placement:
        """Return the placement with whole moves."""
        moves = self._whole_moves(values)
        replicas = self.placement.replicas.copy()
        moving = ~self.is_kept
        original = self.placement.original[self.partitions[moving]]
        replicas[self.partitions[moving], : original.shape[1]] = original
        self._assign(replicas, moves[np.lexsort((moves, -self._size_of(moves)))], received)
        cheaper = self.placement.copy()
        cheaper.reset_to(replicas)
        return cheaper

    def _size_of(self, moves: Ints) -> Numbers:
        return np.asarray(self.sizes[self.moves.partitions[moves]])

    def _assign(self, replicas: Ints, chosen: Ints, received: Numbers) -> None:
        """Give each replica that comes to a rack to the broker that is to get most bytes yet, of
        those that are to get a replica.
        """
        counts = dict(zip(self.destinations.tolist(), received[0].tolist(), strict=True))
        space = dict(zip(self.destinations.tolist(), received[1].tolist(), strict=True))
        room, may_come = self._room.tolist(), self.may_stand & ~self.home
        racks = self.placement.cluster.racks
        members_of = {
            rack: [broker for broker in counts if racks[broker] == rack]
            for rack in range(self.rack_count)
        }
        columns = (*self.moves.only(chosen), self._size_of(chosen))
        for row, source, rack, size in zip(*(c.tolist() for c in columns), strict=True):
            of_partition = replicas[self.partitions[row]]
            held_by, may_come_to = of_partition.tolist(), may_come[row].tolist()
            members = [b for b in members_of[rack] if may_come_to[b] and b not in held_by]
            if not members:
                continue
            with_room = [b for b in members if size <= room[b]] or members
            *_, broker = max([(counts[b] > _HALF, space[b], -b, b) for b in with_room])
            room[broker] -= size
            counts[broker] -= 1
            space[broker] -= size
            of_partition[of_partition == source] = broker


def _unit_of(load: Load) -> float:
    """Return the bytes, or bytes per second, that count as one: whole ones would be too large."""
    return max(1.0, float(load.band.fair.max(initial=0)) / _UNITS_IN_SHARE)


def _rack_bounds(choice: ReplicaChoice, now: Flags) -> RackBounds:
    """Return how many replicas of each partition stand in each rack: as now, or as they should."""
    factors, stacks = now.sum(axis=1), now @ choice.in_rack.T
    rack_sizes = choice.start.cluster.rack_sizes(choice.roles.staying)
    lowest, highest = np.zeros_like(stacks), np.zeros_like(stacks)
    for factor in np.unique(factors).tolist():
        bounds = bounds_of_partition(factor, rack_sizes)
        lowest[factors == factor], highest[factors == factor] = bounds
    return RackBounds(np.minimum(lowest, stacks), np.maximum(highest, stacks))


def _moves(
    choice: ReplicaChoice, home: Flags, may_leave: Flags, may_come: Flags, bounds: RackBounds
) -> _Moves:
    """Return the moves that leave a partition on its racks as evenly as now, or as it should be."""
    partitions, brokers = np.nonzero(may_leave)
    racks = choice.start.cluster.racks[brokers]
    stacks, places = (home @ choice.in_rack.T)[partitions], may_come @ choice.in_rack.T
    stacks[np.arange(len(racks)), racks] -= 1
    found = []
    for rack in range(len(choice.in_rack)):
        after = stacks.copy()
        after[:, rack] += 1
        may = (after >= bounds.lowest[partitions]) & (after <= bounds.highest[partitions])
        chosen = np.flatnonzero(may.all(axis=1) & (places[partitions, rack] > 0))
        found.append(_Moves(partitions[chosen], brokers[chosen], np.full(len(chosen), rack)))
    return _Moves(*(np.concatenate(columns) for columns in zip(*found, strict=True)))


def _made(moves: _Moves, home: Flags, now: Flags, racks: Ints) -> Flags:
    """Return which moves are made now; of partitions with several, those within a rack first."""
    rack_count = int(racks.max(initial=0)) + 1
    keys = (moves.partitions * home.shape[1] + moves.brokers) * rack_count + moves.racks
    number_of = dict(zip(keys.tolist(), range(len(keys)), strict=True))
    is_made = np.zeros(len(keys), dtype=np.bool_)
    left, came = home & ~now, now & ~home
    for partition in np.flatnonzero(came.any(axis=1)).tolist():
        sources = np.flatnonzero(left[partition]).tolist()
        goals = sorted(racks[came[partition]].tolist())
        for source in sorted(sources, key=lambda broker: racks[broker] not in goals):
            own = int(racks[source])
            rack = goals.pop(goals.index(own)) if own in goals else goals.pop(0)
            number = number_of.get((partition * home.shape[1] + source) * rack_count + rack)
            if number is not None:
                is_made[number] = True
    return is_made
