"""Where things lie: all from environment variables, the same natively and in containers.

Locations.from_environment().ledger
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Locations:
    config: Path
    connections: Path
    store: str
    ledger: str
    spark_master: str
    spark_jobs: Path

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Locations":
        project = Path(__file__).resolve().parents[3]
        config = Path(environment.get("COUNTERPOISE_CONFIG") or "config/clusters.yaml")
        return cls(
            config=config,
            connections=Path(environment.get("COUNTERPOISE_CONNECTIONS") or config.with_name("connections.yaml")),
            store=environment.get("COUNTERPOISE_STORE") or "var/store",
            ledger=environment.get("COUNTERPOISE_LEDGER") or "sqlite:///var/ledger.db",
            spark_master=environment.get("COUNTERPOISE_SPARK_MASTER") or "local[2]",
            spark_jobs=Path(environment.get("COUNTERPOISE_SPARK_JOBS") or project / "spark_jobs"),
        )
