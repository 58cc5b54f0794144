"""The moves of a plan that somebody looks for: by topic, broker or reason, sorted, in pages.

found = find_moves(plan, MoveSearch(text="orders", sort="topic", page=2))
found.moves, found.count, found.pages
"""

from dataclasses import dataclass
from typing import Final

from counterpoise.model.plan import Move, MoveColumns, MoveReason, RebalancePlan

PAGE_SIZE: Final = 100
SORTS: Final = ("bytes", "topic", "why")


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
    moves = plan.columns
    found = _meant(moves, search)
    if search.sort != "topic":
        found.sort(key=moves.copied_bytes.__getitem__, reverse=True)
    if search.sort == "why":
        found.sort(key=moves.reasons.__getitem__)
    pages = max(1, -(-len(found) // PAGE_SIZE))
    page = min(max(1, search.page), pages)
    first = (page - 1) * PAGE_SIZE
    shown = tuple(moves[index] for index in found[first : first + PAGE_SIZE])
    return FoundMoves(shown, len(found), page, pages)


def reasons_in(plan: RebalancePlan) -> tuple[MoveReason, ...]:
    """Return the reasons that the plan's moves have."""
    return tuple(sorted(set(plan.columns.reasons)))


def _meant(moves: MoveColumns, search: MoveSearch) -> list[int]:
    """Return the indexes of the moves that somebody looks for, by topic and partition."""
    found = list(moves.by_name)
    if text := search.text.strip().lower():
        names = map("{}-{}".format, moves.topics, moves.partitions)
        is_named = [text in name.lower() for name in names]
        found = [index for index in found if is_named[index]]
    if search.why:
        found = [index for index in found if moves.reasons[index] == search.why]
    if broker := search.broker.strip():
        replicas = zip(moves.replicas_before, moves.replicas_after, strict=True)
        is_there = [broker in map(str, {*before, *after}) for before, after in replicas]
        found = [index for index in found if is_there[index]]
    return found
