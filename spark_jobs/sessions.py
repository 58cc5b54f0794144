"""One Spark session for a job, with the settings that it needs.

    spark = open_session("leader_balance", {"spark.sql.shuffle.partitions": "24"})

A remote master without free workers would keep a job waiting for ever, without a word: a job gives
up when nothing has run a first task after `spark.counterpoise.workersTimeoutSeconds` (300).

What the results depend on is set whatever else says (FIXED in model/spark_settings.py). The other
settings are how a job runs fast; what spark-submit is given counts before them.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Final

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from counterpoise.model.spark_settings import FIXED

_TIMEOUT: Final = "spark.counterpoise.workersTimeoutSeconds"
_DEFAULT_SECONDS: Final = "300"
_CANCEL_SECONDS: Final = 0.5


class NoWorkersError(Exception):
    """Nothing ran a task in time; the message says what to look at."""


def open_session(job: str, settings: Mapping[str, str]) -> SparkSession:
    """Start Spark, or take the session that runs, with these settings where no other is given.

    Raises NoWorkersError.
    """
    SparkContext._ensure_initialized()  # or SparkConf would not know what spark-submit was given
    given = SparkConf()
    wanted = {name: value for name, value in settings.items() if not given.contains(name)}
    builder = SparkSession.builder.appName(job)
    for name, value in {**wanted, **FIXED}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if not spark.sparkContext.master.startswith("local"):
        check_workers(spark, float(given.get(_TIMEOUT, _DEFAULT_SECONDS) or _DEFAULT_SECONDS))
    return spark


def check_workers(spark: SparkSession, seconds: float) -> None:
    """Raise NoWorkersError when the master gives nothing that runs a task within that time."""
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(spark.range(1).count)
        try:
            first.result(seconds)
        except TimeoutError:
            while not first.done():  # it may not have begun when it is cancelled for the first time
                spark.sparkContext.cancelAllJobs()
                wait([first], _CANCEL_SECONDS)
            raise NoWorkersError(
                f"no worker of {spark.sparkContext.master} has run a task within {seconds:g} s: "
                "its workers are gone, busy with others, or have less free cores or memory than "
                f"spark.executor.cores and spark.executor.memory ask for; {_TIMEOUT} sets how long "
                "a job waits"
            ) from None
