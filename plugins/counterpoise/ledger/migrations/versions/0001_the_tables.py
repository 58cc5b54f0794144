"""the tables"""

import sqlalchemy as sa
from alembic import op

revision = '0001'
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('clusters',
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('cluster_id', sa.Text(), nullable=False),
    sa.Column('last_snapshot_id', sa.Text(), nullable=True),
    sa.Column('last_observed_at', sa.DateTime(), nullable=True),
    sa.Column('notified_findings', sa.Text(), nullable=True),
    sa.PrimaryKeyConstraint('name', name=op.f('pk_clusters'))
    )
    op.create_table('failures',
    sa.Column('cluster', sa.Text(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('since', sa.DateTime(), nullable=False),
    sa.Column('text', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('cluster', 'kind', name=op.f('pk_failures'))
    )
    op.create_table('step_locks',
    sa.Column('cluster', sa.Text(), nullable=False),
    sa.Column('holder', sa.Text(), nullable=True),
    sa.Column('until', sa.BigInteger(), nullable=False),
    sa.PrimaryKeyConstraint('cluster', name=op.f('pk_step_locks'))
    )
    op.create_table('runs',
    sa.Column('run_id', sa.Text(), nullable=False),
    sa.Column('cluster', sa.Text(), nullable=False),
    sa.Column('fingerprint', sa.Text(), nullable=False),
    sa.Column('plan_uri', sa.Text(), nullable=False),
    sa.Column('state', sa.Text(), nullable=False),
    sa.Column('reason', sa.Text(), nullable=False),
    sa.Column('requested_by', sa.Text(), nullable=False),
    sa.Column('opened_at', sa.DateTime(), nullable=False),
    sa.Column('closed_at', sa.DateTime(), nullable=True),
    sa.Column('dag_id', sa.Text(), nullable=True),
    sa.Column('dag_run_id', sa.Text(), nullable=True),
    sa.PrimaryKeyConstraint('run_id', name=op.f('pk_runs'))
    )
    with op.batch_alter_table('runs', schema=None) as batch_op:
        batch_op.create_index('ix_runs_dag_run', ['dag_id', 'dag_run_id'], unique=False)
        batch_op.create_index('one_run_under_way_per_cluster', ['cluster'], unique=True, sqlite_where=sa.text("state IN ('running', 'settling')"), postgresql_where=sa.text("state IN ('running', 'settling')"))
        batch_op.create_index('one_waiting_run_per_cluster', ['cluster'], unique=True, sqlite_where=sa.text("state IN ('approved', 'proposed')"), postgresql_where=sa.text("state IN ('approved', 'proposed')"))

    op.create_table('approvals',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('run_id', sa.Text(), nullable=False),
    sa.Column('fingerprint', sa.Text(), nullable=False),
    sa.Column('decision', sa.Text(), nullable=False),
    sa.Column('by', sa.Text(), nullable=False),
    sa.Column('reason', sa.Text(), nullable=False),
    sa.Column('at', sa.DateTime(), nullable=False),
    sa.Column('rate_bytes_per_second', sa.BigInteger(), nullable=True),
    sa.Column('expires_at', sa.DateTime(), nullable=True),
    sa.ForeignKeyConstraint(['run_id'], ['runs.run_id'], name=op.f('fk_approvals_run_id')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_approvals')),
    sqlite_autoincrement=True
    )
    op.create_table('events',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('run_id', sa.Text(), nullable=False),
    sa.Column('at', sa.DateTime(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('text', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['run_id'], ['runs.run_id'], name=op.f('fk_events_run_id')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_events')),
    sqlite_autoincrement=True
    )
    with op.batch_alter_table('events', schema=None) as batch_op:
        batch_op.create_index('ix_events_run_id', ['run_id'], unique=False)

    op.create_table('owned_keys',
    sa.Column('run_id', sa.Text(), nullable=False),
    sa.Column('resource_type', sa.Text(), nullable=False),
    sa.Column('resource_name', sa.Text(), nullable=False),
    sa.Column('key', sa.Text(), nullable=False),
    sa.Column('before_value', sa.Text(), nullable=True),
    sa.Column('written', sa.Text(), nullable=False),
    sa.Column('unanswered_at', sa.DateTime(), nullable=True),
    sa.Column('done_at', sa.DateTime(), nullable=True),
    sa.ForeignKeyConstraint(['run_id'], ['runs.run_id'], name=op.f('fk_owned_keys_run_id')),
    sa.PrimaryKeyConstraint('run_id', 'resource_type', 'resource_name', 'key', name=op.f('pk_owned_keys'))
    )
    op.create_table('pulses',
    sa.Column('run_id', sa.Text(), nullable=False),
    sa.Column('at', sa.DateTime(), nullable=False),
    sa.Column('body', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['run_id'], ['runs.run_id'], name=op.f('fk_pulses_run_id')),
    sa.PrimaryKeyConstraint('run_id', name=op.f('pk_pulses'))
    )
    op.create_table('requests',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('cluster', sa.Text(), nullable=False),
    sa.Column('run_id', sa.Text(), nullable=True),
    sa.Column('control', sa.Text(), nullable=False),
    sa.Column('by', sa.Text(), nullable=False),
    sa.Column('why', sa.Text(), nullable=False),
    sa.Column('at', sa.DateTime(), nullable=False),
    sa.Column('rate_bytes_per_second', sa.BigInteger(), nullable=True),
    sa.Column('until', sa.DateTime(), nullable=True),
    sa.Column('obeyed_at', sa.DateTime(), nullable=True),
    sa.Column('broker_id', sa.Integer(), nullable=True),
    sa.ForeignKeyConstraint(['run_id'], ['runs.run_id'], name=op.f('fk_requests_run_id')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_requests')),
    sqlite_autoincrement=True
    )
    with op.batch_alter_table('requests', schema=None) as batch_op:
        batch_op.create_index('ix_requests_cluster', ['cluster'], unique=False)

    op.create_table('submitted',
    sa.Column('run_id', sa.Text(), nullable=False),
    sa.Column('topic', sa.Text(), nullable=False),
    sa.Column('partition', sa.Integer(), nullable=False),
    sa.Column('target', sa.Text(), nullable=False),
    sa.Column('sent_at', sa.DateTime(), nullable=False),
    sa.Column('unanswered_at', sa.DateTime(), nullable=True),
    sa.Column('answered_at', sa.DateTime(), nullable=True),
    sa.Column('done_at', sa.DateTime(), nullable=True),
    sa.ForeignKeyConstraint(['run_id'], ['runs.run_id'], name=op.f('fk_submitted_run_id')),
    sa.PrimaryKeyConstraint('run_id', 'topic', 'partition', 'target', name=op.f('pk_submitted'))
    )
