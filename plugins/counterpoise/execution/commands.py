"""What an observation can lead to.

Each command is one change of the cluster at most, and harmless when it is applied late.
"""

from dataclasses import dataclass

from counterpoise.model.kafka import ConfigChange
from counterpoise.model.plan import Move
from counterpoise.model.run import OwnedKey
from counterpoise.model.run_progress import Activity

KeyChange = tuple[OwnedKey, ConfigChange]  # a key of ours, and a change that takes back


@dataclass(frozen=True, slots=True)
class Throttle:
    """Set throttle keys, and take back in the same call what nothing needs any more.

    Nothing is submitted before what is set has been read back.
    """

    changes: tuple[ConfigChange, ...]
    taken_back: tuple[KeyChange, ...] = ()  # entries, of lists that are still needed
    restored: tuple[KeyChange, ...] = ()  # keys that nothing needs any more


@dataclass(frozen=True, slots=True)
class Submit:
    """Reassign each partition to its next target replicas."""

    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class Elect:
    """Elect the preferred leader of each."""

    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel these reassignments; the cluster drops what was copied."""

    moves: tuple[Move, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class RestoreOrder:
    """Give cancelled partitions the replica order that they had; nothing is copied."""

    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class Restore:
    """Change config keys back to what they were."""

    keys: tuple[KeyChange, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Observe again later, for as long as what it waits for may last.

    `is_brief`: in a moment, since brokers only have to catch up.
    """

    activity: Activity
    is_brief: bool = False


@dataclass(frozen=True, slots=True)
class Halt:
    """Start nothing new. `cancels`: what is in flight must not finish either."""

    reason: str
    cancels: bool = False


@dataclass(frozen=True, slots=True)
class Finish:
    """Nothing is left to do, but to restore keys of brokers that are dead, or do not respond, when
    these return. `gave_up`: what else is left, and why.
    """

    pending_restores: tuple[OwnedKey, ...] = ()
    gave_up: str = ""


Command = Throttle | Submit | Elect | Cancel | RestoreOrder | Restore | Wait | Halt | Finish
