"""No broker leads more bytes-in than it may (`max_leader_bytes_in_per_second`), where that can be.

    leaders = keep_below(candidates, leaders)

    for the broker that is furthest above the limit:
        another broker leads one of its partitions instead, for a lower rate of its own: the counts
        of leaders stay; else it just gives one away
        of these what leaves least above the limit on both brokers, an exchange before a gift
    until none is above, or nothing helps

Worked example: the limit is 50 MB/s; brokers 1 and 2 lead 40 + 20 and 15 + 10 MB/s. Broker 1 gives
the 20 for the 10: 50 and 35 MB/s, and each leads two partitions as before.

Limits: a local search, and a partition whose own rate is above the limit stays so: a warning says.
"""

from typing import NamedTuple

import numpy as np

from counterpoise.model.columns import Ints
from counterpoise.planning.leading.candidates import Candidates

_MAX_CHANGES_PER_PARTITION = 4


class _Change(NamedTuple):
    going: int  # a partition
    returning: int | None
    destination: int
    key: tuple[int, int, int, int]  # the smallest is the best


def bytes_above(candidates: Candidates, leaders: Ints) -> int:
    """Return the bytes per second that eligible brokers lead above what they may."""
    above = candidates.led_bytes(leaders) - candidates.max_led_bytes
    return int(np.maximum(0, above)[candidates.eligible_brokers].sum())


def keep_below(candidates: Candidates, leaders: Ints) -> Ints:
    """Return leaders with as little above the limits of brokers as the search finds.

    `leaders` have one broker per partition; those that are not free stay.
    """
    leaders = np.where(candidates.is_free, leaders, candidates.leaders_now)
    loads, limits = candidates.led_bytes(leaders), candidates.max_led_bytes
    is_hopeless, has_changed = ~candidates.is_eligible, False
    for _ in range(_MAX_CHANGES_PER_PARTITION * len(leaders)):
        above = np.where(is_hopeless, 0, loads - limits)
        worst = int(np.argmax(above))
        if above[worst] <= 0:
            if not has_changed:
                break
            # The changes since may have made others possible.
            is_hopeless, has_changed = ~candidates.is_eligible, False
            continue
        change = _best_change(candidates, leaders, loads, worst)
        if change is None:
            is_hopeless[worst] = True
            continue
        shift = int(candidates.bytes_in[change.going])
        leaders[change.going] = change.destination
        if change.returning is not None:
            shift -= int(candidates.bytes_in[change.returning])
            leaders[change.returning] = worst
        loads[worst] -= shift
        loads[change.destination] += shift
        has_changed = True
    return leaders


def _best_change(candidates: Candidates, leaders: Ints, loads: Ints, broker: int) -> _Change | None:
    """Return the change that takes most off what two brokers lead above the limit."""
    led = candidates.of_broker(broker)
    led = led[leaders[led] == broker]
    found = []
    for destination in candidates.eligible_brokers.tolist():
        going = np.intersect1d(led, candidates.of_broker(destination))
        if destination == broker or not len(going):
            continue
        back = candidates.shared_by(broker, destination)
        back = back[leaders[back] == destination]
        found += _changes(candidates, loads, (broker, destination), going, back)
    usable = (change for change in found if _keeps_topics(candidates, leaders, change, broker))
    return min(usable, key=lambda change: change.key, default=None)


def _changes(
    candidates: Candidates, loads: Ints, ends: tuple[int, int], going: Ints, back: Ints
) -> list[_Change]:
    """Return the best exchanges and the best gifts from the first of two brokers to the other."""
    rates, (source, destination) = candidates.bytes_in, ends
    shifts = np.subtract.outer(rates[going], np.append(rates[back], 0))
    source_limit, destination_limit = candidates.max_led_bytes[[source, destination]].tolist()
    above_now = max(0, int(loads[source]) - source_limit)
    above_now += max(0, int(loads[destination]) - destination_limit)
    above = np.maximum(0, loads[source] - shifts - source_limit)
    above += np.maximum(0, loads[destination] + shifts - destination_limit)
    is_usable = above < above_now
    found = []
    for is_gift in (False, True):
        columns = slice(len(back), None) if is_gift else slice(0, len(back))
        rows, numbers = np.nonzero(is_usable[:, columns])
        if not len(rows):
            continue
        over = above[:, columns][rows, numbers] - above_now
        best = int(np.lexsort((numbers, rows, shifts[:, columns][rows, numbers], over))[0])
        partition = int(going[rows[best]])
        returning = None if is_gift else int(back[numbers[best]])
        key = (int(over[best]), int(is_gift), partition, destination)
        found.append(_Change(partition, returning, destination, key))
    return found


def _keeps_topics(candidates: Candidates, leaders: Ints, change: _Change, source: int) -> bool:
    """Return whether both brokers keep the leaders of a topic that they have to have."""
    giving = [(change.going, source)]
    if change.returning is not None:
        giving.append((change.returning, change.destination))
    for partition, broker in giving:
        topic = candidates.topics[partition]
        least = candidates.min_topic_leaders[topic]
        if least and int((leaders[candidates.topics == topic] == broker).sum()) <= least:
            return False
    return True
