"""What training runs measured, a row per run, step and name."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "training_metric",
        sa.Column("run_id", sa.String(200), primary_key=True),
        sa.Column("step", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(100), primary_key=True),
        sa.Column("value", sa.Double, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
    )
