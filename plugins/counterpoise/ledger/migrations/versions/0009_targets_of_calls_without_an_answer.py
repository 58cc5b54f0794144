"""what earlier calls without an answer wanted of a partition"""

import sqlalchemy as sa
from alembic import op

revision = '0009'
down_revision = '0008'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('moves', sa.Column('open_targets', sa.Text))
