"""The tables, as SQLAlchemy Core. Columns are what people query; everything else is in two blobs per trajectory.

A change here needs a new file in `migrations/versions/` and a new `SCHEMA_VERSION`; released migrations never change.
`trajectory_body` is apart from `trajectory`, so that a listing reads no blobs. `trajectory.created_at` + `id` is the
order of every stream and ends every index, so that a reader pages by key and holds no transaction open for long. The index
by age also carries what is asked of outcomes: a filter for something rare is answered from it without the rows.

`training_metric` and `token_credit` are what learners tell people, `trajectory_states` is what a replay found out about the
workspace; nothing that learns reads them back. The `server_` tables are the REST server's memory: tokens, launched runs,
answers to repeated requests, writes. They lie here so that several servers on one store share them.
"""

from __future__ import annotations

import sqlalchemy as sa

SCHEMA_VERSION = "0005"
"""The newest revision in `migrations/versions/`."""
KNOWN_SCHEMAS = tuple(f"{number:04}" for number in range(1, int(SCHEMA_VERSION) + 1))

metadata = sa.MetaData()


def _key(length: int = 64) -> sa.String:
    """Text compared byte by byte on every database, so that prefixes are ranges of an index."""
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")  # type: ignore[return-value]


trajectory = sa.Table(
    "trajectory",
    metadata,
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
    sa.Index(
        "trajectory_by_age",
        *("created_at", "id", "reward", "policy_kind", "action_tokens", "version_min", "version_max"),
    ),
    sa.Index("trajectory_by_run", "run_id", "created_at", "id"),
    sa.Index("trajectory_by_task", "task_id", "created_at", "id"),
    sa.Index("trajectory_by_split", "split", "created_at", "id"),
    sa.Index("trajectory_by_termination", "termination", "created_at", "id"),
    sa.Index("trajectory_by_policy", "policy", "created_at", "id"),
    sa.Index("trajectory_by_model", "model", "created_at", "id"),
    sa.Index("trajectory_by_harness", "harness_digest", "created_at", "id"),
    sa.Index("trajectory_by_group", "group_id", "created_at", "id"),
    sa.Index("trajectory_by_parent", "parent_id"),
)

trajectory_body = sa.Table(
    "trajectory_body",
    metadata,
    sa.Column("trajectory_id", _key(), sa.ForeignKey("trajectory.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("tokens", sa.LargeBinary, nullable=False),
    sa.Column("detail", sa.LargeBinary, nullable=False),
)

document = sa.Table(
    "document",
    metadata,
    sa.Column("digest", _key(128), primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("json", sa.Text, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
)

task = sa.Table(
    "task",
    metadata,
    sa.Column("digest", _key(128), primary_key=True),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("root", sa.Text, nullable=False),
    sa.Column("source_kind", sa.Text, nullable=False),
    sa.Column("split", sa.Text, nullable=False),
    sa.Column("language", sa.Text, nullable=False),
    sa.Column("difficulty", sa.Text, nullable=False),
    sa.Column("manifest", sa.JSON, nullable=False),
    sa.Column("registered_at", sa.Double, nullable=False),
    sa.Index("task_by_id", "id"),
)

task_validation = sa.Table(
    "task_validation",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("task_digest", _key(128), sa.ForeignKey("task.digest", ondelete="CASCADE"), nullable=False),
    sa.Column("environment_digest", sa.Text, nullable=False),
    sa.Column("backend", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("report", sa.JSON, nullable=False),
    sa.Column("seconds", sa.Double, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Index("task_validation_by_task", "task_digest", "created_at"),
    sa.CheckConstraint("status IN ('valid', 'rejected', 'error')", name="task_validation_status"),
)

training_metric = sa.Table(
    "training_metric",
    metadata,
    sa.Column("run_id", sa.String(200), primary_key=True),
    sa.Column("step", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(100), primary_key=True),
    sa.Column("value", sa.Double, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
)

token_credit = sa.Table(
    "token_credit",
    metadata,
    sa.Column("trajectory_id", _key(), sa.ForeignKey("trajectory.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("run_id", sa.String(200), primary_key=True),
    sa.Column("step", sa.Integer, primary_key=True),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Index("token_credit_by_run", "run_id", "step"),
)

trajectory_states = sa.Table(
    "trajectory_states",
    metadata,
    sa.Column("trajectory_id", _key(), sa.ForeignKey("trajectory.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
)

server_token = sa.Table(
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

server_run = sa.Table(
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

server_answer = sa.Table(
    "server_answer",
    metadata,
    sa.Column("key", sa.String(512), primary_key=True),
    sa.Column("request_sha256", sa.String(64), nullable=False),
    sa.Column("status", sa.Integer),
    sa.Column("body", sa.LargeBinary),
    sa.Column("created_at", sa.Double, nullable=False),
)

server_audit = sa.Table(
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
