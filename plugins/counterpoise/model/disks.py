"""How much disk a broker has, from what its log dirs tell.

    disk_over([(1_000, 400), (1_000, 401), (2_000, 2_000)])     # (3_000, 2_400): the first two are one file system

Limits: file systems are told apart by their figures alone; Kafka says nothing else about them.
"""

from collections.abc import Iterable, Sequence
from typing import Final

_SAME_DISK_PER_MILLE: Final = 2
_MOST: Final = 2**63 - 1  # what a column holds; a file system without an end tells this much


def disk_over(dirs: Iterable[tuple[int, int]]) -> tuple[int | None, int | None]:
    """Total and usable bytes over (total, usable) of log dirs; None when there are none.

    Dirs that tell the same lie on one file system and count once (KIP-827 tells each the figures of its file system).
    "The same" allows for what is written between two answers. Two equal disks with equally much on them are taken for
    one, too; that errs on the safe side.
    """
    usable_by_total: dict[int, list[int]] = {}
    for total, usable in dirs:
        usable_by_total.setdefault(total, []).append(usable)
    disks = [
        (total, usable)
        for total, usables in usable_by_total.items()
        for usable in _apart(usables, total * _SAME_DISK_PER_MILLE // 1000)
    ]
    if not disks:
        return None, None
    return min(_MOST, sum(total for total, _ in disks)), min(_MOST, sum(usable for _, usable in disks))


def _apart(numbers: Sequence[int], distance: int) -> list[int]:
    """The numbers, with those that lie closer than `distance` above another one left out."""
    kept: list[int] = []
    for number in sorted(numbers):
        if not kept or number - kept[-1] > distance:
            kept.append(number)
    return kept
