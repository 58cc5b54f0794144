"""What a snapshot shows after the end of a run: what was promised is compared with it.

    outcome = RunOutcome.from_json(outcome.to_json())
    outcome.brokers[0].leaders, outcome.copied_bytes

A service gathers it once, when the run has ended, and keeps it beside the run's stored page.
"""

import json
from dataclasses import dataclass
from datetime import datetime

from counterpoise.model.json_values import iso_time, read_json, to_content
from counterpoise.model.run_progress import BrokerLoad


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """`problems` is what verification found; empty where all is as planned."""

    observed_at: datetime  # UTC
    brokers: tuple[BrokerLoad, ...]  # live ones, by id
    copied_bytes: int  # of the moves that are done, as large as the replicas are now
    problems: tuple[str, ...] = ()

    def to_json(self) -> str:
        return json.dumps(to_content(self, {}), sort_keys=True, default=iso_time)

    @classmethod
    def from_json(cls, text: str) -> "RunOutcome":
        """Return what `to_json` wrote. Raises JsonValueError for anything else."""
        return read_json(cls, text)
