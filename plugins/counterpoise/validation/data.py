"""What a data check says: plain values, nothing of Great Expectations in them.

DataCheck(success=False, failures=(DataFailure("partitions", "leader is among the replicas", ...),))
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DataFailure:
    """One expectation that does not hold. `examples` are its first rows, like "orders-3: leader=9"."""

    table: str
    expectation: str
    column: str
    unexpected_count: int
    examples: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.table}: {self.expectation}: {self.unexpected_count} rows, like {', '.join(self.examples)}"


@dataclass(frozen=True, slots=True)
class DataCheck:
    success: bool
    failures: tuple[DataFailure, ...]
    passed: int = 0  # expectations that hold

    def and_also(self, other: "DataCheck") -> "DataCheck":
        both = self.success and other.success
        return DataCheck(both, self.failures + other.failures, self.passed + other.passed)
