"""The directory of a demo, and the configuration of Counterpoise in it.

place = Place.new(Path("var/demo"))
variables = place.configure(bootstrap="127.0.0.1:1,127.0.0.1:9092")
"""

import json
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLUSTER = "demo"
APPROVER = "alice"
RATE = "4MB/s"  # slow enough to watch

_CLUSTERS = f"""\
clusters:
  {CLUSTER}:
    connection: kafka_demo
    policy:
      balance:
        # Only the broker that joins should lead to a plan, not the uneven leaders before it.
        leaders_max_minus_min: 1000
        # All brokers share the disk of this machine, which may be rather full.
        disk_limit_percent: 100
      movement:
        rate: {RATE}
      access:
        approve: [alice, bob]
      approval:
        wait_for: 1h
"""


@dataclass(frozen=True, slots=True)
class Place:
    """The directory of one demo."""

    directory: Path

    @classmethod
    def new(cls, parent: Path) -> "Place":
        """Create a directory below `parent`, named after the time."""
        directory = (parent / datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3]).resolve()
        directory.mkdir(parents=True)
        return cls(directory)

    @property
    def kafka(self) -> Path:
        return self.directory / "kafka"

    @property
    def airflow(self) -> Path:
        return self.directory / "airflow"

    @property
    def reports(self) -> Path:
        return self.directory / "store" / "reports"

    @property
    def config(self) -> Path:
        return self.directory / "clusters.yaml"

    @property
    def command_line_variables(self) -> Mapping[str, str]:
        """Return what tells the command line which settings, store and ledger are the demo's."""
        return {
            "COUNTERPOISE_CONFIG": str(self.config),
            "COUNTERPOISE_STORE": str(self.directory / "store"),
            "COUNTERPOISE_LEDGER": f"sqlite:///{self.directory / 'ledger.db'}",
        }

    @property
    def command_line_help(self) -> list[str]:
        """Return lines to paste into another shell: the variables, then a command."""
        exports = [
            f"export {name}={shlex.quote(value)}"
            for name, value in self.command_line_variables.items()
        ]
        return [*exports, f"{ROOT / '.venv/bin/counterpoise'} status"]

    def configure(self, bootstrap: str) -> Mapping[str, str]:
        """Write the demo's clusters.yaml, and return the environment variables for it."""
        self.config.write_text(_CLUSTERS)
        connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap}}
        return {
            "AIRFLOW_CONN_KAFKA_DEMO": json.dumps(connection),
            **self.command_line_variables,
            "COUNTERPOISE_SNAPSHOT_SCHEDULE": "manual",
            "COUNTERPOISE_COMPACTION_SCHEDULE": "manual",
        }

    def delete_records(self) -> None:
        """Delete the brokers' data, which is large; logs, history, plans and reports remain."""
        for data in self.kafka.glob("broker-*/data-*"):
            shutil.rmtree(data, ignore_errors=True)
