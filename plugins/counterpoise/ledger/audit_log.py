"""The audit log: each event of the ledger as one JSON line of the logger `counterpoise.audit`.

    with logging_after_commit(engine.begin()) as connection:
        note(connection, who="alice (airflow:2)", what="granted", cluster="demo", ...)

    {"cluster": "demo", "details": "granted by alice: broker 4", "fingerprint": "sha256:5e...",
     "run": "demo-20260131T120000Z-3b9aa1", "time": "2026-01-31T12:00:00.000000Z",
     "what": "granted", "who": "alice (airflow:2)"}

`who` is null where no person caused the event, `run` and `fingerprint` where it concerns a whole
cluster. A line is written after the transaction that wrote its event has committed.

Limits: the ledger is the record. A process that dies between the commit and the line, or that loses
its connection during the commit, leaves no line.
"""

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa

from counterpoise.model.safe_text import for_json, without_secrets

_LOGGER: Final = logging.getLogger("counterpoise.audit")
_NOTED: Final = "counterpoise_audit"  # key of a connection's notes


@contextmanager
def logging_after_commit(
    transaction: AbstractContextManager[sa.Connection],
) -> Iterator[sa.Connection]:
    """Yield the transaction's connection, and log what was noted in it once it has committed."""
    noted: list[dict[str, Any]] = []
    with transaction as connection:
        connection.info[_NOTED] = noted
        yield connection
    for entry in noted:
        _LOGGER.info("%s", for_json(entry))


def note(
    connection: sa.Connection,
    *,
    who: str | None,
    what: str,
    cluster: str,
    run: str | None,
    fingerprint: str | None,
    time: datetime,
    details: str,
) -> None:
    """Note an event within its transaction."""
    entry = {
        "who": who,
        "what": what,
        "cluster": cluster,
        "run": run,
        "fingerprint": fingerprint,
        "time": f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z",
        "details": without_secrets(details),
    }
    connection.info.setdefault(_NOTED, []).append(entry)
