"""What an operator may set about a server."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from agentgym.config import Config

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class ServerSettings(Config):
    """Defaults are those of a server for one person on loopback."""

    auth: bool = Field(default=False, description="Ask every request for a token; may be off on loopback only.")
    runs_dir: Path = Field(
        default=Path("runs/server"), description="Where launched runs keep their logs and checkpoints."
    )
    max_running: int = Field(default=4, ge=0, description="Launched runs at once; more are refused. 0: launch none.")
    requests_per_second: float | None = Field(default=None, gt=0, description="Per client address; unset: no limit.")
    burst: float = Field(default=200, ge=1, description="Requests a client may make at once before the rate counts.")
    max_body_bytes: int = Field(default=1 << 20, ge=1024, description="Largest request body.")
    access_log: bool = Field(default=False, description="Log each request: route, status, time, who.")
    report_trajectories: int = Field(default=2000, ge=1, description="Most trajectories a report in one request reads.")
