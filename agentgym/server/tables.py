"""What the server itself remembers, beside the trajectories: tokens, launched runs, answers to repeated requests, writes.

The tables lie in the store, so that several servers share them. They are made when a server first opens a store; a
store that no server has opened does not have them, and nothing else reads them.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError

from agentgym.store.engine import writing

metadata = sa.MetaData()

token = sa.Table(
    "server_token",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("scope", sa.Text, nullable=False),
    sa.Column("secret_sha256", sa.String(64), nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("expires_at", sa.Double),
    sa.Column("revoked_at", sa.Double),
    sa.Column("last_used_at", sa.Double),
)

run = sa.Table(
    "server_run",
    metadata,
    sa.Column("id", sa.String(128), primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("config", sa.JSON, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("directory", sa.Text, nullable=False),
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("pid", sa.Integer),
    sa.Column("pid_started", sa.Text),
    sa.Column("exit_code", sa.Integer),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("started_at", sa.Double),
    sa.Column("ended_at", sa.Double),
)

answer = sa.Table(
    "server_answer",
    metadata,
    sa.Column("key", sa.String(512), primary_key=True),
    sa.Column("request_sha256", sa.String(64), nullable=False),
    sa.Column("status", sa.Integer),
    sa.Column("body", sa.LargeBinary),
    sa.Column("created_at", sa.Double, nullable=False),
)

audit = sa.Table(
    "server_audit",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("who", sa.Text, nullable=False),
    sa.Column("client", sa.Text, nullable=False),
    sa.Column("method", sa.Text, nullable=False),
    sa.Column("path", sa.Text, nullable=False),
    sa.Column("status", sa.Integer, nullable=False),
)


def prepare(engine: sa.Engine) -> None:
    """Make the tables where they are missing."""
    if sa.inspect(engine).has_table(audit.name):
        return
    try:
        with writing(engine) as connection:
            metadata.create_all(connection)
    except (IntegrityError, ProgrammingError, OperationalError):
        # Another server was first: PostgreSQL reports the race instead of waiting.
        if not sa.inspect(engine).has_table(audit.name):
            raise
