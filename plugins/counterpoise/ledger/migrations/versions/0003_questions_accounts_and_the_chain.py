"""what a person was asked, verified accounts, the Dag run of a run, and the hash chain"""

import sqlalchemy as sa
from alembic import op

revision = '0003'
down_revision = '0002'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('runs', sa.Column('dag_id', sa.Text(), nullable=True))
    op.add_column('runs', sa.Column('dag_run_id', sa.Text(), nullable=True))
    op.add_column('runs', sa.Column('requester_account', sa.Text(), nullable=True))
    op.create_index('ix_runs_dag_run', 'runs', ['dag_id', 'dag_run_id'], unique=False)
    op.add_column('approvals', sa.Column('account', sa.Text(), nullable=True))
    op.add_column('requests', sa.Column('account', sa.Text(), nullable=True))
    op.create_table('questions',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('dag_id', sa.Text(), nullable=False),
    sa.Column('dag_run_id', sa.Text(), nullable=False),
    sa.Column('task_id', sa.Text(), nullable=False),
    sa.Column('run_id', sa.Text(), nullable=False),
    sa.Column('fingerprint', sa.Text(), nullable=False),
    sa.Column('asked_at', sa.DateTime(), nullable=False),
    sa.ForeignKeyConstraint(['run_id'], ['runs.run_id'], name=op.f('fk_questions_run_id')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_questions'))
    )
    op.create_index('ix_questions_dag_run', 'questions', ['dag_id', 'dag_run_id'], unique=False)
    op.create_table('chain',
    sa.Column('cluster', sa.Text(), nullable=False),
    sa.Column('sequence', sa.Integer(), nullable=False),
    sa.Column('table_name', sa.Text(), nullable=False),
    sa.Column('row_id', sa.Integer(), nullable=False),
    sa.Column('row_hash', sa.Text(), nullable=False),
    sa.Column('chained_at', sa.DateTime(), nullable=False),
    sa.Column('previous_hash', sa.Text(), nullable=False),
    sa.Column('hash', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('cluster', 'sequence', name=op.f('pk_chain'))
    )
    op.create_index('one_link_per_row', 'chain', ['cluster', 'table_name', 'row_id'], unique=True)
