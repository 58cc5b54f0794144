"""Spark job `one_row`: counts one row, on an executor, and prints how many there are.

    spark-submit spark_jobs/one_row.py

`counterpoise self-check` runs it: session, master, workers, and the Python of both.
"""

import sys

from pyspark.sql import SparkSession


def main() -> int:
    """Count one row by way of a worker's Python; 0 when it is one."""
    session = SparkSession.builder.appName("counterpoise self-check").getOrCreate()
    try:
        row_count = session.sparkContext.parallelize([1], 1).map(lambda row: row + 0).count()
    finally:
        session.stop()
    print(f"rows: {row_count}")
    return 0 if row_count == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
