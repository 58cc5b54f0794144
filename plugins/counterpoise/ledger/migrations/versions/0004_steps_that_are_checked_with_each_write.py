"""the step lock of a cluster, late calls, the target of each submission, one waiting run per cluster"""

import sqlalchemy as sa
from alembic import op

revision = '0004'
down_revision = '0003'
branch_labels = None
depends_on = None

WAITING = sa.text("state IN ('approved', 'proposed')")
UNDER_WAY = sa.text("state IN ('running', 'settling')")


def upgrade() -> None:
    op.create_table('step_locks',
    sa.Column('cluster', sa.Text(), nullable=False),
    sa.Column('holder', sa.Text(), nullable=True),
    sa.Column('until', sa.BigInteger(), nullable=False),
    sa.PrimaryKeyConstraint('cluster', name=op.f('pk_step_locks'))
    )
    op.create_table('late_calls',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('run_id', sa.Text(), nullable=False),
    sa.Column('at', sa.DateTime(), nullable=False),
    sa.Column('call', sa.Text(), nullable=False),
    sa.Column('settled_at', sa.DateTime(), nullable=True),
    sa.ForeignKeyConstraint(['run_id'], ['runs.run_id'], name=op.f('fk_late_calls_run_id')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_late_calls'))
    )
    op.create_index('ix_late_calls_run_id', 'late_calls', ['run_id'], unique=False)
    op.add_column('moves', sa.Column('target', sa.Text(), nullable=True))
    op.drop_index('one_open_run_per_cluster', table_name='runs')
    op.create_index('one_waiting_run_per_cluster', 'runs', ['cluster'], unique=True, sqlite_where=WAITING, postgresql_where=WAITING)
    op.create_index('one_run_under_way_per_cluster', 'runs', ['cluster'], unique=True, sqlite_where=UNDER_WAY, postgresql_where=UNDER_WAY)
