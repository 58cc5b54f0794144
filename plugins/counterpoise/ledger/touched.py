"""Rows of the config keys that a run has touched, within a transaction of the caller."""

from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa

from counterpoise.ledger.schema import runs, touched_keys
from counterpoise.model.cluster import is_another_topic
from counterpoise.model.kafka import ConfigResource, ConfigResourceType
from counterpoise.model.run import CHANGED_BY_SOMEBODY_ELSE, TouchedKey

# Built once: each step reads them.
_OF_A_RUN: Final = (
    sa.select(touched_keys)
    .where(touched_keys.c.run_id == sa.bindparam("run_id"))
    .order_by(touched_keys.c.resource_type, touched_keys.c.resource_name, touched_keys.c.key)
)


def read_touched_keys(connection: sa.Connection, run_id: str) -> tuple[TouchedKey, ...]:
    """Return the keys of one run, by resource and key."""
    return tuple(map(_touched_key, connection.execute(_OF_A_RUN, {"run_id": run_id})))


def read_pending_restores(connection: sa.Connection, cluster: str) -> tuple[TouchedKey, ...]:
    """Return the keys of a cluster's runs that are not restored, or that a call may still change.

    Those of the newest run come first.
    """
    key = touched_keys.c
    query = (
        sa.select(touched_keys)
        .join(runs, runs.c.run_id == key.run_id)
        .where(runs.c.cluster == cluster)
        .where(key.restored_at.is_(None) | key.unanswered_call.is_not(None))
        .order_by(runs.c.opened_at.desc(), key.run_id.desc())
    )
    return tuple(map(_touched_key, connection.execute(query)))


def _touched_key(row: sa.Row[Any]) -> TouchedKey:
    return TouchedKey(
        resource=ConfigResource(ConfigResourceType(row.resource_type), row.resource_name),
        key=row.key,
        topic_id=row.topic_id,
        before_value=row.before_value,
        written_value=row.ours,
        during_value=row.during_value,
        after_value=row.after_value,
        restored_at=row.restored_at,
        outcome=row.outcome,
        earlier_rates=row.earlier_rates or "",
        has_unanswered_call=row.unanswered_call is not None,
    )


def values_touched_again(earlier: TouchedKey, intent: Mapping[str, Any]) -> dict[str, object]:
    """Return what changes in the row of a key that is touched again; `intent` are the values of a
    new row.

    The id of its topic stays, once it is known.
    """
    is_same_topic = not is_another_topic(earlier.topic_id, intent["topic_id"])
    is_ours_still = earlier.restored_at is None or earlier.has_unanswered_call
    values: dict[str, object] = {"before_value": intent["before_value"]}
    if not is_same_topic or earlier.restored_at is not None:
        values = {**intent, "after_value": None, "restored_at": None}
    if is_same_topic and is_ours_still:
        values["ours"] = joined_entries(earlier.written_value, intent["ours"])
        values.pop("earlier_rates", None)
    topic_id = intent["topic_id"] or earlier.topic_id
    return values | {"topic_id": topic_id, "during_value": None, "outcome": ""}


def value_to_go_back_to() -> sa.Case[str | None]:
    """Return the expression for `TouchedKey.value_to_restore`: what somebody else had set since a
    key was restored is its value of before.
    """
    key = touched_keys.c
    was_changed = key.restored_at.is_not(None) & (key.outcome == CHANGED_BY_SOMEBODY_ELSE)
    return sa.case((was_changed, key.after_value), else_=key.before_value)


def joined_entries(earlier: str, added: str) -> str:
    """Return the entries of both comma-separated lists, each once, those that are added last."""
    entries = (*remaining_entries(earlier, added).split(","), *added.split(","))
    return ",".join(dict.fromkeys(entry for entry in entries if entry))


def remaining_entries(earlier: str, removed: str) -> str:
    """Return the entries of a comma-separated list without those of another one."""
    return ",".join(entry for entry in earlier.split(",") if entry not in removed.split(","))
