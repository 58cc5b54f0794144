"""Which throttle keys were set already where a plan's copies will throttle: what a run restores in
the end.

    settings_before(snapshot, moves)
    # (SettingBefore(ConfigResourceType.BROKER, "4", FOLLOWER_RATE, "20000000"),)

Limits: as of the snapshot; a run reads the keys again before it sets them, and its ledger has what
it found.
"""

from collections.abc import Sequence

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.kafka import ConfigResourceType
from counterpoise.model.plan import Move, SettingBefore


def settings_before(snapshot: ClusterSnapshot, moves: Sequence[Move]) -> tuple[SettingBefore, ...]:
    """Those of the brokers and topics of moves that copy, sorted.

    Sources are any of the replicas before.
    """
    copying = [move for move in moves if move.adding]
    brokers = {
        str(broker_id) for move in copying for broker_id in (*move.replicas_before, *move.adding)
    }
    touched = {
        ConfigResourceType.BROKER: brokers,
        ConfigResourceType.TOPIC: {move.topic for move in copying},
    }
    rows = [
        (ConfigResourceType(row["resource_type"]), row) for row in snapshot.throttles.to_pylist()
    ]
    return tuple(
        sorted(
            SettingBefore(type_, row["resource_name"], row["key"], row["value"])
            for type_, row in rows
            if row["resource_name"] in touched[type_]
        )
    )
