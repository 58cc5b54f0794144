"""The outcome of a data check: plain values, nothing of Great Expectations in them.

DataCheck(success=False, failures=(DataFailure("partitions", "leader is among the replicas", ...),))
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from counterpoise.errors import RefusedError
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
