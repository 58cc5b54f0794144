"""What searches by exchange share that go from the worst broker to those at the other end.

    improve_worst(is_counted, find_outside, improve)
    best_with(broker, able, above_fair, best_of_pair)

The bytes that leaders take in are evened that way; where replicas stand has a search of its own
(`local_search`).
"""

from collections.abc import Callable
from typing import Final, Protocol, TypeVar

import numpy as np

from counterpoise.model.columns import Flags, Ints
from counterpoise.model.evenness import ByteBand

MAX_PARTNERS: Final = 12
AIM_PERCENT: Final = 75  # of the tolerance, so that slightly other rates start nothing new
_MAX_SAMPLE: Final = 200
_MIN_GAINS_IN_MEAN: Final = 2000


# -- what all searches by exchange share, of replicas and of leaders


class Scored(Protocol):
    """An exchange that has been weighed against others."""

    @property
    def score(self) -> float: ...


_Exchange = TypeVar("_Exchange", bound=Scored)


def improve_worst(
    is_counted: Flags, find_outside: Callable[[], Ints], improve: Callable[[int], bool]
) -> bool:
    """Improve the counted broker that is farthest outside, until none can be improved.

    A broker that cannot be (`improve` returns False) is passed over. When no other is outside, what
    has changed since may have made it possible: all are tried again. Return whether any was
    improved.
    """
    is_hopeless = ~is_counted
    has_changed = was_improved = False
    while True:
        outside = np.where(is_hopeless, 0, find_outside())
        worst = int(np.argmax(outside))
        if outside[worst] > 0:
            is_improved = improve(worst)
            is_hopeless[worst] = not is_improved
            has_changed |= is_improved
        elif has_changed:
            is_hopeless, has_changed, was_improved = ~is_counted, False, True
        else:
            return was_improved


def pairs_with(
    broker: int, able: Ints, above_fair: Ints, max_partners: int
) -> list[tuple[int, int]]:
    """Return pairs (heavy, light) of a broker and others that are able, the other end first.

    `above_fair` has, for every broker, what it has above its fair share. The able brokers up to
    `max_partners` count, the broker itself among them.
    """
    is_heavy = bool(above_fair[broker] > 0)
    order = np.lexsort((able, above_fair[able] if is_heavy else -above_fair[able]))
    partners = [other for other in able[order][:max_partners].tolist() if other != broker]
    return [(broker, other) if is_heavy else (other, broker) for other in partners]


def best_with(
    broker: int,
    able: Ints,
    above_fair: Ints,
    best_of_pair: Callable[[int, int], _Exchange | None],
    max_partners: int = MAX_PARTNERS,
) -> _Exchange | None:
    """Return the exchange with the highest score of a broker and one at the other end; or None."""
    found = [
        best_of_pair(heavy, light)
        for heavy, light in pairs_with(broker, able, above_fair, max_partners)
        if above_fair[heavy] > above_fair[light]
    ]
    return max(filter(None, found), key=lambda exchange: exchange.score, default=None)


def min_gain_of(band: ByteBand) -> int:
    """Return the bytes per second below which a gain is not worth a change."""
    return max(1, int(band.fair.max(initial=0)) // _MIN_GAINS_IN_MEAN)


def sample_by_rate(partitions: Ints, rates: Ints) -> Ints:
    """Return rows of `partitions` from the lowest rate to the highest, in even steps.

    `rates` has one for each partition of the cluster.
    """
    order = np.lexsort((partitions, rates[partitions]))
    if len(order) <= _MAX_SAMPLE:
        return order
    return np.asarray(order[np.linspace(0, len(order) - 1, _MAX_SAMPLE).astype(np.int64)])
