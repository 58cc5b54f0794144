"""Spark job `one_row`: reads one row of a Parquet file and prints how many there are.

    spark-submit spark_jobs/one_row.py file:///var/lib/counterpoise/self-check/one.parquet

`counterpoise self-check` runs it: session, master, workers, and the Python of both. Workers see the
store, and unpack what is compressed with zstd as all files of the store are. For that, and for the
shuffle, the JVM loads native libraries from its temporary directory.
"""

import sys
from collections.abc import Sequence

from pyspark.sql import SparkSession


def main(argv: Sequence[str]) -> int:
    """Count the row after a shuffle, by way of a worker's Python; 0 when it is one."""
    (path,) = argv
    session = SparkSession.builder.appName("counterpoise self-check").getOrCreate()
    try:
        rows = session.read.parquet(path).repartition(1)
        row_count = rows.rdd.map(lambda row: row[0]).count()
    finally:
        session.stop()
    print(f"rows: {row_count}")
    return 0 if row_count == 1 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
