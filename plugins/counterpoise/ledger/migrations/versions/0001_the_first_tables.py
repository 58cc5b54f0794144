"""the first tables"""

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
    sa.PrimaryKeyConstraint('name', name=op.f('pk_clusters'))
    )
    op.create_table('plans',
    sa.Column('fingerprint', sa.Text(), nullable=False),
    sa.Column('cluster', sa.Text(), nullable=False),
    sa.Column('plan_uri', sa.Text(), nullable=False),
    sa.Column('recorded_at', sa.DateTime(), nullable=False),
    sa.PrimaryKeyConstraint('fingerprint', name=op.f('pk_plans'))
    )
    op.create_table('runs',
    sa.Column('run_id', sa.Text(), nullable=False),
    sa.Column('cluster', sa.Text(), nullable=False),
    sa.Column('fingerprint', sa.Text(), nullable=False),
    sa.Column('state', sa.Text(), nullable=False),
    sa.Column('reason', sa.Text(), nullable=False),
    sa.Column('requested_by', sa.Text(), nullable=False),
    sa.Column('opened_at', sa.DateTime(), nullable=False),
    sa.Column('closed_at', sa.DateTime(), nullable=True),
    sa.Column('step_holder', sa.Text(), nullable=True),
    sa.Column('step_until', sa.BigInteger(), nullable=False),
    sa.ForeignKeyConstraint(['fingerprint'], ['plans.fingerprint'], name=op.f('fk_runs_fingerprint')),
    sa.PrimaryKeyConstraint('run_id', name=op.f('pk_runs'))
    )
    with op.batch_alter_table('runs', schema=None) as batch_op:
        batch_op.create_index('one_open_run_per_cluster', ['cluster'], unique=True, sqlite_where=sa.text("state IN ('approved', 'proposed', 'running', 'settling')"), postgresql_where=sa.text("state IN ('approved', 'proposed', 'running', 'settling')"))

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
    sa.PrimaryKeyConstraint('id', name=op.f('pk_approvals'))
    )
    op.create_table('elections',
    sa.Column('run_id', sa.Text(), nullable=False),
    sa.Column('topic', sa.Text(), nullable=False),
    sa.Column('partition', sa.Integer(), nullable=False),
    sa.Column('attempts', sa.Integer(), nullable=False),
    sa.ForeignKeyConstraint(['run_id'], ['runs.run_id'], name=op.f('fk_elections_run_id')),
    sa.PrimaryKeyConstraint('run_id', 'topic', 'partition', name=op.f('pk_elections'))
    )
    op.create_table('events',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('run_id', sa.Text(), nullable=False),
    sa.Column('at', sa.DateTime(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('text', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['run_id'], ['runs.run_id'], name=op.f('fk_events_run_id')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_events'))
    )
    with op.batch_alter_table('events', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_events_run_id'), ['run_id'], unique=False)

    op.create_table('moves',
    sa.Column('run_id', sa.Text(), nullable=False),
    sa.Column('topic', sa.Text(), nullable=False),
    sa.Column('partition', sa.Integer(), nullable=False),
    sa.Column('submitted_at', sa.DateTime(), nullable=False),
    sa.Column('answered_at', sa.DateTime(), nullable=True),
    sa.Column('done_at', sa.DateTime(), nullable=True),
    sa.ForeignKeyConstraint(['run_id'], ['runs.run_id'], name=op.f('fk_moves_run_id')),
    sa.PrimaryKeyConstraint('run_id', 'topic', 'partition', name=op.f('pk_moves'))
    )
    op.create_table('touched_keys',
    sa.Column('run_id', sa.Text(), nullable=False),
    sa.Column('resource_type', sa.Text(), nullable=False),
    sa.Column('resource_name', sa.Text(), nullable=False),
    sa.Column('key', sa.Text(), nullable=False),
    sa.Column('topic_id', sa.Text(), nullable=False),
    sa.Column('before_value', sa.Text(), nullable=True),
    sa.Column('ours', sa.Text(), nullable=False),
    sa.Column('during_value', sa.Text(), nullable=True),
    sa.Column('after_value', sa.Text(), nullable=True),
    sa.Column('touched_at', sa.DateTime(), nullable=False),
    sa.Column('restored_at', sa.DateTime(), nullable=True),
    sa.Column('outcome', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['run_id'], ['runs.run_id'], name=op.f('fk_touched_keys_run_id')),
    sa.PrimaryKeyConstraint('run_id', 'resource_type', 'resource_name', 'key', name=op.f('pk_touched_keys'))
    )


def downgrade() -> None:
    op.drop_table('touched_keys')
    op.drop_table('moves')
    with op.batch_alter_table('events', schema=None) as batch_op:
        batch_op.drop_index(batch_op.f('ix_events_run_id'))

    op.drop_table('events')
    op.drop_table('elections')
    op.drop_table('approvals')
    with op.batch_alter_table('runs', schema=None) as batch_op:
        batch_op.drop_index('one_open_run_per_cluster', sqlite_where=sa.text("state IN ('approved', 'proposed', 'running', 'settling')"), postgresql_where=sa.text("state IN ('approved', 'proposed', 'running', 'settling')"))

    op.drop_table('runs')
    op.drop_table('plans')
    op.drop_table('clusters')
