"""Which episodes are open, by key: what the HTTP side asks about every request."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.gateway.refusal import unauthorised
from harness.gateway.session import Session


@dataclass(slots=True)
class Gateway:
    """max_body: bytes of one request. ping_s: seconds after which a stream that has nothing to say yet says so."""

    max_body: int = 32 << 20
    ping_s: float = 10.0
    _sessions: dict[str, Session] = field(default_factory=dict)

    def admit(self, session: Session) -> None:
        self._sessions[session.key] = session

    async def dismiss(self, session: Session) -> None:
        """The key is worth nothing from now on."""
        self._sessions.pop(session.key, None)
        await session.close()

    def session(self, key: str | None) -> Session:
        """The open episode of a key. Raises Refusal (401)."""
        if not key:
            raise unauthorised("no API key was sent")
        session = self._sessions.get(key)
        if session is None:
            raise unauthorised("this API key is unknown, or its episode is over")
        return session

    def __contains__(self, key: str) -> bool:
        return key in self._sessions

    def __len__(self) -> int:
        return len(self._sessions)
