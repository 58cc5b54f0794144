"""Leaders per topic: as even as the replica sets allow while every broker keeps the number it
leads.

    leads = even_topics(candidates, even_leaders(candidates))       # 8 partitions on 5 brokers lead 1, 1, 2, 2, 2

A topic leans when one broker leads at least two partitions of it more than another one. Then
leadership is passed on inside the topic, from broker to broker, so that a broker that leads many
leads one less and one that leads few one more; and goes back to the first by partitions of other
topics, none of which gets less even by that. Each such circle lowers the sum of the squares of the
counts per topic and broker, and in the end there is none left. So a topic that still leans does
because its replica sets allow no better, or because no way back is free; circles on which one topic
gains what another one loses are not looked for.

Circles that take few further changes of leader come first. Topics that do not lean change on ways
back only. Time: about 0.2 ms per circle.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterpoise.model.columns import Flags, Ints
from counterpoise.planning.leading.candidates import Candidates

_SmallInts: TypeAlias = NDArray[
    np.int32
]  # for what has a cell per topic and broker, or per pair of brokers
_Step: TypeAlias = tuple[int, int]  # a partition, and the broker that leadership is passed on to

_PER_CHANGE = 64  # steps: of paths with as many changes of leader the shortest is the best
_MOST_STEPS = 128  # of a path inside a topic
_FAR = 1 << 40
_MOST_TRIED = 2
_TOPICS_AT_ONCE = 1024


@dataclass(frozen=True, slots=True, eq=False)
class _Arcs:
    """Ways to pass leadership on: which partition, from which broker, to which one."""

    partitions: Ints
    tails: Ints
    heads: Ints
    changes: Ints  # of leader, more than now: 1, 0 or -1


@dataclass(slots=True, eq=False)
class _Board:
    """Who leads what."""

    candidates: Candidates
    leads: Ints
    counts: _SmallInts  # by topic and broker
    by_topic: Ints  # the free partitions
    starts: Ints  # where those of each topic begin in `by_topic`, and the end
    cheap: (
        _SmallInts  # by broker and broker: steps of partitions that do not keep their leader anyway
    )

    @classmethod
    def of(cls, candidates: Candidates, leads: Ints) -> "_Board":
        count, free = candidates.broker_count, candidates.free
        counts = np.zeros((candidates.topic_count, count), dtype=np.int32)
        known = leads >= 0
        np.add.at(counts, (candidates.topics[known], leads[known]), 1)
        by_topic = free[np.argsort(candidates.topics[free], kind="stable")]
        starts = np.searchsorted(candidates.topics[by_topic], np.arange(candidates.topic_count + 1))
        cheap = np.zeros((count, count), dtype=np.int32)
        board = cls(candidates, leads.copy(), counts, by_topic, starts, cheap)
        arcs = board.arcs(free[candidates.present[free] != leads[free]])
        np.add.at(cheap, (arcs.tails, arcs.heads), 1)
        return board

    def leaning(self) -> list[int]:
        """The topics of which one broker that may lead leads at least two more than another one."""
        leading = self.candidates.leading
        topics: list[int] = []
        for start in range(0, len(self.counts), _TOPICS_AT_ONCE):
            counts = self.counts[start : start + _TOPICS_AT_ONCE, leading]
            topics += (start + np.flatnonzero(np.ptp(counts, axis=1) > 1)).tolist()
        return topics

    def arcs_of(self, topic: int) -> _Arcs:
        return self.arcs(self.by_topic[self.starts[topic] : self.starts[topic + 1]])

    def arcs(self, partitions: Ints) -> _Arcs:
        leads, rows = self.leads[partitions], self.candidates.rows[partitions]
        at, column = np.nonzero((rows >= 0) & (rows != leads[:, None]))
        heads, tails, partitions = rows[at, column], leads[at], partitions[at]
        present = self.candidates.present[partitions]
        changes = (present != heads).astype(np.int64) - (present != tails)
        return _Arcs(partitions, tails, heads, changes)

    def is_free(self, arcs: _Arcs) -> Flags:
        """Does a step along the arc leave its topic at least as even?"""
        topics = self.candidates.topics[arcs.partitions]
        return np.asarray(self.counts[topics, arcs.tails] > self.counts[topics, arcs.heads])

    def free_step(self, tail: int, head: int, topic: int, *, cheap: bool = False) -> _Step | None:
        """The free step that costs least; of other topics than the given one.

        `cheap`: without a change of leader.
        """
        candidates = self.candidates
        held = candidates.shared_by(tail, head)
        held = held[self.leads[held] == tail]
        if cheap:
            held = held[candidates.present[held] != tail]
        topics = candidates.topics[held]
        held = held[(self.counts[topics, tail] > self.counts[topics, head]) & (topics != topic)]
        if not len(held):
            return None
        costs = candidates.cost(held, head) - candidates.cost(held, tail)
        return int(held[costs.argmin()]), head

    def take(self, step: _Step) -> None:
        partition, head = step
        topic, tail = self.candidates.topics[partition], self.leads[partition]
        present, row = self.candidates.present[partition], self.candidates.rows[partition]
        row = row[row >= 0]
        self.cheap[tail, row] -= present != tail
        self.cheap[head, row] += present != head
        self.counts[topic, tail] -= 1
        self.counts[topic, head] += 1
        self.leads[partition] = head


def even_topics(candidates: Candidates, leads: Ints) -> Ints:
    """Leaders as even per topic as can be; no broker leads more or fewer partitions than by
    `leads`.
    """
    board = _Board.of(candidates, leads)
    while True:
        if not sum(_go_round(board, topic) for topic in board.leaning()) and not _go_everywhere(
            board
        ):
            return board.leads


def _go_round(board: _Board, topic: int) -> bool:
    """Circles with short ways back until the topic is even or there is none; whether there was any."""
    improved = False
    while True:
        arcs, counts = board.arcs_of(topic), board.counts[topic]
        for level, heavy in _levels(board, arcs, counts):
            paths = _Paths.cheapest(arcs, heavy, len(counts))
            if _take_circles(board, topic, arcs, paths, heavy, paths.reached(counts <= level - 2)):
                improved = True
                break
        else:
            return improved


def _levels(board: _Board, arcs: _Arcs, counts: _SmallInts) -> list[tuple[int, Ints]]:
    """From the top: a count, and the brokers with at least so many that can pass one on."""
    leads_any = np.zeros(len(counts), dtype=np.bool_)
    leads_any[arcs.tails] = True
    fewest = int(counts[board.candidates.leading].min())
    levels = [level for level in np.unique(counts[leads_any])[::-1].tolist() if level - fewest >= 2]
    return [(level, np.flatnonzero(leads_any & (counts >= level))) for level in levels]


def _take_circles(
    board: _Board, topic: int, arcs: _Arcs, paths: "_Paths", heavy: Ints, light: Ints
) -> bool:
    """Circles from heavy brokers to light ones that have none in common, with short ways back."""
    used: set[int] = set()
    starts = set(heavy.tolist())
    for broker in light.tolist():
        if starts <= used:
            break
        path = paths.to(broker, arcs)
        if path is None:
            continue
        brokers = {broker, *arcs.tails[path].tolist()}
        if not used.isdisjoint(brokers):
            continue
        way = _short_way(board, broker, int(arcs.tails[path[-1]]), topic)
        for step in [*_steps(arcs, path), *way] if way else []:
            board.take(step)
        used |= brokers if way else set()
    return bool(used)


def _steps(arcs: _Arcs, path: list[int]) -> list[_Step]:
    return [(int(arcs.partitions[arc]), int(arcs.heads[arc])) for arc in path]


def _short_way(board: _Board, tail: int, head: int, topic: int) -> list[_Step] | None:
    """Straight back, or by way of one more broker where that saves a change of leader."""
    straight = board.free_step(tail, head, topic)
    if straight is not None and board.candidates.present[straight[0]] != tail:
        return [straight]
    between = np.minimum(board.cheap[tail], board.cheap[:, head])
    for _ in range(_MOST_TRIED):
        middle = int(between.argmax())
        if not between[middle]:
            break
        between[middle] = 0
        first = board.free_step(tail, middle, topic, cheap=True)
        second = board.free_step(middle, head, topic, cheap=True)
        if first is not None and second is not None:
            return [first, second]
    return None if straight is None else [straight]


def _go_everywhere(board: _Board) -> bool:
    """Circles however long, by topic; whether there was any."""
    leaning = board.leaning()
    if not leaning:
        return False
    ways = _Ways.of(board)
    return sum(_go_far_round(board, ways, topic) for topic in leaning) > 0


def _go_far_round(board: _Board, ways: "_Ways", topic: int) -> bool:
    ways.count(board.arcs_of(topic), -1)
    improved = False
    while _take_far_circle(board, ways, topic):
        improved = True
    ways.count(board.arcs_of(topic), 1)
    return improved


def _take_far_circle(board: _Board, ways: "_Ways", topic: int) -> bool:
    """One circle from any broker; the partitions of its topic are not among the ways now."""
    arcs, counts = board.arcs_of(topic), board.counts[topic]
    arcs = _Arcs(arcs.partitions, arcs.tails, arcs.heads, np.zeros_like(arcs.changes))
    for level, heavy in _levels(board, arcs, counts):
        is_light = counts <= level - 2
        if not len(_Paths.cheapest(arcs, heavy, len(counts)).reached(is_light)):
            continue
        for start in heavy[counts[heavy] == level].tolist():
            paths = _Paths.cheapest(arcs, np.array([start]), len(counts))
            way = ways.shortest(paths.reached(is_light), start)
            path = None if way is None else paths.to(way[0], arcs)
            if way is None or path is None:
                continue
            for step in _steps(arcs, path):
                board.take(step)
            for tail, head in pairwise(way):
                ways.go(tail, head, topic)
            return True
    return False


@dataclass(frozen=True, slots=True, eq=False)
class _Ways:
    """Between which brokers a free step leads, exactly."""

    board: _Board
    steps: _SmallInts  # by broker and broker

    @classmethod
    def of(cls, board: _Board) -> "_Ways":
        count = board.candidates.broker_count
        ways = cls(board, np.zeros((count, count), dtype=np.int32))
        ways.count(board.arcs(board.by_topic), 1)
        return ways

    def count(self, arcs: _Arcs, by: int) -> None:
        is_free = self.board.is_free(arcs)
        np.add.at(self.steps, (arcs.tails[is_free], arcs.heads[is_free]), by)

    def go(self, tail: int, head: int, topic: int) -> None:
        """Takes the step that costs least, of another topic than the given one."""
        step = self.board.free_step(tail, head, topic)
        if step is None:
            raise AssertionError(
                f"no free step leads from broker {tail} to {head}, though one was counted"
            )
        other = int(self.board.candidates.topics[step[0]])
        self.count(self.board.arcs_of(other), -1)
        self.board.take(step)
        self.count(self.board.arcs_of(other), 1)

    def shortest(self, tails: Ints, head: int) -> list[int] | None:
        """The brokers on a way from one of the tails, both ends included."""
        came_from = np.full(len(self.steps), -1)
        came_from[tails] = tails
        front = tails
        while len(front) and came_from[head] < 0:
            found = (self.steps[front] > 0) & (came_from < 0)
            new = np.flatnonzero(found.any(axis=0))
            came_from[new] = front[found[:, new].argmax(axis=0)]
            front = new
        if came_from[head] < 0:
            return None
        way = [head]
        while came_from[way[-1]] != way[-1]:
            way.append(int(came_from[way[-1]]))
        return way[::-1]


@dataclass(frozen=True, slots=True, eq=False)
class _Paths:
    """The cheapest paths inside a topic from any of some brokers to each other one."""

    prices: Ints  # per broker; _FAR where none goes
    last: Ints  # per broker: the arc that leads to it; -1 where none does

    @classmethod
    def cheapest(cls, arcs: _Arcs, sources: Ints, broker_count: int) -> "_Paths":
        """By relaxing all arcs at once, round after round (Bellman and Ford), since going back to a
        leader saves.

        Where that goes round in circles prices never settle, and `to` may find no path.
        """
        prices, last = np.full(broker_count, _FAR), np.full(broker_count, -1)
        prices[sources] = 0
        costs = arcs.changes * _PER_CHANGE + 1
        for _ in range(_MOST_STEPS):
            offers = prices[arcs.tails] + costs
            better = np.flatnonzero((offers < prices[arcs.heads]) & (prices[arcs.tails] < _FAR))
            if not len(better):
                break
            heads = arcs.heads[better]
            np.minimum.at(prices, heads, offers[better])
            best = better[offers[better] == prices[heads]][
                ::-1
            ]  # the first of equals is written last
            last[arcs.heads[best]] = best
        return cls(prices, last)

    def reached(self, wanted: Flags) -> Ints:
        """The brokers of the wanted ones that a path leads to, the cheapest first."""
        found = np.flatnonzero(wanted & (self.prices < _FAR))
        return found[np.argsort(self.prices[found], kind="stable")]

    def to(self, broker: int, arcs: _Arcs) -> list[int] | None:
        """The arcs of a path, the last one first; None where prices went in a circle."""
        path: list[int] = []
        while (arc := int(self.last[broker])) >= 0:
            if len(path) == len(self.last):
                return None
            path.append(arc)
            broker = int(arcs.tails[arc])
        return path
