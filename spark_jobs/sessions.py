"""One Spark session for a job, with the settings that it needs.

    spark = open_session("leader_balance", {"spark.sql.shuffle.partitions": "24"})

What the results depend on is set whatever else says (FIXED in model/spark_settings.py). The other
settings are how a job runs fast; what spark-submit is given counts before them.
"""

from collections.abc import Mapping

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from counterpoise.model.spark_settings import FIXED


def open_session(job: str, settings: Mapping[str, str]) -> SparkSession:
    """Start Spark, or take the session that runs, with these settings where no other is given."""
    SparkContext._ensure_initialized()  # or SparkConf would not know what spark-submit was given
    given = SparkConf()
    wanted = {name: value for name, value in settings.items() if not given.contains(name)}
    builder = SparkSession.builder.appName(job)
    for name, value in {**wanted, **FIXED}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
