"""What a command prints: its result on stdout (a table, or one JSON document), everything else on stderr."""

from __future__ import annotations

import json
import logging
import math
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.logging import RichHandler
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from agentgym import logs

stderr = Console(stderr=True)
stdout = Console()
PIPE_WIDTH = 160
_documents: list[str] = []


def emit(document: Mapping[str, Any], human: RenderableType, *, as_json: bool) -> None:
    """Print `document` as JSON, or `human` as text."""
    if as_json:
        text = json.dumps(_finite(document), allow_nan=False, default=str)  # in ASCII: it may hold what UTF-8 cannot
        _documents.append(text)  # first, so that whatever interrupts the writing adds no second one
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    else:
        # Lines of text stay whole (paths are copied from them), and a table in a pipe is not cut to 80 columns.
        if not stdout.is_terminal and "COLUMNS" not in os.environ:
            stdout.width = PIPE_WIDTH  # an argument of print() could only make it narrower
        for part in human.renderables if isinstance(human, Group) else [human]:
            stdout.print(part, soft_wrap=isinstance(part, str))


def _finite(value: Any) -> Any:
    """The same with numbers that JSON does not have (policies do write them into arguments) as their names."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return value


def program() -> str:
    """What to type to call this program again: its name where a shell finds it, else as it was called now."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m agentgym"
    found = shutil.which(called.name)
    return called.name if found and called.exists() and Path(found).samefile(called) else shlex.quote(sys.argv[0])


def counted(count: int, noun: str) -> str:
    """ "1 fault", "2 faults", "3 trajectories"."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun.removesuffix('y')}ies" if noun.endswith("ry") else f"{count} {noun}s"


def emitted() -> bool:
    """Whether the command has given its JSON document."""
    return bool(_documents)


def progress() -> Progress:
    """A progress display on stderr: spinner, what, bar, count, time."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=stderr,
    )


def configure_logging(verbose: bool) -> None:
    """Send log records to stderr; libraries stay quiet unless `verbose`. AGENTGYM_LOG=json: one JSON object a line."""
    handler = logs.as_json()
    if handler is None:
        handler = RichHandler(console=stderr, show_path=False, show_time=verbose)
        handler.setFormatter(logging.Formatter("%(message)s"))
    logging.basicConfig(level=logging.DEBUG if verbose else logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("agentgym").setLevel(logging.DEBUG if verbose else logging.INFO)
