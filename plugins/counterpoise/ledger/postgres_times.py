"""Reads every time that Postgres can hold.

    let_every_time_be_read(engine)       # 'infinity' comes as datetime.max

Postgres has times beyond those of Python, and the driver refuses a row that has one. Whoever may
insert a request could then stop every reader of a cluster's requests.
"""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from psycopg import DataError
from psycopg.abc import Buffer
from psycopg.types.datetime import TimestampLoader


class _NearestTime(TimestampLoader):
    """Loads a time that Python does not have as the nearest that it has."""

    def load(self, data: Buffer) -> datetime:
        try:
            return super().load(data)
        except DataError:
            text = bytes(data)
            is_early = text.startswith(b"-") or text.endswith(b"BC")
            return datetime.min if is_early else datetime.max


def let_every_time_be_read(engine: sa.Engine) -> None:
    @sa.event.listens_for(engine, "connect")
    def _register(connection: Any, _record: Any) -> None:
        connection.adapters.register_loader("timestamp", _NearestTime)
