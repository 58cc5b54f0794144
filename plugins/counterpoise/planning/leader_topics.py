"""Leaders per topic: as even as the replica sets allow, while every broker keeps its number.

    leaders = even_topics(candidates, even_leaders(candidates))

8 partitions of one topic on 5 brokers end with 1, 1, 2, 2 and 2 leaders per broker.

    for each uneven topic (one broker leads at least two more partitions of it than another):
        path  = leadership passed on inside the topic, from a broker with many to one with few
        back  = leadership passed back by partitions of other topics, none of which gets less even
        change the leaders along path + back: a cycle, so every broker keeps its count
    until no topic has such a cycle; first with short ways back, then with ways however long

Worked example: the partitions A-0, A-1, B-0, B-1 may all be led by brokers 0 and 1; broker 0 leads
A-0 and A-1, broker 1 leads B-0 and B-1. Each broker leads two, but topic A is uneven (2 and 0).
Path: A-0 goes from broker 0 to broker 1. Back: B-0 goes from broker 1 to broker 0, which makes B
more even too. Now each broker leads one partition of each topic.

Each cycle lowers the sum of the squares of the counts per topic and broker, so this ends. A topic
that is still uneven then is so because its replica sets allow no better, or because there is no way
back. Limits: cycles on which one topic gains what another one loses are not searched for. Cycles
that take few further changes of leader come first; topics that are even change on ways back only.
Time: about 0.2 ms per cycle.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from counterpoise.model.columns import Flags, Ints
from counterpoise.planning.leader_candidates import (
    Candidates,
    LeaderChange,
    Leadership,
    SmallInts,
)

_PRICE_PER_CHANGE = 64  # in arcs: of paths with as many changes of leader the shortest is cheapest
_MAX_PATH_ARCS = 128
_UNREACHED = 1 << 40
_MAX_MIDDLE_BROKERS = 2
_TOPICS_AT_ONCE = 1024


@dataclass(frozen=True, slots=True, eq=False)
class _Arcs:
    """Possible changes of leader, one entry each: which partition, from and to which broker."""

    partitions: Ints
    tails: Ints  # leads
    heads: Ints  # would lead
    changes: Ints  # changes of leader in the plan, compared to now: 1, 0 or -1

    def leader_changes(self, path: list[int]) -> list[LeaderChange]:
        return [(int(self.partitions[arc]), int(self.heads[arc])) for arc in path]


@dataclass(slots=True, eq=False)
class _Leadership(Leadership):
    """Who leads what, and which ways of passing leadership on there are."""

    by_topic: Ints  # the free partitions
    starts: Ints  # where those of each topic begin in `by_topic`, and the end
    changed_arcs: SmallInts  # by broker and broker: arcs of partitions that change leaders anyway

    @classmethod
    def start(cls, candidates: Candidates, leaders: Ints) -> "_Leadership":
        broker_count = candidates.broker_count
        free = candidates.free_partitions
        by_topic = free[np.argsort(candidates.topic_numbers[free], kind="stable")]
        topics = np.arange(candidates.topic_count + 1)
        leadership = cls.of(
            candidates,
            leaders,
            by_topic=by_topic,
            starts=np.searchsorted(candidates.topic_numbers[by_topic], topics),
            changed_arcs=np.zeros((broker_count, broker_count), dtype=np.int32),
        )
        is_changed = candidates.leaders_now[free] != leaders[free]
        arcs = leadership.arcs(free[is_changed])
        np.add.at(leadership.changed_arcs, (arcs.tails, arcs.heads), 1)
        return leadership

    def uneven_topics(self) -> list[int]:
        """Return the topics of which an eligible broker leads two more partitions than another."""
        brokers = self.candidates.eligible_brokers
        topics: list[int] = []
        for start in range(0, len(self.topic_counts), _TOPICS_AT_ONCE):
            counts = self.topic_counts[start : start + _TOPICS_AT_ONCE, brokers]
            is_uneven = np.ptp(counts, axis=1) > 1
            topics += (start + np.flatnonzero(is_uneven)).tolist()
        return topics

    def arcs_of(self, topic: int) -> _Arcs:
        return self.arcs(self.by_topic[self.starts[topic] : self.starts[topic + 1]])

    def arcs(self, partitions: Ints) -> _Arcs:
        leaders = self.leaders[partitions]
        rows, heads = self.candidates.alternatives(partitions, leaders)
        on_arc = partitions[rows]
        tails = leaders[rows]
        leaders_now = self.candidates.leaders_now[on_arc]
        changes = (leaders_now != heads).astype(np.int64) - (leaders_now != tails)
        return _Arcs(on_arc, tails, heads, changes)

    def is_harmless(self, arcs: _Arcs) -> Flags:
        """Return, per arc, whether its topic stays at least as even if it is used."""
        topics = self.candidates.topic_numbers[arcs.partitions]
        tail_counts = self.topic_counts[topics, arcs.tails]
        head_counts = self.topic_counts[topics, arcs.heads]
        return np.asarray(tail_counts > head_counts)

    def harmless_change(
        self, tail: int, head: int, but_topic: int, *, only_changed: bool = False
    ) -> LeaderChange | None:
        """Return the cheapest harmless change from one broker to another, of other topics.

        With `only_changed` it has to be a partition that changes its leader anyway.
        """
        candidates = self.candidates
        partitions = self.passable(tail, head)
        if only_changed:
            partitions = partitions[candidates.leaders_now[partitions] != tail]
        topics = candidates.topic_numbers[partitions]
        is_harmless = self.topic_counts[topics, tail] > self.topic_counts[topics, head]
        partitions = partitions[is_harmless & (topics != but_topic)]
        if not len(partitions):
            return None
        further_costs = self.further_cost(partitions, head)
        return int(partitions[further_costs.argmin()]), head

    def pass_on(self, changes: list[LeaderChange]) -> None:
        """Take the changes, and count the arcs of partitions that change leaders anyway."""
        for partition, head in changes:
            tail = self.leaders[partition]
            leader_now = self.candidates.leaders_now[partition]
            replicas = self.candidates.replicas[partition]
            may_lead = replicas[replicas >= 0]
            self.changed_arcs[tail, may_lead] -= leader_now != tail
            self.changed_arcs[head, may_lead] += leader_now != head
            self.take([(partition, head)])


def even_topics(candidates: Candidates, leaders: Ints) -> Ints:
    """Return leaders that are as even per topic as found, with as many per broker as `leaders`."""
    leadership = _Leadership.start(candidates, leaders)
    is_improved = True
    while is_improved:
        is_improved = False
        for topic in leadership.uneven_topics():
            while _take_short_cycles(leadership, topic):
                is_improved = True
        is_improved = is_improved or _take_long_cycles(leadership)
    return leadership.leaders


def _take_short_cycles(leadership: _Leadership, topic: int) -> bool:
    """Take the cycles of the highest count that has any; return whether there was one."""
    arcs = leadership.arcs_of(topic)
    counts = leadership.topic_counts[topic]
    for count, heavy_brokers in _levels(leadership, arcs, counts):
        paths = _Paths.cheapest(arcs, heavy_brokers, len(counts))
        light_brokers = paths.reached(counts <= count - 2)
        if _take_disjoint_cycles(leadership, topic, arcs, paths, heavy_brokers, light_brokers):
            return True
    return False


def _levels(leadership: _Leadership, arcs: _Arcs, counts: SmallInts) -> list[tuple[int, Ints]]:
    """Return counts from the top, each with the brokers that have so many and can pass one on."""
    can_pass_on = np.zeros(len(counts), dtype=np.bool_)
    can_pass_on[arcs.tails] = True
    fewest = int(counts[leadership.candidates.eligible_brokers].min())
    levels = np.unique(counts[can_pass_on])[::-1].tolist()
    return [
        (level, np.flatnonzero(can_pass_on & (counts >= level)))
        for level in levels
        if level - fewest >= 2
    ]


def _take_disjoint_cycles(
    leadership: _Leadership,
    topic: int,
    arcs: _Arcs,
    paths: "_Paths",
    heavy_brokers: Ints,
    light_brokers: Ints,
) -> bool:
    """Take cycles from heavy to light brokers without a common broker; return whether any was."""
    used: set[int] = set()
    heavy = set(heavy_brokers.tolist())
    for light in light_brokers.tolist():
        if heavy <= used:
            break
        path = paths.to(light, arcs)
        if path is None:
            continue
        brokers = {light, *arcs.tails[path].tolist()}
        if not used.isdisjoint(brokers):
            continue
        start = int(arcs.tails[path[-1]])
        way_back = _short_way_back(leadership, light, start, topic)
        if not way_back:
            continue
        leadership.pass_on([*arcs.leader_changes(path), *way_back])
        used |= brokers
    return bool(used)


def _short_way_back(
    leadership: _Leadership, tail: int, head: int, topic: int
) -> list[LeaderChange] | None:
    """Return the direct way, or one over a middle broker where that saves a change of leader."""
    leaders_now = leadership.candidates.leaders_now
    direct = leadership.harmless_change(tail, head, topic)
    if direct is not None and leaders_now[direct[0]] != tail:
        return [direct]
    choices = np.minimum(leadership.changed_arcs[tail], leadership.changed_arcs[:, head])
    for _ in range(_MAX_MIDDLE_BROKERS):
        middle = int(choices.argmax())
        if not choices[middle]:
            break
        choices[middle] = 0
        first = leadership.harmless_change(tail, middle, topic, only_changed=True)
        second = leadership.harmless_change(middle, head, topic, only_changed=True)
        if first is not None and second is not None:
            return [first, second]
    return None if direct is None else [direct]


def _take_long_cycles(leadership: _Leadership) -> bool:
    """Take cycles however long, topic by topic, none back by the topic; return whether any was."""
    uneven_topics = leadership.uneven_topics()
    if not uneven_topics:
        return False
    is_improved = False
    ways_back = _WaysBack.of(leadership)
    for topic in uneven_topics:
        ways_back.count(leadership.arcs_of(topic), -1)
        while _take_long_cycle(leadership, ways_back, topic):
            is_improved = True
        ways_back.count(leadership.arcs_of(topic), 1)
    return is_improved


def _take_long_cycle(leadership: _Leadership, ways_back: "_WaysBack", topic: int) -> bool:
    """Take one cycle from any broker; False when there is none."""
    arcs = leadership.arcs_of(topic)
    counts = leadership.topic_counts[topic]
    arcs = _Arcs(arcs.partitions, arcs.tails, arcs.heads, np.zeros_like(arcs.changes))
    for count, heavy_brokers in _levels(leadership, arcs, counts):
        is_light = counts <= count - 2
        if not len(_Paths.cheapest(arcs, heavy_brokers, len(counts)).reached(is_light)):
            continue
        for start in heavy_brokers[counts[heavy_brokers] == count].tolist():
            paths = _Paths.cheapest(arcs, np.array([start]), len(counts))
            way_back = ways_back.shortest(paths.reached(is_light), start)
            path = None if way_back is None else paths.to(way_back[0], arcs)
            if way_back is None or path is None:
                continue
            leadership.pass_on(arcs.leader_changes(path))
            for tail, head in pairwise(way_back):
                ways_back.take(tail, head, topic)
            return True
    return False


@dataclass(frozen=True, slots=True, eq=False)
class _WaysBack:
    """Between which brokers leadership can be passed on without harm to any topic."""

    leadership: _Leadership
    counts: SmallInts  # harmless arcs, by broker and broker

    @classmethod
    def of(cls, leadership: _Leadership) -> "_WaysBack":
        broker_count = leadership.candidates.broker_count
        ways_back = cls(leadership, np.zeros((broker_count, broker_count), dtype=np.int32))
        ways_back.count(leadership.arcs(leadership.by_topic), 1)
        return ways_back

    def count(self, arcs: _Arcs, by: int) -> None:
        is_harmless = self.leadership.is_harmless(arcs)
        np.add.at(self.counts, (arcs.tails[is_harmless], arcs.heads[is_harmless]), by)

    def take(self, tail: int, head: int, but_topic: int) -> None:
        """Take the cheapest harmless change of another topic than the given one."""
        change = self.leadership.harmless_change(tail, head, but_topic)
        if change is None:
            raise AssertionError(
                f"no leadership can pass from broker {tail} to {head}, though one was counted"
            )
        topic = int(self.leadership.candidates.topic_numbers[change[0]])
        self.count(self.leadership.arcs_of(topic), -1)
        self.leadership.pass_on([change])
        self.count(self.leadership.arcs_of(topic), 1)

    def shortest(self, tails: Ints, head: int) -> list[int] | None:
        """Return the brokers on the shortest way from one of `tails` to `head`, ends included."""
        came_from = np.full(len(self.counts), -1)
        came_from[tails] = tails
        front = tails
        while len(front) and came_from[head] < 0:
            is_next = (self.counts[front] > 0) & (came_from < 0)
            reached = np.flatnonzero(is_next.any(axis=0))
            came_from[reached] = front[is_next[:, reached].argmax(axis=0)]
            front = reached
        if came_from[head] < 0:
            return None
        way = [head]
        while came_from[way[-1]] != way[-1]:
            way.append(int(came_from[way[-1]]))
        return way[::-1]


@dataclass(frozen=True, slots=True, eq=False)
class _Paths:
    """The cheapest paths inside a topic from any of some brokers to each other broker."""

    prices: Ints  # per broker; _UNREACHED where no path leads
    last_arcs: Ints  # per broker: the arc that leads to it; -1 where none does

    @classmethod
    def cheapest(cls, arcs: _Arcs, start_brokers: Ints, broker_count: int) -> "_Paths":
        """Return the paths by relaxing all arcs at once, in rounds (Bellman and Ford).

        An arc that goes back to the leader of now has a price below 0. Where such arcs form a
        cycle, prices never settle, and `to` may find no path.
        """
        prices = np.full(broker_count, _UNREACHED)
        last_arcs = np.full(broker_count, -1)
        prices[start_brokers] = 0
        arc_prices = arcs.changes * _PRICE_PER_CHANGE + 1
        for _ in range(_MAX_PATH_ARCS):
            new_prices = prices[arcs.tails] + arc_prices
            is_reached = prices[arcs.tails] < _UNREACHED
            cheaper = np.flatnonzero((new_prices < prices[arcs.heads]) & is_reached)
            if not len(cheaper):
                break
            np.minimum.at(prices, arcs.heads[cheaper], new_prices[cheaper])
            is_cheapest = new_prices[cheaper] == prices[arcs.heads[cheaper]]
            cheapest = cheaper[is_cheapest][::-1]  # of equal arcs the first is written last
            last_arcs[arcs.heads[cheapest]] = cheapest
        return cls(prices, last_arcs)

    def reached(self, is_wanted: Flags) -> Ints:
        """Return the wanted brokers to which a path leads, the cheapest first."""
        brokers = np.flatnonzero(is_wanted & (self.prices < _UNREACHED))
        return brokers[np.argsort(self.prices[brokers], kind="stable")]

    def to(self, broker: int, arcs: _Arcs) -> list[int] | None:
        """Return the arcs of a path, the last one first; None where prices went in a cycle."""
        path: list[int] = []
        while (arc := int(self.last_arcs[broker])) >= 0:
            if len(path) == len(self.last_arcs):
                return None
            path.append(arc)
            broker = int(arcs.tails[arc])
        return path
