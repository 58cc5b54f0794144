"""when a run ended with a partition at rest; which rates it had set before"""

import sqlalchemy as sa
from alembic import op

revision = '0008'
down_revision = '0007'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('moves', sa.Column('in_order_at', sa.DateTime))
    op.add_column('touched_keys', sa.Column('earlier_rates', sa.Text))
