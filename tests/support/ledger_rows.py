"""A row or two for every table of the ledger, with a value in every column.

    insert(engine, ROWS)

Nothing here names the product's model of a table. A new table, or a new column, has its values
here: `tests/unit/test_ledger_migrations.py` fails without.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa

Rows = Mapping[str, list[dict[str, Any]]]

CLUSTER: Final = "payments-eu"
RUN: Final = f"{CLUSTER}-20261126T221500Z-3b9aa1"
PLAN: Final = "sha256:" + "5e" * 32
AT: Final = datetime(2026, 11, 26, 22, 15, 0, 250_000)
HALTED_AT: Final = AT + timedelta(minutes=9)
THROTTLE: Final = "leader.replication.throttled.replicas"
MOVE: Final = {"run_id": RUN, "topic": "refunds-ü", "partition": 3}

ROWS: Final[Rows] = {
    "clusters": [
        {
            "name": CLUSTER,
            "cluster_id": "k7Zq0-Xv_SqWm3JYxB1ePA",
            "last_snapshot_id": f"{CLUSTER}-20261126T220000Z",
            "last_observed_at": AT - timedelta(minutes=15),
            "notified_findings": '["offline topic refunds-ü"]',
        }
    ],
    "failures": [
        {
            "cluster": CLUSTER,
            "kind": "not answering",
            "since": AT,
            "text": "no bootstrap address answered",
        }
    ],
    "runs": [
        {
            "run_id": RUN,
            "cluster": CLUSTER,
            "fingerprint": PLAN,
            "plan_uri": "plans/" + "5e" * 32 + ".json",
            "state": "halted",
            "reason": "cancelled by carol: the wrong night\n'quoted', 100 %",
            "requested_by": "airflow:alice",
            "opened_at": AT,
            "closed_at": HALTED_AT,
            "dag_id": "kafka_rebalance",
            "dag_run_id": "manual__2026-11-26T22:15:00+00:00",
        }
    ],
    "step_locks": [{"cluster": CLUSTER, "holder": "9e107d9d372bb682", "until": 4_102_444_800}],
    "approvals": [
        {
            "id": 1001,
            "run_id": RUN,
            "fingerprint": PLAN,
            "decision": "granted",
            "by": "airflow:bob",
            "reason": "broker 7 is empty",
            "at": AT + timedelta(seconds=40),
            "rate_bytes_per_second": 5_000_000_000,
            "expires_at": AT + timedelta(days=1),
        }
    ],
    "owned_keys": [
        {
            "run_id": RUN,
            "resource_type": "topic",
            "resource_name": "refunds-ü",
            "key": THROTTLE,
            "before_value": "0:2",
            "written": "3:1,3:2",
            "unanswered_at": AT + timedelta(minutes=1),
            "done_at": HALTED_AT,
        },
        {
            "run_id": RUN,
            "resource_type": "broker",
            "resource_name": "7",
            "key": "follower.replication.throttled.rate",
            "before_value": None,
            "written": "1000000,5000000",
            "unanswered_at": None,
            "done_at": None,
        },
    ],
    "submitted": [
        MOVE
        | {
            "target": "7,2,3",
            "sent_at": AT + timedelta(minutes=2),
            "unanswered_at": None,
            "answered_at": AT + timedelta(minutes=2, seconds=1),
            "done_at": AT + timedelta(minutes=5),
        },
        MOVE
        | {
            "partition": 4,
            "target": "7,2147483647",
            "sent_at": AT + timedelta(minutes=3),
            "unanswered_at": AT + timedelta(minutes=3),
            "answered_at": None,
            "done_at": None,
        },
    ],
    "requests": [
        {
            "id": 1001,
            "cluster": CLUSTER,
            "run_id": RUN,
            "control": "cancel",
            "by": "carol",
            "why": "the wrong night",
            "at": AT + timedelta(minutes=8),
            "rate_bytes_per_second": 8_000_000_000,
            "until": AT + timedelta(days=3),
            "obeyed_at": HALTED_AT,
            "broker_id": None,
        },
        {
            "id": 1002,
            "cluster": CLUSTER,
            "run_id": None,
            "control": "freeze",
            "by": "carol",
            "why": "month end",
            "at": HALTED_AT,
            "rate_bytes_per_second": None,
            "until": AT + timedelta(days=3),
            "obeyed_at": None,
            "broker_id": 2_147_483_647,
        },
    ],
    "pulses": [
        {
            "run_id": RUN,
            "at": HALTED_AT,
            "body": '{"observed_at": "2026-11-26T22:24:00+00:00"}',
        }
    ],
    "events": [
        {"id": 1001, "run_id": RUN, "at": AT, "kind": "proposed", "text": "by alice"},
        {"id": 1002, "run_id": RUN, "at": HALTED_AT, "kind": "halted", "text": "cancelled\nby ☎"},
    ],
}


def reflected(engine: sa.Engine) -> list[sa.Table]:
    """Return the tables of a database, those first that others refer to."""
    metadata = sa.MetaData()
    metadata.reflect(engine)
    return [table for table in metadata.sorted_tables if table.name != "alembic_version"]


def insert(engine: sa.Engine, rows: Rows) -> None:
    """Write rows into all tables."""
    with engine.begin() as connection:
        for table in reflected(engine):
            names = table.columns.keys()
            if rows.get(table.name):
                connection.execute(table.insert(), rows[table.name])
            if "id" in names and connection.dialect.name == "postgresql":
                last = sa.func.pg_get_serial_sequence(table.name, "id")
                highest = sa.select(sa.func.coalesce(sa.func.max(table.c.id), 1)).scalar_subquery()
                connection.execute(sa.select(sa.func.setval(last, highest)))


def read(engine: sa.Engine) -> Rows:
    """Return all rows of all tables."""
    with engine.begin() as connection:
        return {
            table.name: [dict(row._mapping) for row in connection.execute(sa.select(table))]
            for table in reflected(engine)
        }
