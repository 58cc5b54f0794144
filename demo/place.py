"""The directory of a demo: a home of Counterpoise, with its settings.

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
CONNECTION = "kafka_demo"
APPROVER = "alice"
RATE = "4MB/s"  # slow enough to watch

_CLUSTERS = f"""\
clusters:
  {CLUSTER}:
    connection: {CONNECTION}
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
      audit:
        waivers:
          # What is as it is because all of the demo is on this machine, at 127.0.0.1.
          - {{rule: advertised-loopback, reason: all of the demo is on this machine}}
          - {{rule: listener-unencrypted, reason: nothing leaves this machine}}
          - {{rule: no-authorizer, reason: nobody else reaches this machine's own address}}
          - {{rule: bootstrap-dead-address, reason: dead on purpose; the next one answers}}
          # What would leave nothing to see, or be for later.
          - {{rule: auto-leader-rebalance, reason: off so that the uneven leaders stay}}
          - {{rule: quorum-static, reason: three voters that stay}}
          - {{rule: topics-over-provisioned, reason: these topics were filled once}}
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
    def store(self) -> Path:
        return self.directory / "var" / "store"

    @property
    def command_line(self) -> str:
        """Return what is typed before a command of ours in another shell."""
        command = ROOT / ".venv/bin/counterpoise"
        return f"COUNTERPOISE_HOME={shlex.quote(str(self.directory))} {shlex.quote(str(command))}"

    def configure(self, bootstrap: str) -> Mapping[str, str]:
        """Write the demo's settings, and return the environment variables for it."""
        config = self.directory / "config"
        config.mkdir()
        (config / "clusters.yaml").write_text(_CLUSTERS)
        connection = {"bootstrap.servers": bootstrap}
        (config / "connections.yaml").write_text(json.dumps({CONNECTION: connection}))
        return {
            "COUNTERPOISE_HOME": str(self.directory),
            f"AIRFLOW_CONN_{CONNECTION.upper()}": json.dumps(
                {"conn_type": "kafka", "extra": connection}
            ),
            "COUNTERPOISE_SNAPSHOT_SCHEDULE": "manual",
            "COUNTERPOISE_COMPACTION_SCHEDULE": "manual",
        }

    def delete_records(self) -> None:
        """Delete the brokers' data, which is large; logs, history, plans and reports remain."""
        for data in self.kafka.glob("broker-*/data-*"):
            shutil.rmtree(data, ignore_errors=True)
