"""Alembic's entry point. `counterpoise.ledger.database` hands over an open connection."""

from alembic import context

from counterpoise.ledger.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
