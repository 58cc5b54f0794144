"""What a data check says: plain values, nothing of Great Expectations in them.

DataCheck(success=False, failures=(DataFailure("partitions", "leader is among the replicas", ...),))
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from counterpoise.errors import RefusedError

COUNTED_TABLES: Final = ("brokers", "topics", "partitions", "replicas")
SMALL_CLUSTER_TOPICS: Final = (
    10  # with fewer, a topic more or less is a large share; nothing is compared
)


class BadSnapshotError(RefusedError):
    """A photograph contradicts itself, or lost much of what was there before: it is neither
    analysed nor planned on.
    """


@dataclass(frozen=True, slots=True)
class DataFailure:
    """One expectation that does not hold. `examples` are its first rows, like "orders-3: leader=9".

    `is_momentary`: a cluster that changes while it is photographed may look like that for a moment;
    a warning. `column` is "" where it is about the table as a whole; `unexpected_count` then is how
    many rows are missing.
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
        rows = f"{self.unexpected_count} row{'' if self.unexpected_count == 1 else 's'}"
        return (
            f"{self.table}: {self.expectation}: not so in {rows}, like {', '.join(self.examples)}"
        )


@dataclass(frozen=True, slots=True)
class DataCheck:
    success: bool
    failures: tuple[DataFailure, ...]
    passed: int = 0  # expectations that hold

    @property
    def grave(self) -> tuple[DataFailure, ...]:
        """Those that make data unusable."""
        return tuple(failure for failure in self.failures if not failure.is_momentary)

    @property
    def momentary(self) -> tuple[DataFailure, ...]:
        """Those that are warnings."""
        return tuple(failure for failure in self.failures if failure.is_momentary)

    def and_also(self, other: "DataCheck") -> "DataCheck":
        both = self.success and other.success
        return DataCheck(both, self.failures + other.failures, self.passed + other.passed)


@dataclass(frozen=True, slots=True)
class CountsBefore:
    """Rows of each table in the snapshot before, and what share of them (percent) has to be there
    still.
    """

    snapshot_id: str
    row_counts: Mapping[str, int]
    least_share_percent: int

    def least(self, table: str) -> int:
        """How many rows a table needs; 0: any number will do, since nothing is known or the cluster
        was small.
        """
        if table not in COUNTED_TABLES or self.row_counts.get("topics", 0) < SMALL_CLUSTER_TOPICS:
            return 0
        return -(-self.row_counts.get(table, 0) * self.least_share_percent // 100)

    def failure(self, table: str, row_count: int) -> DataFailure:
        return DataFailure(
            table=table,
            expectation=f"has at least {self.least_share_percent} % of the rows before",
            column="",
            unexpected_count=self.least(table) - row_count,
            examples=(f"{row_count} now, {self.row_counts[table]} in {self.snapshot_id}",),
        )
