"""How much disk a broker has, from the figures of its log dirs.

    disk_over([(1_000, 400), (1_000, 401), (2_000, 2_000)])     # (3_000, 2_400)

The first two log dirs are on one file system there: their figures are nearly the same.

Limits: Kafka says nothing about file systems but these figures.
"""

from collections.abc import Iterable, Sequence
from typing import Final

_SAME_DISK_PER_MILLE: Final = 2
_MAX_BYTES: Final = 2**63 - 1  # what a column holds; a file system without an end has as much


def disk_over(dirs: Iterable[tuple[int, int]]) -> tuple[int | None, int | None]:
    """Return total and usable bytes over (total, usable) of log dirs; None when there are none.

    Log dirs with the same figures are on one file system and count once: with KIP-827 each has the
    figures of its file system. "The same" allows for what is written between two responses. Two
    equal disks that are equally full count once too, which errs on the safe side.
    """
    sizes = list(dirs)
    disks = [sizes[positions[0]] for positions in by_disk(sizes)]
    if not disks:
        return None, None
    total_bytes = sum(total for total, _ in disks)
    usable_bytes = sum(usable for _, usable in disks)
    return min(_MAX_BYTES, total_bytes), min(_MAX_BYTES, usable_bytes)


def by_disk(dirs: Sequence[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    """Return the positions of the (total, usable) of each file system, the least usable first.

    by_disk([(1_000, 401), (2_000, 2_000), (1_000, 400)]) == ((2, 0), (1,))
    """
    disks: list[list[int]] = []
    for position in sorted(range(len(dirs)), key=lambda position: (*dirs[position], position)):
        total, usable = dirs[position]
        first_total, first_usable = dirs[disks[-1][0]] if disks else (None, 0)
        tolerance = total * _SAME_DISK_PER_MILLE // 1000
        if total == first_total and usable - first_usable <= tolerance:
            disks[-1].append(position)
        else:
            disks.append([position])
    return tuple(tuple(disk) for disk in disks)
