"""Rows of the config keys that runs own, within a transaction of the caller.

A run owns a key from the intent of its first call on. The row is open until nothing of the run is
in the key (`done_at`), and until each call that sets something there was answered, or is void: of
each key of a cluster one row is open. The intent of a call sets `unanswered_at`, and the answer
puts back what it was.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from counterpoise.ledger.schema import owned_keys, runs
from counterpoise.ledger.statements import named
from counterpoise.ledger.transactions import insert_if_missing
from counterpoise.model.kafka import ConfigResource, ConfigResourceType
from counterpoise.model.run import LOST_AFTER, UNDER_WAY_STATES, OwnedKey

# Since when calls about these keys had no answer, before one that is made now.
UnansweredKeys = Mapping[OwnedKey, datetime | None]

_KEY: Final = ("run_id", "resource_type", "resource_name", "key")
_IN_ORDER: Final = sa.select(owned_keys).order_by(*(owned_keys.c[name] for name in _KEY))
# Built once: each step reads them.
_OF_RUN: Final = _IN_ORDER.where(owned_keys.c.run_id == sa.bindparam("this_run"))
_OPEN_OF_CLUSTER: Final = (
    _IN_ORDER.join(runs, runs.c.run_id == owned_keys.c.run_id)
    .where(runs.c.cluster == sa.bindparam("this_cluster"))
    .where(owned_keys.c.done_at.is_(None) | owned_keys.c.unanswered_at.is_not(None))
)
_IS_THIS: Final = [owned_keys.c[name] == sa.bindparam(f"this_{name}") for name in _KEY]


def read_owned_keys(connection: sa.Connection, run_id: str, now: datetime) -> list[OwnedKey]:
    """Return the keys of one run, by resource and key."""
    return [_read_row(row, now) for row in connection.execute(_OF_RUN, {"this_run": run_id})]


def read_open_keys(connection: sa.Connection, cluster: str, now: datetime) -> list[OwnedKey]:
    """Return the open rows of all runs of a cluster."""
    rows = connection.execute(_OPEN_OF_CLUSTER, {"this_cluster": cluster})
    return [owned for row in rows if (owned := _read_row(row, now)).is_open]


def _read_row(row: sa.Row[Any], now: datetime) -> OwnedKey:
    """Return a row; a call that nobody answered for a day is void."""
    is_void = row.unanswered_at is not None and now - row.unanswered_at >= LOST_AFTER
    return OwnedKey(
        run_id=row.run_id,
        resource=ConfigResource(ConfigResourceType(row.resource_type), row.resource_name),
        key=row.key,
        before=row.before_value,
        written=tuple(filter(None, row.written.split(","))),
        unanswered_at=None if is_void else row.unanswered_at,
        done_at=row.done_at,
    )


def record_touch(
    connection: sa.Connection, run_id: str, keys: Iterable[OwnedKey], now: datetime
) -> UnansweredKeys:
    """Record that these are set now; return since when each had no answer before.

    A row keeps the time of the first of its calls that have none. The row of an ended run becomes
    this run's; the row of another run that is under way stays that run's.
    """
    under_way = set(
        connection.scalars(sa.select(runs.c.run_id).where(runs.c.state.in_(UNDER_WAY_STATES)))
    )
    before: dict[OwnedKey, datetime | None] = {}
    taken_over = []
    for key in keys:
        owner = key.run_id if key.run_id in under_way else run_id
        if owner != key.run_id:
            taken_over.append(key)
        before[replace(key, run_id=owner)] = key.unanswered_at
    record_done(connection, taken_over, now)
    record_answers(connection, dict.fromkeys(taken_over))
    insert_if_missing(connection, owned_keys, [_key(key) | {"written": ""} for key in before])
    rows = [
        named(_key(key))
        | {
            "new_before": key.before,
            "new_written": ",".join(key.written),
            "new_unanswered_at": since or now,
        }
        for key, since in before.items()
    ]
    if rows:
        connection.execute(_TOUCH, rows)
    return before


_TOUCH: Final = (
    owned_keys.update()
    .where(*_IS_THIS)
    .values(
        before_value=sa.bindparam("new_before", type_=sa.Text),
        written=sa.bindparam("new_written"),
        unanswered_at=sa.bindparam("new_unanswered_at", type_=owned_keys.c.unanswered_at.type),
        done_at=None,
    )
)


def record_answers(
    connection: sa.Connection,
    before: UnansweredKeys,
    except_for: Collection[ConfigResource] = (),
) -> None:
    """Record the answer to a call, except for some resources; `before` is what its intent
    returned.
    """
    by_time: dict[datetime | None, list[OwnedKey]] = {}
    for key, unanswered_at in before.items():
        if key.resource not in except_for:
            by_time.setdefault(unanswered_at, []).append(key)
    for unanswered_at, keys in by_time.items():
        _update(connection, keys, unanswered_at=unanswered_at)


def record_last_rates(connection: sa.Connection, keys: Iterable[OwnedKey]) -> None:
    """Record that of several rates only the last one is the run's: its broker shows it."""
    for key in keys:
        _update(connection, [key], written=key.written[-1])


def record_done(connection: sa.Connection, keys: Iterable[OwnedKey], now: datetime) -> None:
    """Record that nothing of its run is in a key any more."""
    _update(connection, keys, done_at=now)


def _key(key: OwnedKey) -> dict[str, object]:
    values = (key.run_id, str(key.resource.type), key.resource.name, key.key)
    return dict(zip(_KEY, values, strict=True))


def _update(connection: sa.Connection, keys: Iterable[OwnedKey], **values: object) -> None:
    """Make the same change of many rows in one statement."""
    rows = [named(_key(key)) for key in keys]
    if rows:
        connection.execute(owned_keys.update().where(*_IS_THIS).values(**values), rows)
