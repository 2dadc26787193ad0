"""What learners tell of single tokens, and the server's tables in the one schema.

A server of release 0003 made its tables itself, beside the schema: where they are, they stay with what they hold.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def _key(length: int = 64) -> sa.String:
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")  # type: ignore[return-value]


def upgrade() -> None:
    op.create_table(
        "token_credit",
        sa.Column("trajectory_id", _key(), sa.ForeignKey("trajectory.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("run_id", sa.String(200), primary_key=True),
        sa.Column("step", sa.Integer, primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
    )
    op.create_index("token_credit_by_run", "token_credit", ["run_id", "step"])
    if not sa.inspect(op.get_bind()).has_table("server_audit"):
        _server_tables()


def _server_tables() -> None:
    op.create_table(
        "server_token",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("secret_sha256", sa.String(64), nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double),
        sa.Column("revoked_at", sa.Double),
        sa.Column("last_used_at", sa.Double),
    )
    op.create_table(
        "server_run",
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
    op.create_table(
        "server_answer",
        sa.Column("key", sa.String(512), primary_key=True),
        sa.Column("request_sha256", sa.String(64), nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("body", sa.LargeBinary),
        sa.Column("created_at", sa.Double, nullable=False),
    )
    op.create_table(
        "server_audit",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("client", sa.Text, nullable=False),
        sa.Column("method", sa.Text, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
    )
