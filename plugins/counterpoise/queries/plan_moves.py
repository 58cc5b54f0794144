"""The moves of a plan that somebody looks for: by topic, broker or reason, sorted, in pages.

found = find_moves(plan, MoveSearch(text="orders", sort="topic", page=2))
found.moves, found.count, found.pages
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from counterpoise.model.plan import Move, MoveReason, RebalancePlan

PAGE_SIZE: Final = 100
_SORTS: Final[Mapping[str, Callable[[Move], Any]]] = {
    "bytes": lambda move: (-move.copied_bytes, move.topic, move.partition),
    "topic": lambda move: (move.topic, move.partition),
    "why": lambda move: (move.why, -move.copied_bytes, move.topic, move.partition),
}
SORTS: Final = tuple(_SORTS)


@dataclass(frozen=True, slots=True)
class MoveSearch:
    """What somebody looks for; what names nothing that there is finds nothing."""

    text: str = ""  # part of a partition's name, like `orders` or `orders-12`
    broker: str = ""  # an id: of a replica before or after
    why: str = ""  # a MoveReason
    sort: str = SORTS[0]
    page: int = 1


@dataclass(frozen=True, slots=True)
class FoundMoves:
    moves: tuple[Move, ...]  # of this page
    count: int  # of all that were found
    page: int  # from 1, the last one where fewer were asked for
    pages: int


def find_moves(plan: RebalancePlan, search: MoveSearch) -> FoundMoves:
    """Return one page of the moves that somebody looks for."""
    found = [move for move in plan.moves if _is_meant(move, search)]
    found.sort(key=_SORTS.get(search.sort, _SORTS["bytes"]))
    pages = max(1, -(-len(found) // PAGE_SIZE))
    page = min(max(1, search.page), pages)
    first = (page - 1) * PAGE_SIZE
    return FoundMoves(tuple(found[first : first + PAGE_SIZE]), len(found), page, pages)


def reasons_in(plan: RebalancePlan) -> tuple[MoveReason, ...]:
    """Return the reasons that the plan's moves have."""
    return tuple(sorted({move.why for move in plan.moves}))


def _is_meant(move: Move, search: MoveSearch) -> bool:
    text = search.text.strip().lower()
    if text and text not in move.topic.lower() and text not in str(move.topic_partition).lower():
        return False
    if search.why and move.why != search.why:
        return False
    broker = search.broker.strip()
    if not broker:
        return True
    replicas = (*move.replicas_before, *move.replicas_after)
    return broker in map(str, replicas)
