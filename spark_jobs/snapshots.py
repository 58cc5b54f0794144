"""What the list of a round says about its snapshots, as columns of a row that has its snapshot's
number.

    table.withColumn("seconds", snapshots.column("seconds"))

A round has at most a few thousand snapshots, and all of this is known before Spark starts. So it
needs no table and no join.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what every Spark program calls it

from counterpoise.model.intervals import MAX_SECONDS

NUMBER: Final = pa.field("snapshot", pa.int32(), nullable=False)
# The columns of a snapshot, with Spark's type of each.
_TYPES: Final[Mapping[str, str]] = {
    "snapshot_id": "string",
    "cluster": "string",
    "cluster_id": "string",
    "previous_snapshot_id": "string",
    "is_context": "boolean",
    "observed_at": "bigint",  # microseconds; a timestamp in `Snapshots.column`
    "is_rebuilt": "boolean",
    "compared_with": "int",
    "seconds": "double",
    "max_seconds": "double",
}


def row_columns(schema: pa.Schema) -> tuple[str, ...]:
    """Return the columns of a schema that are not the same in all rows of a snapshot."""
    return tuple(name for name in schema.names if name not in _TYPES)


@dataclass(frozen=True)
class Snapshots:
    """The values of each column of `_TYPES`, one for each snapshot, by its number.

    `compared_with` is the number of the snapshot before. It is null where there is none, and where
    that one is of another cluster of the same name (`is_rebuilt`). `seconds` have passed since the
    snapshot before, also where the two are not compared; after more than `max_seconds` no rate is
    told.
    """

    values: Mapping[str, Sequence[Any]]

    @classmethod
    def of(cls, manifests: Sequence[Mapping[str, Any]]) -> "Snapshots":
        numbers = {row["snapshot_id"]: number for number, row in enumerate(manifests)}
        times = [datetime.fromisoformat(row["observed_at"]) for row in manifests]
        previous = [numbers.get(row["previous_snapshot_id"]) for row in manifests]
        is_rebuilt = [
            before is not None and manifests[before]["cluster_id"] != row["cluster_id"]
            for row, before in zip(manifests, previous, strict=True)
        ]
        copied = ("snapshot_id", "cluster", "cluster_id", "previous_snapshot_id", "is_context")
        values: dict[str, Sequence[Any]] = {
            name: [row[name] for row in manifests] for name in copied
        }
        values["observed_at"] = [round(time.timestamp() * 1_000_000) for time in times]
        values["is_rebuilt"] = is_rebuilt
        values["compared_with"] = [
            None if rebuilt else before
            for before, rebuilt in zip(previous, is_rebuilt, strict=True)
        ]
        values["seconds"] = [
            None if before is None else (time - times[before]).total_seconds()
            for time, before in zip(times, previous, strict=True)
        ]
        values["max_seconds"] = [row.get("max_seconds", MAX_SECONDS) for row in manifests]
        return cls(values)

    @property
    def compared_numbers(self) -> frozenset[int]:
        """The numbers of the snapshots that others are compared with."""
        return frozenset(n for n in self.values["compared_with"] if n is not None)

    def column(self, name: str) -> Column:
        """Return the value for the snapshot whose number is in the column `snapshot`."""
        # As one text: a literal for each of thousands of values would take a call to the JVM each.
        array = F.from_json(F.lit(json.dumps(self.values[name])), f"array<{_TYPES[name]}>")
        value = F.get(array, F.col("snapshot"))
        return F.timestamp_micros(value) if name == "observed_at" else value

    def select(self, table: DataFrame, schema: pa.Schema) -> DataFrame:
        """Return the columns of a schema: the table's own, and the snapshot's for the others."""
        own = set(table.columns)
        return table.select(
            *(
                F.col(name) if name in own else self.column(name).alias(name)
                for name in schema.names
            )
        )

    def to_analyse(self, spark: SparkSession) -> DataFrame:
        """Return a row with the number of each snapshot to analyse (not of those for context)."""
        numbers = [
            number for number, is_context in enumerate(self.values["is_context"]) if not is_context
        ]
        # Through Arrow: a list of rows would start Python workers, for a table of a few rows.
        return spark.createDataFrame(pa.table({"snapshot": numbers}, schema=pa.schema([NUMBER])))
