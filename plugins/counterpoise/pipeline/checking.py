"""No bad snapshot joins the history: photographs are checked before they are kept, and bad ones are
set aside.

    check_photograph(site, taken)                      # raises BadSnapshotError: set aside, and why
    write_data_docs(site, ["orders-eu"])               # Data Docs of the newest snapshots, by Great Expectations

Set aside is: the tables, `reason.json` after them, and Data Docs, in `aside/<cluster>/<snapshot
id>/` of the store. Nothing analyses or plans on what lies there.

A cluster that really lost what it had gets on: once as many photographs in a row as the policy says
were set aside for their counts alone, over at least ten minutes, and none of them lost more, the
next that looks like them is believed.
"""

import logging
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from counterpoise.archive import data_docs_folder
from counterpoise.errors import CounterpoiseError
from counterpoise.installation import Installation
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.validation import (
    COUNTED_TABLES,
    BadSnapshotError,
    CountsBefore,
    DataCheck,
    check_snapshot_data,
    quick_check,
)

_LOGGER = logging.getLogger(__name__)
_SEEN_FOR: Final = timedelta(
    minutes=10
)  # attempts that follow one another within seconds may see one hiccup
_NAMED: Final = 10


def check_photograph(installation: Installation, taken: ClusterSnapshot) -> None:
    """Returns if a photograph may be kept and planned on.

    Raises BadSnapshotError; it is set aside then.
    """
    before = counts_before(installation, taken)
    check = quick_check(taken, before)
    for failure in check.momentary:
        _LOGGER.warning("%s, as it may be for a moment: %s", taken.snapshot_id, failure)
    if check.grave and not _is_believed(installation, taken, check, before):
        raise BadSnapshotError(_set_aside(installation, taken, check, before))


def counts_before(installation: Installation, taken: ClusterSnapshot) -> CountsBefore | None:
    """What the newest snapshot of the history had; None: there is none of this cluster id, or it
    cannot be read.
    """
    share = installation.cluster(taken.cluster).policy.history.least_share_of_previous_percent
    earlier = installation.ledger.last_snapshot_id(taken.cluster)
    if earlier is None or not share:
        return None
    try:
        row = installation.archive.manifest_row(taken.cluster, earlier)
    except CounterpoiseError as error:
        _LOGGER.warning("%s is not compared with the snapshot before: %s", taken.snapshot_id, error)
        return None
    if row["cluster_id"] != taken.cluster_id:  # built anew under the same name: it lost nothing
        return None
    return CountsBefore(earlier, {file["table"]: file["row_count"] for file in row["files"]}, share)


def write_data_docs(installation: Installation, clusters: Sequence[str]) -> dict[str, DataCheck]:
    """Checks the newest snapshot of each cluster with Great Expectations, and writes the Data Docs
    that audits link to.

    Raises BadSnapshotError, after all are written, if one of them should not be in the history.
    """
    checks: dict[str, DataCheck] = {}
    for cluster in clusters:
        newest = installation.ledger.last_snapshot_id(cluster)
        if newest is None:
            continue
        taken = installation.archive.read_snapshot(cluster, newest)
        with tempfile.TemporaryDirectory(prefix="counterpoise-docs-") as folder:
            checks[newest] = check_snapshot_data(taken, docs=Path(folder))
            installation.archive.write_docs(data_docs_folder(cluster), Path(folder))
    bad = [f"{newest}: {failure}" for newest, check in checks.items() for failure in check.grave]
    if bad:
        raise BadSnapshotError(
            f"snapshots in the history are bad, {len(bad)} in all:\n{_listed(bad)}"
        )
    return checks


def _is_believed(
    installation: Installation,
    taken: ClusterSnapshot,
    check: DataCheck,
    before: CountsBefore | None,
) -> bool:
    """Whether a loss was seen so often, and for so long, that it is how the cluster is now."""
    if before is None or taken.observed_at is None or not _is_of_counts_alone(check):
        return False
    told = [
        one
        for one in installation.archive.reasons_aside(taken.cluster)
        if _is_since(one, before, taken)
    ]
    alike = list(
        takewhile(lambda one: _is_alike(one, taken, before.least_share_percent), reversed(told))
    )
    times = len(alike) + 1
    if times < installation.cluster(taken.cluster).policy.history.believed_after:
        return False
    if alike and taken.observed_at - _observed_at(alike[-1]) < _SEEN_FOR:
        return False
    _LOGGER.warning(
        "%s lacks much of %s; believed, seen %d times", taken.snapshot_id, before.snapshot_id, times
    )
    return True


def _is_of_counts_alone(check: DataCheck) -> bool:
    return not any(failure.column for failure in check.grave)


def _is_since(reason: Mapping[str, Any], before: CountsBefore, taken: ClusterSnapshot) -> bool:
    return bool(
        reason["compared_with"] == before.snapshot_id and reason["snapshot_id"] != taken.snapshot_id
    )


def _is_alike(reason: Mapping[str, Any], taken: ClusterSnapshot, share: int) -> bool:
    """Set aside for its counts alone, and neither much more nor much less than now."""
    now = {name: table.num_rows for name, table in taken.tables.items()}
    then: dict[str, int] = reason["row_counts"]
    return bool(reason["counts_alone"]) and all(
        100 * min(now[name], then.get(name, 0)) >= share * max(now[name], then.get(name, 0))
        for name in COUNTED_TABLES
    )


def _observed_at(reason: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(reason["observed_at"])


def _set_aside(
    installation: Installation,
    taken: ClusterSnapshot,
    check: DataCheck,
    before: CountsBefore | None,
) -> str:
    """Keeps a bad photograph beside the history. What to tell about it."""
    where = installation.archive.set_aside(
        taken,
        {
            "compared_with": before.snapshot_id if before else None,
            "counts_alone": _is_of_counts_alone(check),
            "reasons": [str(failure) for failure in check.grave],
            "warnings": [str(failure) for failure in check.momentary],
        },
    )
    docs = _docs_of(installation, taken, before, f"{where}/data-docs")
    words = [
        f"the photograph {taken.snapshot_id} of {taken.cluster} is bad and was set aside; it is neither analysed nor "
        f"planned on, and the cluster was not changed:",
        _listed([str(failure) for failure in check.grave]),
        f"It lies in {installation.archive.store.uri(where)}, the reason in reason.json"
        + (f", row by row in {docs}." if docs else "."),
    ]
    if _is_of_counts_alone(check):
        policy = installation.cluster(taken.cluster).policy.history
        words.append(
            f"If this is how the cluster is now: it is believed when it was seen {policy.believed_after} times in a "
            "row, over ten minutes or more; or set least_share_of_previous_percent to 0 under policy, history, for a "
            "while."
        )
    return "\n".join(words)


def _docs_of(
    installation: Installation, taken: ClusterSnapshot, before: CountsBefore | None, where: str
) -> str | None:
    """Where the Data Docs of a bad photograph are. They are an extra: without them it is as bad."""
    try:
        with tempfile.TemporaryDirectory(prefix="counterpoise-docs-") as folder:
            check_snapshot_data(taken, before, docs=Path(folder))
            installation.archive.write_docs(where, Path(folder))
    except Exception as error:  # noqa: BLE001 - whatever Great Expectations raises, the reason above has to be told
        _LOGGER.warning("no Data Docs of %s: %s", taken.snapshot_id, error)
        return None
    return installation.archive.store.uri(f"{where}/index.html")


def _listed(words: Sequence[str]) -> str:
    more = [f"  and {len(words) - _NAMED} more"] if len(words) > _NAMED else []
    return "\n".join([*(f"  {line}" for line in words[:_NAMED]), *more])
