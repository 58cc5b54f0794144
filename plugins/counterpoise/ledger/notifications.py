"""What was told to whom: a row for each thing and target, so that nobody is told twice.

    told = Notifications(transactions, clock)
    if told.claim("orders-eu", "webhook ops", ["halted/run-7"]):
        send(); told.mark_delivered(...)     # or told.release(...): another task tries again

A claim keeps two tasks from telling the same at once. One whose process died ends after ten
minutes: then somebody may be told twice, and nobody never.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

import sqlalchemy as sa

from counterpoise.ledger.schema import notifications
from counterpoise.ledger.transactions import Transactions, insert_if_missing

CLAIM_LASTS: Final = timedelta(minutes=10)
_NOBODY: Final = ""  # the target of what was only noticed


class Notifications:
    def __init__(self, transactions: Transactions, clock: Callable[[], datetime]) -> None:
        self._transactions = transactions
        self._clock = clock

    def settled_keys(self, cluster: str, target: str) -> set[str]:
        """Return the keys that a target was told, or is told by another task right now."""
        rows = notifications.c
        query = sa.select(rows.key).where(
            rows.cluster == cluster,
            rows.target == target,
            sa.or_(rows.delivered_at.is_not(None), rows.claimed_at > self._clock() - CLAIM_LASTS),
        )
        with self._transactions.reading() as connection:
            return set(connection.scalars(query))

    def noticed_since(self, cluster: str, key: str) -> datetime:
        """Return when this was first called for a key, which is told to nobody: now, if never."""
        rows, now = notifications.c, self._clock()
        query = sa.select(rows.claimed_at).where(
            rows.cluster == cluster, rows.target == _NOBODY, rows.key == key
        )
        with self._transactions.writing() as connection:
            row = {"cluster": cluster, "target": _NOBODY, "key": key, "claimed_at": now}
            insert_if_missing(connection, notifications, **row)
            return connection.scalar(query) or now

    def claim(self, cluster: str, target: str, keys: Sequence[str]) -> bool:
        """Claim keys for this task; False, and no claim, where another task has one of them."""
        now, rows = self._clock(), notifications.c
        try:
            with self._transactions.writing() as connection:
                for key in keys:
                    of_key = (rows.cluster == cluster, rows.target == target, rows.key == key)
                    known = connection.execute(sa.select(notifications).where(*of_key)).first()
                    if known is None:
                        row = {"cluster": cluster, "target": target, "key": key, "claimed_at": now}
                        connection.execute(notifications.insert().values(**row))
                        continue
                    is_free = rows.claimed_at.is_(None) | (rows.claimed_at <= now - CLAIM_LASTS)
                    claimed = connection.execute(
                        notifications.update()
                        .where(*of_key, rows.delivered_at.is_(None), is_free)
                        .values(claimed_at=now)
                    )
                    if not claimed.rowcount:
                        raise _ClaimedError
        except _ClaimedError:
            return False
        return True

    def mark_delivered(self, cluster: str, target: str, keys: Sequence[str]) -> None:
        self._set(cluster, target, keys, {"delivered_at": self._clock()})

    def release(self, cluster: str, target: str, keys: Sequence[str]) -> None:
        """Give a claim back: the delivery failed, and the next task tries again."""
        self._set(cluster, target, keys, {"claimed_at": None})

    def _set(
        self, cluster: str, target: str, keys: Sequence[str], values: dict[str, datetime | None]
    ) -> None:
        rows = notifications.c
        with self._transactions.writing() as connection:
            connection.execute(
                notifications.update()
                .where(rows.cluster == cluster, rows.target == target, rows.key.in_(keys))
                .values(**values)
            )


class _ClaimedError(Exception):
    """Another task tells it; the transaction is undone."""
