"""what people ask of a run, its pulse, and whom an unanswered call was sent to"""

import sqlalchemy as sa
from alembic import op

revision = '0002'
down_revision = '0001'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('moves', sa.Column('asked_broker_id', sa.Integer(), nullable=True))
    op.add_column('touched_keys', sa.Column('unanswered_call', sa.Text(), nullable=True))
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
    sa.ForeignKeyConstraint(['run_id'], ['runs.run_id'], name=op.f('fk_requests_run_id')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_requests'))
    )
    op.create_index('ix_requests_cluster', 'requests', ['cluster'], unique=False)
    op.create_table('pulses',
    sa.Column('run_id', sa.Text(), nullable=False),
    sa.Column('at', sa.DateTime(), nullable=False),
    sa.Column('moves_in_flight', sa.Integer(), nullable=False),
    sa.Column('body', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['run_id'], ['runs.run_id'], name=op.f('fk_pulses_run_id')),
    sa.PrimaryKeyConstraint('run_id', name=op.f('pk_pulses'))
    )
