"""First schema: trajectories with their bodies, documents, tasks and their validations."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def _key(length: int = 64) -> sa.String:
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")  # type: ignore[return-value]


def upgrade() -> None:
    op.create_table(
        "trajectory",
        sa.Column("id", _key(), primary_key=True),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("group_id", sa.Text, nullable=False),
        sa.Column("parent_id", _key()),
        sa.Column("branch_step", sa.Integer),
        sa.Column("task_id", sa.Text, nullable=False),
        sa.Column("task_digest", sa.Text, nullable=False),
        sa.Column("split", sa.Text, nullable=False),
        sa.Column("harness_digest", sa.Text, nullable=False),
        sa.Column("backend", sa.Text, nullable=False),
        sa.Column("image_digest", sa.Text, nullable=False),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("policy_kind", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("termination", sa.Text, nullable=False),
        sa.Column("reward", sa.Double),
        sa.Column("seed", sa.BigInteger),
        sa.Column("version_min", sa.Integer),
        sa.Column("version_max", sa.Integer),
        sa.Column("calls", sa.Integer, nullable=False),
        sa.Column("steps", sa.Integer, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("action_tokens", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
    )
    op.create_index("trajectory_by_age", "trajectory", ["created_at", "id"])
    op.create_index("trajectory_by_run", "trajectory", ["run_id", "created_at", "id"])
    op.create_index("trajectory_by_task", "trajectory", ["task_id", "created_at", "id"])
    op.create_index("trajectory_by_parent", "trajectory", ["parent_id"])
    op.create_table(
        "trajectory_body",
        sa.Column("trajectory_id", _key(), sa.ForeignKey("trajectory.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("tokens", sa.LargeBinary, nullable=False),
        sa.Column("detail", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "document",
        sa.Column("digest", _key(128), primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("json", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
    )
    op.create_table(
        "task",
        sa.Column("digest", _key(128), primary_key=True),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("root", sa.Text, nullable=False),
        sa.Column("source_kind", sa.Text, nullable=False),
        sa.Column("split", sa.Text, nullable=False),
        sa.Column("language", sa.Text, nullable=False),
        sa.Column("difficulty", sa.Text, nullable=False),
        sa.Column("manifest", sa.JSON, nullable=False),
        sa.Column("registered_at", sa.Double, nullable=False),
    )
    op.create_index("task_by_id", "task", ["id"])
    op.create_table(
        "task_validation",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("task_digest", _key(128), sa.ForeignKey("task.digest", ondelete="CASCADE"), nullable=False),
        sa.Column("environment_digest", sa.Text, nullable=False),
        sa.Column("backend", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("report", sa.JSON, nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.CheckConstraint("status IN ('valid', 'rejected', 'error')", name="task_validation_status"),
    )
    op.create_index("task_validation_by_task", "task_validation", ["task_digest", "created_at"])
