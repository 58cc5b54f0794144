"""Rows about what does not work with a cluster now; without one, all of it did the last time.

record_failure(transactions, "demo", FailureKind.SNAPSHOT, "no space left")
failures_of(transactions)["demo"].kind       # the worse one, where there are two
"""

from typing import Final

import sqlalchemy as sa

from counterpoise.ledger.schema import failures
from counterpoise.ledger.transactions import Transactions, insert_if_missing
from counterpoise.model.cluster_failure import ClusterFailure, FailureKind
from counterpoise.model.safe_text import one_line

_MAX_CHARACTERS: Final = 500


def record_failure(transactions: Transactions, cluster: str, kind: FailureKind, text: str) -> None:
    """Record that something does not work; one that is recorded already stays as it is."""
    first_line = one_line(text.partition("\n")[0]).rstrip(":")[:_MAX_CHARACTERS]
    with transactions.writing() as connection:
        row = {
            "cluster": cluster,
            "kind": str(kind),
            "since": transactions.now(connection),
            "text": first_line,
        }
        insert_if_missing(connection, failures, [row])


def end_failure(transactions: Transactions, cluster: str, kind: FailureKind) -> None:
    """Record that something works again; nothing is written where it did before."""
    this_one = (failures.c.cluster == cluster, failures.c.kind == str(kind))
    with transactions.reading() as connection:
        if connection.scalar(sa.select(failures.c.kind).where(*this_one)) is None:
            return
    with transactions.writing() as connection:
        connection.execute(failures.delete().where(*this_one))


def failures_of(transactions: Transactions) -> dict[str, ClusterFailure]:
    """Return what is the matter with each cluster of which something does not work."""
    found: dict[str, ClusterFailure] = {}
    query = sa.select(failures).order_by(failures.c.cluster, failures.c.kind)
    with transactions.reading() as connection:
        for row in connection.execute(query):
            failure = ClusterFailure(row.cluster, FailureKind(row.kind), row.since, row.text)
            found.setdefault(row.cluster, failure)  # "not answering" comes first
    return found
