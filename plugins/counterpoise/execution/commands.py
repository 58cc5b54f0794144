"""What a look can lead to.

Each command is one change of the cluster at most, and harmless when it comes late.
"""

from dataclasses import dataclass

from counterpoise.model.kafka import ConfigChange
from counterpoise.model.plan import Move
from counterpoise.model.run import TouchedKey


@dataclass(frozen=True, slots=True)
class Throttle:
    """Put these changes in force; nothing is submitted before they have been read back."""

    changes: tuple[ConfigChange, ...]


@dataclass(frozen=True, slots=True)
class Submit:
    """Reassign each to its next step."""

    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class Elect:
    """Elect the preferred leader of each. `is_last`: no other ones wait for their turn."""

    moves: tuple[Move, ...]
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop these; the cluster drops what was copied."""

    moves: tuple[Move, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class RestoreOrder:
    """Give cancelled partitions the replica order that they had; no byte moves."""

    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class Restore:
    """Bring config keys back to what they were."""

    keys: tuple[tuple[TouchedKey, ConfigChange], ...]


@dataclass(frozen=True, slots=True)
class Release:
    """Nothing of ours is in these keys any more: write that down."""

    keys: tuple[TouchedKey, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Look again later. `is_brief`: in a moment, since something only has to be heard of."""

    reason: str
    is_brief: bool = False


@dataclass(frozen=True, slots=True)
class Halt:
    """Start nothing new, and say why. `cancels`: what is in flight must not finish either."""

    reason: str
    cancels: bool = False


@dataclass(frozen=True, slots=True)
class Finish:
    """Nothing is left to do.

    `owed` are keys that cannot be restored now, because their broker is dead.
    """

    owed: tuple[TouchedKey, ...] = ()


Command = (
    Throttle | Submit | Elect | Cancel | RestoreOrder | Restore | Release | Wait | Halt | Finish
)
