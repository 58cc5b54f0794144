"""What of the cluster was in trouble when the run began, and has been ever since. Pure.

    still_in_trouble(("orders-7",), {"orders-7"})    # ("orders-7",)
    names_at_start(run_progress.unavailable_at_start)

One observation that shows otherwise is not enough: a broker's metadata may be behind, or its answer
incomplete. Until the next one, the ledger keeps the name with a mark.
"""

from collections.abc import Iterable, Set
from typing import Final

_SEEMS_OVER: Final = " (seems over)"


def name_at_start(kept: str) -> str:
    """Return a name that the ledger keeps, without its mark."""
    return kept.removesuffix(_SEEMS_OVER)


def names_at_start(kept: Iterable[str]) -> frozenset[str]:
    """Return the names that the ledger keeps, without marks."""
    return frozenset(map(name_at_start, kept))


def still_in_trouble(kept: Iterable[str], present: Set[str]) -> tuple[str, ...]:
    """Return what the ledger keeps after an observation that shows what is in trouble now."""
    names = {*kept}
    still = names_at_start(names) & present
    seem_over = (name for name in names - still if not name.endswith(_SEEMS_OVER))
    return (*sorted(still), *sorted(f"{name}{_SEEMS_OVER}" for name in seem_over))
