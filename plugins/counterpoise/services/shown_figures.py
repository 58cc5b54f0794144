"""The figures of a cluster that somebody looks at: those of its report, of any period.

    figures = shown_figures(installation, "orders-eu", "7d")
    figures.balance, figures.load

Nothing is written: before the first report there is nothing to show. What was found is kept until
the next analysis has written one, since reading weeks takes most of a page's time.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Lock
from typing import Final

from counterpoise.archive import balance_report_name
from counterpoise.errors import CounterpoiseError, RefusedError
from counterpoise.installation import Installation
from counterpoise.model.balance import LeaderBalance, LeftOut
from counterpoise.model.load import ClusterLoad
from counterpoise.services.figures import cluster_analysis, with_both_periods

PERIODS: Final[Mapping[str, tuple[str, timedelta]]] = {
    "24h": ("24 hours", timedelta(days=1)),
    "7d": ("7 days", timedelta(days=7)),
    "30d": ("30 days", timedelta(days=30)),
    "90d": ("90 days", timedelta(days=90)),
}
DEFAULT_PERIOD: Final = "7d"
_MAX_KEPT: Final = 16


@dataclass(frozen=True, slots=True)
class ShownFigures:
    balance: LeaderBalance
    load: ClusterLoad | None
    left_out: tuple[LeftOut, ...]


_Key = tuple[str, str, str, bool, datetime | None, frozenset[int]]
_kept: OrderedDict[_Key, ShownFigures] = OrderedDict()
_lock: Final = Lock()


def shown_figures(
    installation: Installation, cluster: str, period: str, *, with_load: bool
) -> ShownFigures | None:
    """Return the figures of a period that ends with the newest snapshot; None where no analysis has
    written a report yet, or the history has nothing of that time. Raises StoreError.
    """
    report = f"reports/{balance_report_name(cluster, suffix='json')}"
    info = installation.archive.store.info(report)
    if info is None or not _has_views(installation, cluster):
        return None
    kept_empty = frozenset(_kept_empty(installation, cluster))
    store = installation.locations.store
    key = (store, cluster, period, with_load, info.modified_at, kept_empty)
    with _lock:
        if key in _kept:
            _kept.move_to_end(key)
            return _kept[key]
    try:
        length = PERIODS[period][1]
        analysed = cluster_analysis(installation, cluster, period=length, with_load=with_load)
    except RefusedError:
        return None
    analysed = with_both_periods(analysed)
    left_out = analysed.known.results.left_out(cluster)
    figures = ShownFigures(analysed.balance, analysed.load, tuple(left_out))
    with _lock:
        _kept[key] = figures
        while len(_kept) > _MAX_KEPT:
            _kept.popitem(last=False)
    return figures


def _has_views(installation: Installation, cluster: str) -> bool:
    """Return whether all that is read is there: the analysis makes anew what is not."""
    nothing_of = installation.clock() + timedelta(days=62)  # no month is read
    return all(
        installation.results.view(cluster, view, nothing_of) is not None
        for view in ("series", "log_dirs")
    )


def _kept_empty(installation: Installation, cluster: str) -> Mapping[int, object]:
    """Return the brokers kept empty; none where the ledger is away."""
    try:
        return installation.active_requests(cluster).kept_empty
    except CounterpoiseError:
        return {}
