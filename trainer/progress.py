"""How long-running parts say how far they are: a callback with (stage, tokens done, tokens of the stage)."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]


def silent(stage: str, done: int, total: int) -> None:
    """The progress of callers that do not watch."""
