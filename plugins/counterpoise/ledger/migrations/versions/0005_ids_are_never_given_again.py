"""in SQLite too, no row of a chained table takes the id of one that was deleted"""

import sqlalchemy as sa
from alembic import op

revision = '0005'
down_revision = '0004'
branch_labels = None
depends_on = None

CHAINED_TABLES = ('approvals', 'events', 'questions', 'requests')
NEWEST_ID = """
    SELECT max(id) FROM (
        SELECT id FROM {table} UNION ALL SELECT row_id FROM chain WHERE table_name = '{table}'
    )
"""


def upgrade() -> None:
    connection = op.get_bind()
    if connection.dialect.name != 'sqlite':  # a sequence of Postgres gives no id twice
        return
    for table in CHAINED_TABLES:
        # A column cannot get AUTOINCREMENT later: the table is made anew, with its rows.
        with op.batch_alter_table(table, recreate='always', table_kwargs={'sqlite_autoincrement': True}):
            pass
        newest_id = connection.scalar(sa.text(NEWEST_ID.format(table=table))) or 0
        is_table = {'table': table, 'newest_id': newest_id}
        connection.execute(sa.text('DELETE FROM sqlite_sequence WHERE name = :table'), is_table)
        connection.execute(sa.text('INSERT INTO sqlite_sequence (name, seq) VALUES (:table, :newest_id)'), is_table)
