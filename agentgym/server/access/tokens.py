"""API tokens: `agym_ID_SECRET`. The store keeps the SHA-256 of the secret, never the secret.

A secret is 32 random bytes, so a fast hash is enough (there is nothing to guess from a dictionary). Scopes contain each
other: admin ⊃ run ⊃ read. A checked token is remembered for `TRUST_SECONDS`: so long may another server still accept a
token that was revoked here.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import sqlalchemy as sa

from agentgym.store import NotFoundError
from agentgym.store.engine import reading, writing
from agentgym.store.schema import server_token as tokens

Scope = Literal["read", "run", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
PREFIX = "agym"
TRUST_SECONDS = 5.0
_USE_NOTED_EVERY = 60.0
_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """A token without its secret; times are unix seconds."""

    id: str
    name: str
    scope: Scope
    created_at: float
    expires_at: float | None
    revoked_at: float | None
    last_used_at: float | None

    def allows(self, scope: Scope) -> bool:
        return SCOPES.index(self.scope) >= SCOPES.index(scope)

    def is_live(self, now: float) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class Tokens:
    """The tokens of one store."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._known: dict[str, tuple[float, TokenInfo]] = {}

    def create(self, name: str, scope: Scope, lifetime: float | None = None) -> tuple[str, TokenInfo]:
        """The token as its user needs it, shown only now, and what is kept. lifetime: seconds, None for ever."""
        id_, secret, now = secrets.token_hex(6), secrets.token_urlsafe(32), time.time()
        info = TokenInfo(id_, name, scope, now, None if lifetime is None else now + lifetime, None, None)
        row = {field: getattr(info, field) for field in TokenInfo.__slots__} | {"secret_sha256": _hash(secret)}
        with writing(self._engine) as connection:
            connection.execute(tokens.insert(), row)
        return f"{PREFIX}_{id_}_{secret}", info

    def remembered(self, text: str) -> TokenInfo | None:
        """The live token that `text` is, where it was checked in the last `TRUST_SECONDS`; asks no database."""
        checked, now = self._known.get(_hash(text)), time.time()
        fresh = checked is not None and now - checked[0] < TRUST_SECONDS and checked[1].is_live(now)
        return checked[1] if checked and fresh else None

    def check(self, text: str) -> TokenInfo | None:
        """The live token that `text` is, or None."""
        if (known := self.remembered(text)) is not None:
            return known
        now = time.time()
        prefix, _, rest = text.partition("_")
        id_, _, secret = rest.partition("_")
        if prefix != PREFIX or not secret or len(id_) > 32 or "\0" in id_:
            return None
        with reading(self._engine) as connection:
            row = connection.execute(sa.select(tokens).where(tokens.c.id == id_)).first()
        if row is None or not hmac.compare_digest(row.secret_sha256, _hash(secret)):
            return None
        info = _info(row)
        if not info.is_live(now):
            return None
        self._note_use(info, now)
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[_hash(text)] = (now, info)
        return info

    def list(self) -> Sequence[TokenInfo]:
        """All of them, newest first; those expired or revoked too."""
        with reading(self._engine) as connection:
            return [_info(row) for row in connection.execute(sa.select(tokens).order_by(tokens.c.created_at.desc()))]

    def revoke(self, id_: str) -> None:
        """Raises NotFoundError for an id that no live token has."""
        with writing(self._engine) as connection:
            live = tokens.update().where(tokens.c.id == id_, tokens.c.revoked_at.is_(None))
            changed = connection.execute(live.values(revoked_at=time.time())).rowcount
        self._known.clear()
        if not changed:
            raise NotFoundError(f"no live token {id_!r}")

    def _note_use(self, info: TokenInfo, now: float) -> None:
        if info.last_used_at is None or now - info.last_used_at > _USE_NOTED_EVERY:
            with writing(self._engine) as connection:
                connection.execute(tokens.update().where(tokens.c.id == info.id).values(last_used_at=now))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _info(row: sa.Row) -> TokenInfo:
    return TokenInfo(**{field: getattr(row, field) for field in TokenInfo.__slots__})
