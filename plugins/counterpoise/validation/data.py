"""The outcome of a data check: plain values, nothing of Great Expectations in them.

DataCheck(success=False, failures=(DataFailure("partitions", "leader is among the replicas", ...),))
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any, Final

from counterpoise.errors import RefusedError
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.words import pluralize

COUNTED_TABLES: Final = ("brokers", "topics", "partitions", "replicas")
# With fewer topics one topic more or less is a large share, so nothing is compared.
SMALL_CLUSTER_TOPICS: Final = 10


class BadSnapshotError(RefusedError):
    """A snapshot contradicts itself, or lost much of what was there before: it is neither analysed
    nor planned on.
    """


@dataclass(frozen=True, slots=True)
class DataFailure:
    """One expectation that does not hold. `examples` are its first rows, like "orders-3: leader=9".

    `is_momentary` is a warning: a cluster that changes while its snapshot is made may be like that
    for a moment. `column` is "" where the table as a whole is meant; `unexpected_count` then is the
    number of missing rows.
    """

    table: str
    expectation: str
    column: str
    unexpected_count: int
    examples: tuple[str, ...]
    is_momentary: bool = False

    def __str__(self) -> str:
        if not self.column:
            return f"{self.table}: {self.expectation}: {', '.join(self.examples)}"
        rows = pluralize(self.unexpected_count, "row")
        examples = ", ".join(self.examples)
        return f"{self.table}: {self.expectation}: not so in {rows}, like {examples}"


@dataclass(frozen=True, slots=True)
class DataCheck:
    success: bool
    failures: tuple[DataFailure, ...]
    passed: int = 0  # expectations that hold

    @property
    def grave(self) -> tuple[DataFailure, ...]:
        """Return the failures that make the data unusable."""
        return tuple(failure for failure in self.failures if not failure.is_momentary)

    @property
    def momentary(self) -> tuple[DataFailure, ...]:
        """Return the failures that are only warnings."""
        return tuple(failure for failure in self.failures if failure.is_momentary)

    def and_also(self, other: "DataCheck") -> "DataCheck":
        """Return the outcome of both checks together."""
        return DataCheck(
            success=self.success and other.success,
            failures=self.failures + other.failures,
            passed=self.passed + other.passed,
        )


@dataclass(frozen=True, slots=True)
class CountsBefore:
    """Rows of each table in the snapshot before, and what share of them must still be there."""

    snapshot_id: str
    row_counts: Mapping[str, int]
    min_share_percent: int

    def min_rows(self, table: str) -> int:
        """Return how many rows a table needs: 50 percent of 25 rows are 13, rounded up.

        0: any number will do, since the table is not counted or the cluster was small.
        """
        is_small_cluster = self.row_counts.get("topics", 0) < SMALL_CLUSTER_TOPICS
        if is_small_cluster or table not in COUNTED_TABLES:
            return 0
        rows_before = self.row_counts.get(table, 0)
        return -(-rows_before * self.min_share_percent // 100)

    def failure(self, table: str, row_count: int) -> DataFailure:
        """Return the failure of a table that has only `row_count` rows."""
        return DataFailure(
            table=table,
            expectation=f"has at least {self.min_share_percent} % of the rows before",
            column="",
            unexpected_count=self.min_rows(table) - row_count,
            examples=(f"{row_count} now, {self.row_counts[table]} in {self.snapshot_id}",),
        )


# -- Quarantine: which snapshot does not join the history, and when the loss it shows is accepted
#
#     loss = repeated_loss(snapshot, check, counts_before, reports)
#     loss and loss.is_accepted(min_observations=3)         # True: the cluster really is like that
#
# A snapshot that contradicts itself never joins. One that only lacks much of what the snapshot
# before it had may show a real loss (topics were deleted) or a brief fault (half of the brokers did
# not respond): it joins once the same loss was observed often enough in a row, over ten minutes or
# more.
#
# Example: the history has 100 topics, and three snapshots in a row have 40, at 12:00, 12:05 and
# 12:15. With `min_observations` 3 the third one joins: observed 3 times, over 15 minutes.


# Snapshots that follow one another within seconds may all show the same brief fault.
MIN_LOSS_DURATION: Final = timedelta(minutes=10)

Report = Mapping[str, Any]  # what `quarantine_report` made, with what the archive adds


@dataclass(frozen=True, slots=True)
class RepeatedLoss:
    """A loss that several snapshots in a row show, the present one included."""

    observations: int
    duration: timedelta

    def is_accepted(self, min_observations: int) -> bool:
        """Whether this is how the cluster is now."""
        lasted = self.observations == 1 or self.duration >= MIN_LOSS_DURATION
        return self.observations >= min_observations and lasted


def quarantine_report(check: DataCheck, before: CountsBefore | None) -> dict[str, Any]:
    """Return what is stored about a quarantined snapshot, for people and for the next snapshot."""
    return {
        "compared_with": before.snapshot_id if before else None,
        "counts_alone": is_loss_only(check),
        "reasons": [str(failure) for failure in check.grave],
        "warnings": [str(failure) for failure in check.momentary],
    }


def is_loss_only(check: DataCheck) -> bool:
    """Whether nothing is wrong but the number of rows."""
    return not any(failure.column for failure in check.grave)


def repeated_loss(
    snapshot: ClusterSnapshot,
    check: DataCheck,
    before: CountsBefore | None,
    reports: Iterable[Report],
) -> RepeatedLoss | None:
    """Return how often and how long the loss in `snapshot` was observed in a row.

    `reports` are those of the cluster's quarantined snapshots, oldest first. None: something else
    is wrong, or there is nothing to compare with.
    """
    if before is None or snapshot.observed_at is None or not is_loss_only(check):
        return None
    earlier = [report for report in reports if _compares_with(report, before, snapshot)]
    newest_first = reversed(earlier)
    alike = list(
        takewhile(
            lambda report: _is_alike(report, snapshot, before.min_share_percent), newest_first
        )
    )
    if not alike:
        return RepeatedLoss(1, timedelta())
    first_observed_at = datetime.fromisoformat(alike[-1]["observed_at"])
    return RepeatedLoss(len(alike) + 1, snapshot.observed_at - first_observed_at)


def _compares_with(report: Report, before: CountsBefore, snapshot: ClusterSnapshot) -> bool:
    """Whether another snapshot than this one was compared with the same snapshot of the history."""
    is_same_comparison = report["compared_with"] == before.snapshot_id
    is_other_snapshot = report["snapshot_id"] != snapshot.snapshot_id
    return bool(is_same_comparison and is_other_snapshot)


def _is_alike(report: Report, snapshot: ClusterSnapshot, min_share_percent: int) -> bool:
    """Whether a quarantined snapshot showed only a loss, and about as many rows as now."""
    if not report["counts_alone"]:
        return False
    counts_then: Mapping[str, int] = report["row_counts"]
    for table in COUNTED_TABLES:
        now = snapshot.tables[table].num_rows
        then = counts_then.get(table, 0)
        if 100 * min(now, then) < min_share_percent * max(now, then):
            return False
    return True
