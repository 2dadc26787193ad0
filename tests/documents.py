"""The code in docs/ and the README, as tests run it."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of docs/PAGE, or of a page beside docs/."""
    place = ROOT / "docs" / page
    text = (place if place.is_file() else ROOT / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


async def run_block(
    page: str, number: int, *, names: Mapping[str, Any] | None = None, **replaced: str
) -> dict[str, Any]:
    """Run a block as it stands and return its names. names: what its page says is there already. replaced: text by text, for
    what costs too much as it is; each must be in the block."""
    code = blocks(page, "python")[number]
    for old, new in replaced.items():
        assert old in code, f"{page}: block {number} does not hold {old!r}"
        code = code.replace(old, new)
    namespace = dict(names or {})
    compiled = compile(code, f"docs/{page}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if compiled.co_flags & inspect.CO_COROUTINE:
        await eval(compiled, namespace)
    else:
        await asyncio.to_thread(eval, compiled, namespace)
    return namespace
