"""What replays tell of the states that a workspace went through."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def _key(length: int = 64) -> sa.String:
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")  # type: ignore[return-value]


def upgrade() -> None:
    op.create_table(
        "trajectory_states",
        sa.Column("trajectory_id", _key(), sa.ForeignKey("trajectory.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
    )
