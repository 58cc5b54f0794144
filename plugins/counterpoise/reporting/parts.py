"""What the stored reports share: tiles, and how they compare with the period before.

Tile("Idle brokers", "1", "broker 4", is_alert=True)
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure at the top of the page; `is_alert` marks the one that needs attention.

    `number` is the figure itself, if it is one; `before` compares it with the period before.
    """

    title: str
    value: str
    note: str
    is_alert: bool = False
    number: float | None = None
    before: str = ""


def beside(tiles: Sequence[Tile], tiles_before: Sequence[Tile]) -> tuple[Tile, ...]:
    """Return the tiles, each compared with that of the same title of the period before."""
    by_title = {tile.title: tile for tile in tiles_before}
    return tuple(
        replace(tile, before=trend(tile.number, was.number, tile.value, was.value))
        if (was := by_title.get(tile.title))
        else replace(tile, before=trend(tile.number, None, tile.value, ""))
        for tile in tiles
    )


def trend(now: float | None, before: float | None, text: str, text_before: str) -> str:
    """Return `↑ from 5`, `↓ from 9`, `as before`, or `before: not known`.

    `text` and `text_before` are the figures as they are printed; without the numbers (None) no
    arrow can be told.
    """
    if not text_before:
        return "before: not known"
    if text == text_before:
        return "as before"
    if now is None or before is None:
        return f"before: {text_before}"
    return f"{'↑' if now > before else '↓'} from {text_before}"
