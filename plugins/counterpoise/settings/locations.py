"""Where files, store and ledger are: environment variables say so, in containers too.

Locations.from_environment().ledger        # "sqlite:///var/ledger.db"
"""

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from counterpoise.errors import InputError

_SPARK_CONF = "COUNTERPOISE_SPARK_CONF"


@dataclass(frozen=True, slots=True)
class Locations:
    config: Path
    connections: Path
    store: str
    ledger: str
    spark_master: str
    spark_jobs: Path
    spark_conf: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Locations":
        project = Path(__file__).resolve().parents[3]
        config = Path(environment.get("COUNTERPOISE_CONFIG") or "config/clusters.yaml")
        return cls(
            config=config,
            connections=Path(
                environment.get("COUNTERPOISE_CONNECTIONS") or config.with_name("connections.yaml")
            ),
            store=environment.get("COUNTERPOISE_STORE") or "var/store",
            ledger=environment.get("COUNTERPOISE_LEDGER") or "sqlite:///var/ledger.db",
            spark_master=environment.get("COUNTERPOISE_SPARK_MASTER") or "local[2]",
            spark_jobs=Path(environment.get("COUNTERPOISE_SPARK_JOBS") or project / "spark_jobs"),
            spark_conf=_spark_conf(environment.get(_SPARK_CONF) or ""),
        )


def _spark_conf(words: str) -> dict[str, str]:
    """Return the pairs of `spark.driver.memory=8g spark.x=...`, quoted as in a shell."""
    try:
        pairs = [word.partition("=") for word in shlex.split(words)]
    except ValueError as error:
        raise InputError(
            f"{_SPARK_CONF}: {error}; write it like spark.driver.memory=8g, pairs apart by spaces"
        ) from None
    if wrong := [
        name for name, is_equal, _ in pairs if not is_equal or not name.startswith("spark.")
    ]:
        raise InputError(
            f"{_SPARK_CONF}: {wrong[0]!r} is no Spark setting; write it like spark.driver.memory=8g"
        )
    return {name: value for name, _, value in pairs}
