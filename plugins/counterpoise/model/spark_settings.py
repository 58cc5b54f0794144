"""Settings of Spark that results depend on, and so nobody else may set.

reason_against("spark.sql.session.timeZone")     # why, or None
"""

from collections.abc import Mapping
from typing import Final

# Days are UTC days; times have microseconds; what Arrow cannot make is an error.
FIXED: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.execution.arrow.pyspark.fallback.enabled": "false",
    "spark.sql.ansi.enabled": "true",
}
_ELSEWHERE: Final[Mapping[str, str]] = {
    "spark.master": "set COUNTERPOISE_SPARK_MASTER instead",
    "spark.app.name": "a job names itself",
    "spark.submit.deployMode": "the driver runs where the job is started",
}


def reason_against(name: str) -> str | None:
    """Return why a setting cannot be chosen, in words that follow its name; None where it can."""
    if name in FIXED:
        return f"is always {FIXED[name]}, since the results depend on it"
    return f"cannot be set here: {_ELSEWHERE[name]}" if name in _ELSEWHERE else None
