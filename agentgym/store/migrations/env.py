"""Alembic's entry: runs on the connection and inside the transaction that `agentgym.store.migrate` holds."""

from alembic import context

from agentgym.store.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, transactional_ddl=False)
context.run_migrations()
