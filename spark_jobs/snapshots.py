"""What the list of a round tells of its snapshots, as columns of a row that knows its snapshot's
number.

    table.withColumn("seconds", snapshots.tell("seconds"))

There are at most some thousands of them, and all is known before Spark starts: no table, and no
join.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what every Spark program calls it


@dataclass(frozen=True)
class Snapshots:
    """By name: Spark's type, and the value of each snapshot, by its number.

    `compared_with` is the number of the snapshot before it, null where there is none, or where it
    is of another cluster of the same name (`is_rebuilt`). `seconds` since the snapshot before, also
    where that is not compared with.
    """

    told: Mapping[
        str, tuple[str, Sequence[Any]]
    ]  # by name: Spark's type, and a value for each snapshot

    @classmethod
    def of(cls, manifests: Sequence[Mapping[str, Any]]) -> "Snapshots":
        numbers = {row["snapshot_id"]: number for number, row in enumerate(manifests)}
        times = [datetime.fromisoformat(row["observed_at"]) for row in manifests]
        befores = [numbers.get(row["previous_snapshot_id"]) for row in manifests]
        rebuilt = [
            before is not None and manifests[before]["cluster_id"] != row["cluster_id"]
            for row, before in zip(manifests, befores, strict=True)
        ]
        compared = [
            None if other else before for before, other in zip(befores, rebuilt, strict=True)
        ]
        seconds = [
            None if b is None else (at - times[b]).total_seconds()
            for at, b in zip(times, befores, strict=True)
        ]
        kept = ("snapshot_id", "cluster", "cluster_id", "previous_snapshot_id")
        return cls(
            {name: ("string", [row[name] for row in manifests]) for name in kept}
            | {
                "is_context": ("boolean", [row["is_context"] for row in manifests]),
                "observed_at": ("bigint", [round(at.timestamp() * 1_000_000) for at in times]),
                "is_rebuilt": ("boolean", rebuilt),
                "compared_with": ("int", compared),
                "seconds": ("double", seconds),
            }
        )

    def tell(self, name: str) -> Column:
        """What is told of the snapshot whose number is in the column `snapshot`."""
        type_, values = self.told[name]
        # As one text: a literal for each of thousands of values would take a call to the JVM each.
        value = F.get(F.from_json(F.lit(json.dumps(values)), f"array<{type_}>"), F.col("snapshot"))
        return F.timestamp_micros(value) if name == "observed_at" else value

    def named(self, table: DataFrame, schema: pa.Schema) -> DataFrame:
        """The columns of a schema: those of the table, and of its snapshots what it has not."""
        own = set(table.columns)
        return table.select(
            *(F.col(n) if n in own else self.tell(n).alias(n) for n in schema.names)
        )

    def new(self, spark: SparkSession) -> DataFrame:
        """A row with the number of each snapshot to analyse."""
        numbers = [
            number for number, is_context in enumerate(self.told["is_context"][1]) if not is_context
        ]
        # Through Arrow: a list of rows would start Python workers, for a table of a few rows.
        return spark.createDataFrame(pa.table({"snapshot": pa.array(numbers, pa.int32())}))
