"""The throttle keys that are set already where a plan's copies will throttle.

    settings_before(snapshot.throttles, moves)
    # (SettingBefore(ConfigResourceType.BROKER, "4", FOLLOWER_RATE, "20000000"),)

It is what a run restores in the end. Limits: as of the snapshot; a run reads the keys again before
it sets them, and its ledger has what it found.
"""

from collections.abc import Sequence

import pyarrow as pa

from counterpoise.model.kafka import ConfigResourceType
from counterpoise.model.plan import Move, SettingBefore


def settings_before(throttle_table: pa.Table, moves: Sequence[Move]) -> tuple[SettingBefore, ...]:
    """Return the keys of the brokers and topics of moves that copy, sorted.

    Any of the replicas before may be copied from.
    """
    broker_ids: set[int] = set()
    topics: set[str] = set()
    for move in moves:
        adding = move.adding
        if adding:
            broker_ids.update(move.replicas_before, adding)
            topics.add(move.topic)
    brokers = {str(broker_id) for broker_id in broker_ids}
    throttled = {ConfigResourceType.BROKER: brokers, ConfigResourceType.TOPIC: topics}
    found = []
    for row in throttle_table.to_pylist():
        resource_type, name = ConfigResourceType(row["resource_type"]), row["resource_name"]
        if name in throttled[resource_type]:
            found.append(SettingBefore(resource_type, name, row["key"], row["value"]))
    return tuple(sorted(found))
