"""The ledger's tables.

The migrations in `migrations/versions` create them; a test checks that both agree.
"""

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.types import TypeDecorator

from counterpoise.model.run import UNDER_WAY_STATES, WAITING_STATES, RunState

metadata = sa.MetaData(
    naming_convention={"pk": "pk_%(table_name)s", "fk": "fk_%(table_name)s_%(column_0_name)s"}
)


class UtcDateTime(TypeDecorator[datetime]):
    """Times are stored as UTC without a zone, and come back with one: SQLite keeps no zones."""

    impl = sa.DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> datetime | None:
        return value.astimezone(UTC).replace(tzinfo=None) if value else None

    def process_result_value(self, value: datetime | None, dialect: Any) -> datetime | None:
        return value.replace(tzinfo=UTC) if value else None


def _one_per_cluster(name: str, states: frozenset[RunState]) -> sa.Index:
    """Return the index that allows one run of a cluster in any of these states."""
    quoted = ", ".join(f"'{state}'" for state in sorted(states))
    where = sa.text(f"state IN ({quoted})")
    return sa.Index(name, "cluster", unique=True, sqlite_where=where, postgresql_where=where)


clusters = sa.Table(
    "clusters",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("cluster_id", sa.Text, nullable=False),  # Kafka's; pinned when first seen
    sa.Column("last_snapshot_id", sa.Text),
    sa.Column("last_observed_at", UtcDateTime),
    # JSON: the critical findings that were open when people were notified of findings last.
    sa.Column("notified_findings", sa.Text),
)

# What does not work with a cluster now.
failures = sa.Table(
    "failures",
    metadata,
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("since", UtcDateTime, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
)

runs = sa.Table(
    "runs",
    metadata,
    sa.Column("run_id", sa.Text, primary_key=True),
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("fingerprint", sa.Text, nullable=False),  # of its plan
    sa.Column("plan_uri", sa.Text, nullable=False),  # relative to the store
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False, default=""),
    sa.Column("requested_by", sa.Text, nullable=False),  # like airflow:alice
    # After that of each earlier run of the cluster (`opening_time`).
    sa.Column("opened_at", UtcDateTime, nullable=False),
    sa.Column("closed_at", UtcDateTime),
    sa.Column("dag_id", sa.Text),  # null: not proposed by a Dag run
    sa.Column("dag_run_id", sa.Text),
    sa.Index("ix_runs_dag_run", "dag_id", "dag_run_id"),
    # One that has halted may be executed again while a newer plan waits for its approval.
    _one_per_cluster("one_waiting_run_per_cluster", WAITING_STATES),
    _one_per_cluster("one_run_under_way_per_cluster", UNDER_WAY_STATES),
)

# Who works on the runs of a cluster.
step_locks = sa.Table(
    "step_locks",
    metadata,
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("holder", sa.Text),
    # Seconds since 1970, by the database's clock.
    sa.Column("until", sa.BigInteger, nullable=False),
)

approvals = sa.Table(
    "approvals",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), nullable=False),
    sa.Column("fingerprint", sa.Text, nullable=False),
    sa.Column("decision", sa.Text, nullable=False),
    sa.Column("by", sa.Text, nullable=False),  # like airflow:alice
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("rate_bytes_per_second", sa.BigInteger),
    sa.Column("expires_at", UtcDateTime),
    sqlite_autoincrement=True,  # no row takes the id of one that was deleted
)

# The config keys that runs have set: of each key of a cluster, one row is open.
owned_keys = sa.Table(
    "owned_keys",
    metadata,
    sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), primary_key=True),
    sa.Column("resource_type", sa.Text, primary_key=True),
    sa.Column("resource_name", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("before_value", sa.Text),  # without what is ours; null: not set at this resource
    sa.Column("written", sa.Text, nullable=False),  # rates, the last one set last; or list entries
    # Set with the intent of a call; the answer puts back what it was.
    sa.Column("unanswered_at", UtcDateTime),
    sa.Column("done_at", UtcDateTime),  # null: something of ours may be there
)

# What runs have asked for: a row is open until nothing of it can be under way any more.
submitted = sa.Table(
    "submitted",
    metadata,
    sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), primary_key=True),
    sa.Column("topic", sa.Text, primary_key=True),
    sa.Column("partition", sa.Integer, primary_key=True),
    sa.Column("target", sa.Text, primary_key=True),  # replicas, like "4,2,3"
    sa.Column("sent_at", UtcDateTime, nullable=False),  # the last call about it, or its cancel
    # Set with the intent of a call; the answer puts back what it was.
    sa.Column("unanswered_at", UtcDateTime),
    sa.Column("answered_at", UtcDateTime),  # the last call, or its cancel
    sa.Column("done_at", UtcDateTime),  # null: the row is open
)

requests = sa.Table(
    "requests",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id")),  # null: about the cluster
    sa.Column("control", sa.Text, nullable=False),
    sa.Column("by", sa.Text, nullable=False),
    sa.Column("why", sa.Text, nullable=False),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("rate_bytes_per_second", sa.BigInteger),
    sa.Column("until", UtcDateTime),
    sa.Column("obeyed_at", UtcDateTime),
    sa.Column("broker_id", sa.Integer),  # that is kept empty, or released
    sa.Index("ix_requests_cluster", "cluster"),
    sqlite_autoincrement=True,  # no row takes the id of one that was deleted
)

pulses = sa.Table(
    "pulses",
    metadata,
    sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), primary_key=True),
    # Of the last observation, by the database's clock.
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("body", sa.Text, nullable=False),  # JSON: model/run_progress.py
)

events = sa.Table(
    "events",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), nullable=False),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Index("ix_events_run_id", "run_id"),
    sqlite_autoincrement=True,  # no row takes the id of one that was deleted
)
