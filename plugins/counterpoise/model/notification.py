"""What people are told without asking: events, messages, and to whom.

    Notification("halted/run-7", NotificationEvent.HALTED, Severity.CRITICAL, "orders-eu", ...)

`keys` name what is told: whoever was told of a key is not told of it again.
"""

from dataclasses import dataclass
from enum import StrEnum

from counterpoise.model.severity import Severity


class NotificationEvent(StrEnum):
    QUESTION = "question"  # a plan waits for a yes or a no
    REMINDER = "reminder"  # it still does
    CLOSED = "closed"  # it does not any more: rejected, timed out, withdrawn or superseded
    STARTED = "started"
    HALTED = "halted"
    DONE = "done"
    PENDING_RESTORES = "pending-restores"  # throttle keys that an ended run left
    FINDINGS_NEW = "findings-new"
    FINDINGS_GONE = "findings-gone"
    DISK_FULL_SOON = "disk-full-soon"
    SILENT = "silent"  # no snapshot, or no new one, though one is due
    TASK = "task"  # what a Dag tells by the notifier


@dataclass(frozen=True, slots=True)
class Notification:
    """One message. Titles and lines are plain text; names in them come from the cluster."""

    keys: tuple[str, ...]
    event: NotificationEvent
    severity: Severity
    cluster: str
    title: str  # one line
    lines: tuple[str, ...] = ()
    page: str = ""  # below Airflow's address, like `counterpoise/clusters/demo/audit`


class Channel(StrEnum):
    WEBHOOK = "webhook"
    EMAIL = "email"


@dataclass(frozen=True, slots=True)
class Target:
    """Who is told: an Airflow connection of a webhook, or the address of a person.

    `connection_id` of an address is that of the SMTP server.
    """

    channel: Channel
    name: str
    connection_id: str

    def __str__(self) -> str:
        return f"{self.channel} {self.name}"
