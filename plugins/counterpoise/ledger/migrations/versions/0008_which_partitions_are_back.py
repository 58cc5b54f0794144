"""which partitions are back as they were before the run"""

import sqlalchemy as sa
from alembic import op

revision = '0008'
down_revision = '0007'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('moves', sa.Column('back_at', sa.DateTime))
