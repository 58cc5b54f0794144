"""What people are notified of, and who is: six events, each with one message.

Notification("run-7 halted at ...", NotificationEvent.HALTED, "orders-eu", "...", run_id="run-7")
"""

from dataclasses import dataclass
from enum import StrEnum


class NotificationEvent(StrEnum):
    QUESTION = "question"  # a plan waits for a yes or a no
    STARTED = "started"
    HALTED = "halted"
    CANCELLED = "cancelled"
    DONE = "done"
    FINDINGS_NEW = "findings-new"  # critical ones of an audit
    PENDING_RESTORES = "pending-restores"  # config keys that an ended run left, for over an hour


@dataclass(frozen=True, slots=True)
class Notification:
    """One message. Titles and lines are plain text; names in them come from the cluster."""

    event: NotificationEvent
    cluster: str
    title: str  # one line
    lines: tuple[str, ...] = ()
    page: str = ""  # below Airflow's address, like `counterpoise/clusters/demo/findings`
    run_id: str | None = None  # None: about the cluster
    subject: str = ""  # of a run: what the ledger records, so that nobody is notified twice


class Channel(StrEnum):
    WEBHOOK = "webhook"
    EMAIL = "email"


@dataclass(frozen=True, slots=True)
class Target:
    """Who is notified: an Airflow connection of a webhook, or the address of a person.

    `connection_id` of an address is that of the SMTP server.
    """

    channel: Channel
    name: str
    connection_id: str

    def __str__(self) -> str:
        return f"{self.channel} {self.name}"
