"""Indexes for every question a listing asks: at 100,000 trajectories a filter for something rare read every row."""

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.drop_index("trajectory_by_age", "trajectory")
    op.create_index(
        "trajectory_by_age",
        "trajectory",
        ["created_at", "id", "reward", "policy_kind", "action_tokens", "version_min", "version_max"],
    )
    for name, column in {
        "trajectory_by_split": "split",
        "trajectory_by_termination": "termination",
        "trajectory_by_policy": "policy",
        "trajectory_by_model": "model",
        "trajectory_by_harness": "harness_digest",
        "trajectory_by_group": "group_id",
    }.items():
        op.create_index(name, "trajectory", [column, "created_at", "id"])
