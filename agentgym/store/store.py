"""The trajectory store: what was recorded, whole or not at all.

    store = Store.open("runs/store.db")            # or postgresql://user@host/database
    store.add(trajectory)                          # one transaction; adding the same trajectory again changes nothing
    store.get("3f9a")                              # by id or unique prefix
    for summary in store.query(TrajectoryFilter(run_id="r1", reward_min=1.0)): ...
    for group in store.iter_sequences(TrajectoryFilter(trainable=True)): ...

Threads may share one `Store`; processes each open their own. Streams page by (created_at, id), so they hold no
transaction while the caller works and never more than one page in memory; rows added meanwhile appear if they sort
later. A trajectory whose stored bytes are damaged is reported by id to `on_corrupt` (a warning in the log by default)
and skipped: it never stops the others.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from agentgym.store import credit, states
from agentgym.store.codec import decode_layout
from agentgym.store.credit import CreditEntry, TokenCredit
from agentgym.store.engine import reading, writing
from agentgym.store.errors import CorruptError, NotFoundError, StoreError, StoreUnusableError, TakenError
from agentgym.store.filter import TrajectoryFilter, TrajectorySummary, is_text, printable
from agentgym.store.kinds import DEEPEST, nested_deeper
from agentgym.store.migrate import open_engine
from agentgym.store.records import Trajectory, digest_of
from agentgym.store.rows import decode_trajectory, encode_trajectory, naming
from agentgym.store.schema import document as documents
from agentgym.store.schema import training_metric as metrics
from agentgym.store.schema import trajectory as rows
from agentgym.store.schema import trajectory_body as bodies
from agentgym.store.sequences import Sequence, sequences_of_layout
from agentgym.store.states import WorkspaceStates
from agentgym.store.stream import OnCorrupt, log_corrupt, read_blobs, stream

_EVERYTHING = (bodies.c.tokens, bodies.c.detail)
_DIGEST_LENGTH = len("sha256:") + 64
_BY_PREFIX = (
    sa.select(rows)
    .where(
        sa.or_(
            rows.c.id == sa.bindparam("id"),
            sa.and_(rows.c.id >= sa.bindparam("id"), rows.c.id < sa.bindparam("after")),
        )
    )
    .order_by(rows.c.id)
    .limit(3)
)
"""Built once: to build it took as long as to ask it."""

_NEW = {
    "sqlite": sqlite.insert(documents).on_conflict_do_nothing(),
    "postgresql": postgresql.insert(documents).on_conflict_do_nothing(),
}
"""A document that is there stays as it is."""


class Store:
    """An open store. Use `Store.open`."""

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine

    @classmethod
    def open(cls, url: str | Path, create: bool = True) -> Store:
        """Open a store by SQLite path or SQLAlchemy URL, creating or upgrading its tables.

        Raises StoreError where it cannot be opened, was written by a newer agentgym, or is missing and `create` is
        False.
        """
        return cls(open_engine(url, create))

    def close(self) -> None:
        self.engine.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, trajectory: Trajectory, harness: Mapping[str, Any] | None = None) -> bool:
        """Write one trajectory; False where it was there already. harness: the document that its `harness_digest` names, written
        with it where the store has it not; it goes with the last trajectory that names it.

        Raises InvalidTrajectoryError where it breaks the data contract, TakenError where the id is another trajectory's,
        StoreError where the digest names another document, or the database refuses (full disk). In every such case nothing was
        written.
        """
        encoded = encode_trajectory(trajectory)
        if harness is not None and not _is_named(trajectory.harness_digest, harness):
            raise StoreError(
                f"the harness document is not the one that {trajectory.harness_digest or 'no digest'} names, "
                f"or nested deeper than {DEEPEST} levels"
            )
        try:
            with writing(self.engine) as connection:
                if harness is not None:
                    connection.execute(
                        _NEW[self.engine.dialect.name], _document_row(trajectory.harness_digest, harness)
                    )
                connection.execute(rows.insert(), encoded.row)
                connection.execute(bodies.insert(), encoded.body)
        except IntegrityError as error:
            if encode_trajectory(self.get(trajectory.id)) != encoded:
                raise TakenError(f"trajectory id {trajectory.id} is taken by a different trajectory") from error
            return False
        return True

    def get(self, id_or_prefix: str) -> Trajectory:
        """One trajectory by id or unique prefix. Raises NotFoundError, or CorruptError for damaged bytes."""
        summary = self.summary(id_or_prefix)
        with naming(summary.id):
            return decode_trajectory(summary, *read_blobs(self.engine, summary.id, _EVERYTHING))

    def summary(self, id_or_prefix: str) -> TrajectorySummary:
        """The columns of one trajectory by id or unique prefix. Raises NotFoundError."""
        if "\0" in id_or_prefix:  # PostgreSQL takes none in a comparison
            raise NotFoundError(f"no trajectory {id_or_prefix!r}")
        after = id_or_prefix[:-1] + _next(id_or_prefix[-1]) if id_or_prefix else ""
        with reading(self.engine) as connection:
            found = connection.execute(_BY_PREFIX, {"id": id_or_prefix, "after": after}).all()
        if not found:
            raise NotFoundError(f"no trajectory {id_or_prefix!r}", hint="`agentgym store ls` lists them")
        if len(found) > 1 and found[0].id != id_or_prefix:
            raise NotFoundError(f"{id_or_prefix!r} fits several trajectories", hint="give more characters of the id")
        with naming(found[0].id):
            return TrajectorySummary.of_row(found[0])

    def exactly(self, trajectory_id: str) -> TrajectorySummary:
        """The columns of the trajectory with this id, and of none that it is only a prefix of. Raises NotFoundError."""
        found = self.summary(trajectory_id)
        if found.id != trajectory_id:
            raise NotFoundError(f"no trajectory {trajectory_id!r}")
        return found

    def has(self, trajectory_id: str) -> bool:
        """Whether there is a trajectory with exactly this id, readable or not."""
        try:
            with reading(self.engine) as connection:
                return connection.execute(sa.select(rows.c.id).where(rows.c.id == trajectory_id)).first() is not None
        except NotFoundError:
            return False

    def query(
        self, where: TrajectoryFilter = TrajectoryFilter(), *, on_corrupt: OnCorrupt = log_corrupt
    ) -> Iterator[TrajectorySummary]:
        """Stream the columns of all matching trajectories."""
        return stream(self.engine, where, (), lambda summary: summary, on_corrupt)

    def count(self, where: TrajectoryFilter = TrajectoryFilter()) -> int:
        """How many trajectories match, wherever a page of them begins or ends (`after` and `limit` are ignored)."""
        where = replace(where, after=None)
        with reading(self.engine) as connection:
            return connection.execute(
                sa.select(sa.func.count()).select_from(rows).where(*where.conditions())
            ).scalar_one()

    def iter(
        self, where: TrajectoryFilter = TrajectoryFilter(), *, on_corrupt: OnCorrupt = log_corrupt
    ) -> Iterator[Trajectory]:
        """Stream all matching trajectories."""
        return stream(self.engine, where, _EVERYTHING, decode_trajectory, on_corrupt)

    def iter_sequences(
        self, where: TrajectoryFilter = TrajectoryFilter(), *, on_corrupt: OnCorrupt = log_corrupt
    ) -> Iterator[tuple[TrajectorySummary, list[Sequence]]]:
        """Stream what a learner reads: each matching trajectory's columns and sequences. Reads no steps and no text."""

        def decode(summary: TrajectorySummary, tokens: bytes) -> tuple[TrajectorySummary, list[Sequence]]:
            return summary, sequences_of_layout(
                decode_layout(tokens),
                trajectory_id=summary.id,
                reward=summary.reward,
                termination=summary.termination,
            )

        return stream(self.engine, where, (bodies.c.tokens,), decode, on_corrupt)

    def iter_blobs(
        self, where: TrajectoryFilter = TrajectoryFilter(), *, on_corrupt: OnCorrupt = log_corrupt
    ) -> Iterator[tuple[TrajectorySummary, bytes, bytes]]:
        """Stream columns, token blob and detail blob of all matching trajectories, undecoded."""
        return stream(self.engine, where, _EVERYTHING, lambda *found: found, on_corrupt)

    def database_faults(self) -> list[str]:
        """What the database itself finds wrong: damaged pages of an SQLite file, bodies that belong to no
        trajectory, harness documents that trajectories name and that are not there, or not what their digests say."""
        found: list[str] = []
        lost = sa.select(bodies.c.trajectory_id).where(bodies.c.trajectory_id.not_in(sa.select(rows.c.id)))
        named = sa.select(rows.c.harness_digest, sa.func.count()).group_by(rows.c.harness_digest)
        named = named.where(sa.func.length(rows.c.harness_digest) == _DIGEST_LENGTH)
        named = named.where(rows.c.harness_digest.not_in(sa.select(documents.c.digest)))
        try:
            if self.engine.dialect.name == "sqlite":
                with reading(self.engine) as connection:
                    for answer in connection.exec_driver_sql("PRAGMA quick_check").scalars():
                        found += [f"SQLite: {answer}"] if answer != "ok" else []
            with reading(self.engine) as connection:
                found += [f"body {one} belongs to no trajectory" for one in connection.execute(lost).scalars()]
                found += [
                    f"harness document {printable(digest)}, which {counted} of its trajectories name, is not in this store"
                    for digest, counted in connection.execute(named)
                ]
                for digest, text in connection.execute(sa.select(documents.c.digest, documents.c.json)):
                    try:
                        _document(digest, text)
                    except CorruptError as error:
                        found.append(str(error))
        except StoreUnusableError:
            raise
        except StoreError as error:  # the pages that this needs are torn themselves
            found.append(f"not looked at to the end: {error.args[0]}")
        return found

    def get_document(self, digest: str) -> dict[str, Any]:
        """The document under a digest. Raises NotFoundError, or CorruptError for what is not the one that it names."""
        with reading(self.engine) as connection:
            text = connection.execute(sa.select(documents.c.json).where(documents.c.digest == digest)).scalar()
        if text is None:
            raise NotFoundError(f"no document {digest!r}")
        return _document(digest, text)

    def put_metrics(self, run_id: str, step: int, values: Mapping[str, float]) -> None:
        """What a training run measured at a step, in place of what was there: a step taken again is measured again."""
        now = time.time()
        row = {"run_id": run_id, "step": step, "created_at": now}
        with writing(self.engine) as connection:
            connection.execute(metrics.delete().where(metrics.c.run_id == run_id, metrics.c.step == step))
            if values:
                connection.execute(metrics.insert(), [{**row, "name": name, "value": values[name]} for name in values])

    def metrics(self, run_id: str) -> dict[int, dict[str, float]]:
        """Everything a training run measured, by step."""
        query = sa.select(metrics).where(metrics.c.run_id == run_id).order_by(metrics.c.step, metrics.c.name)
        found: dict[int, dict[str, float]] = {}
        with reading(self.engine) as connection:
            for row in connection.execute(query):
                found.setdefault(row.step, {})[row.name] = row.value
        return found

    def put_credit(self, run_id: str, step: int, version: int, found: Mapping[str, TokenCredit]) -> None:
        """What an update of a training run thought of each sampled token, by trajectory, in place of what was there."""
        credit.put_credit(self.engine, run_id, step, version, found)

    def credit(self, trajectory_id: str) -> list[CreditEntry]:
        """Every update that a trajectory took part in, newest first. Raises CorruptError."""
        return credit.read_credit(self.engine, trajectory_id)

    def put_states(self, found: WorkspaceStates) -> None:
        """The workspace states that a trajectory went through, in place of what was known. Raises NotFoundError."""
        states.put_states(self.engine, found)

    def states(self, trajectory_id: str) -> WorkspaceStates | None:
        """The workspace states of a trajectory, None where no replay has told them. Raises CorruptError."""
        return states.read_states(self.engine, trajectory_id)

    def measured_runs(self) -> list[str]:
        """Training runs that have metrics, by name."""
        with reading(self.engine) as connection:
            return list(connection.execute(sa.select(metrics.c.run_id).distinct().order_by(metrics.c.run_id)).scalars())


def _next(character: str) -> str:
    """The first character behind another one; surrogates are none that a database takes."""
    return "\ue000" if character == "\ud7ff" else chr(min(ord(character) + 1, 0x10FFFF))


def _document_row(digest: str, content: Mapping[str, Any]) -> dict[str, Any]:
    return {"digest": digest, "kind": "harness", "json": json.dumps(content, sort_keys=True), "created_at": time.time()}


def _document(digest: str, text: Any) -> dict[str, Any]:
    """The document in a row, which a digest that is no SHA-256 says nothing of. Raises CorruptError."""
    try:
        if isinstance(text, str) and is_text(text):
            found = json.loads(text)
            if isinstance(found, dict) and (len(digest) != _DIGEST_LENGTH or _is_named(digest, found)):
                return found
    except (ValueError, RecursionError):
        pass
    raise CorruptError(f"document {printable(digest)} is not the JSON that was written")


def _is_named(digest: str, document: object) -> bool:
    """Whether the digest is that of the document, which is an object that is not nested too deep to be read again."""
    return isinstance(document, Mapping) and not nested_deeper(document, DEEPEST) and digest_of(document) == digest
