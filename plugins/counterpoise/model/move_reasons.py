"""What a move is for, in words.

why_in_words(move)      # "evens traffic by 36.0 MB/s"
"""

from collections.abc import Mapping
from typing import Final

from counterpoise.model.plan import Move, MoveReason
from counterpoise.units import format_rate

MOVE_REASON_TEXTS: Final[Mapping[MoveReason, str]] = {
    MoveReason.RACKS: "onto more racks",
    MoveReason.REPLICAS: "evens replicas",
    MoveReason.BYTES: "evens bytes",
    MoveReason.TRAFFIC: "evens traffic",
    MoveReason.LEADERS: "evens leaders",
    MoveReason.DRAIN: "empties a broker",
    MoveReason.REPAIR: "replaces a dead replica",
    MoveReason.DEMOTE: "takes leadership away",
    MoveReason.REPLICATION_FACTOR: "changes the replication factor",
    MoveReason.PREFERRED: "elects the preferred leader",
    MoveReason.IMPORTED: "as the reassignment says",
}


def why_in_words(move: Move) -> str:
    """Return what a move is for: `evens traffic by 36.0 MB/s`."""
    text = MOVE_REASON_TEXTS[move.why]
    if move.traffic_gain is None:
        return text
    if not move.traffic_gain:
        return f"{text}, in exchange"
    return f"{text} by {format_rate(move.traffic_gain)}"
