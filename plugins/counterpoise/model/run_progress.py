"""The pulse of a run: what has to be remembered from one look to the next, and what people want to
see meanwhile.

    pulse = Pulse.from_json(text)
    pulse.progress.share, pulse.links[0].bytes_left

One row per run, overwritten by every look. Whoever makes the next look reads it, so nothing is kept
in a process.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from counterpoise.model.run import Progress
from counterpoise.units import format_rate


@dataclass(frozen=True, slots=True)
class Link:
    """One direction of one broker: copies that it sends as a leader, or receives as a follower."""

    broker_id: int
    sends: bool
    moves: int  # in flight
    bytes_left: int  # of those in flight
    bytes_per_second: int  # since the look before
    least_left: int  # the fewest bytes left since its moves began
    fell_at: (
        datetime  # when there was less left than ever before, or when another move began or ended
    )

    @property
    def name(self) -> str:
        return f"broker {self.broker_id} {'sending' if self.sends else 'receiving'}"


@dataclass(frozen=True, slots=True)
class RunProgress:
    at: datetime
    progress: Progress
    rate_bytes_per_second: int = (
        0  # in force: what was approved or asked for, at this time of day, brakes included
    )
    saying: str = ""  # what the run is waiting for
    links: tuple[Link, ...] = ()
    copied: Mapping[str, int] = field(
        default_factory=dict
    )  # bytes at the destinations, by partition in flight
    seconds_left: int | None = None  # at the rate in force, by the busiest link
    brake: int = 0  # steps down
    is_hurting: bool = False  # clients outside the plan
    hurting_changed_at: datetime | None = (
        None  # when that began or ended, or the brake was last moved
    )
    gaps: int = 0  # looks that found throttle keys removed by somebody else
    unthrottled_looks: int = (
        0  # one after another that found something in flight without its throttle
    )
    is_cancelling: bool = (
        False  # the run stopped for a reason that forbids what is in flight to finish
    )
    troubles: Mapping[str, datetime] = field(default_factory=dict)  # what is waited for, since when
    short_at_start: tuple[
        str, ...
    ] = ()  # partitions outside the plan that lacked an in-sync replica
    stopped_at_start: tuple[str, ...] = ()  # partitions outside the plan that took no writes

    @property
    def bytes_per_second(self) -> int:
        """That all new replicas receive together."""
        return sum(link.bytes_per_second for link in self.links if not link.sends)

    @property
    def speed_in_words(self) -> str:
        """`15.0 MB/s in all, at most 20.0 MB/s per broker`."""
        in_force = format_rate(self.rate_bytes_per_second)
        return f"{format_rate(self.bytes_per_second)} in all, at most {in_force} per broker"

    @property
    def busiest_links(self) -> list[Link]:
        """Those with most bytes left first."""
        return sorted(self.links, key=lambda link: (-link.bytes_left, link.broker_id, link.sends))

    def to_json(self) -> str:
        return json.dumps(
            {
                "at": self.at.isoformat(),
                "progress": {name: getattr(self.progress, name) for name in Progress.__slots__},
                "rate_bytes_per_second": self.rate_bytes_per_second,
                "saying": self.saying,
                "links": [
                    {name: getattr(link, name) for name in Link.__slots__}
                    | {"fell_at": link.fell_at.isoformat()}
                    for link in self.links
                ],
                "copied": dict(self.copied),
                "seconds_left": self.seconds_left,
                "brake": self.brake,
                "is_hurting": self.is_hurting,
                "hurting_changed_at": self.hurting_changed_at.isoformat()
                if self.hurting_changed_at
                else None,
                "gaps": self.gaps,
                "unthrottled_looks": self.unthrottled_looks,
                "is_cancelling": self.is_cancelling,
                "troubles": {what: since.isoformat() for what, since in self.troubles.items()},
                "short_at_start": list(self.short_at_start),
                "stopped_at_start": list(self.stopped_at_start),
            },
            sort_keys=True,
        )

    @classmethod
    def from_json(cls, text: str) -> "RunProgress":
        row: dict[str, Any] = json.loads(text)
        row["at"] = datetime.fromisoformat(row["at"])
        row["progress"] = Progress(**row["progress"])
        row["links"] = tuple(
            Link(**k | {"fell_at": datetime.fromisoformat(k["fell_at"])}) for k in row["links"]
        )
        row["troubles"] = {
            what: datetime.fromisoformat(since) for what, since in row["troubles"].items()
        }
        changed = row["hurting_changed_at"]
        row["hurting_changed_at"] = datetime.fromisoformat(changed) if changed else None
        for name in ("short_at_start", "stopped_at_start"):
            row[name] = tuple(row[name])
        return cls(**row)
