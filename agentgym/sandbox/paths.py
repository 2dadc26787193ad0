"""Where this room keeps files on the host, after the XDG base directory rules.

The cache (base systems, image layers, locks) may be deleted at any time and is made again; the state directory holds
one directory per live `local` sandbox, from which a reaper of another process can find what a killed one left behind.
"""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """`$XDG_CACHE_HOME/agentgym`, by default `~/.cache/agentgym`; made on first use."""
    return _made(os.environ.get("XDG_CACHE_HOME"), ".cache")


def state_dir() -> Path:
    """`$XDG_STATE_HOME/agentgym`, by default `~/.local/state/agentgym`; made on first use."""
    return _made(os.environ.get("XDG_STATE_HOME"), ".local/state")


def _made(base: str | None, default: str) -> Path:
    path = (Path(base) if base else Path.home() / default) / "agentgym"
    path.mkdir(parents=True, exist_ok=True)
    return path
