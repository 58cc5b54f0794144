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

    Dirs that tell the same lie on one file system and count once (KIP-827 tells each the figures of
    its file system). "The same" allows for what is written between two answers. Two equal disks
    with equally much on them are taken for one, too; that errs on the safe side.
    """
    told = list(dirs)
    disks = [told[disk[0]] for disk in by_disk(told)]
    if not disks:
        return None, None
    return min(_MOST, sum(total for total, _ in disks)), min(
        _MOST, sum(usable for _, usable in disks)
    )


def by_disk(dirs: Sequence[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    """The positions of those (total, usable) that are one file system, by the rule above; least
    usable first in each.

    by_disk([(1_000, 401), (2_000, 2_000), (1_000, 400)]) == ((2, 0), (1,))
    """
    disks: list[list[int]] = []
    for at in sorted(range(len(dirs)), key=lambda at: (*dirs[at], at)):
        total, usable = dirs[at]
        first = dirs[disks[-1][0]] if disks else None
        if (
            first
            and first[0] == total
            and usable - first[1] <= total * _SAME_DISK_PER_MILLE // 1000
        ):
            disks[-1].append(at)
        else:
            disks.append([at])
    return tuple(tuple(disk) for disk in disks)
