"""Templates and what they may call. Autoescape is unconditional: most of what is shown was written by a policy or a
sandbox, and `visible` makes signs of what a reader could not see."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

import agentgym
from agentgym.observe.html import number, share
from agentgym.observe.text import visible


def _moment(seconds: float | None) -> str:
    if seconds is None:
        return "—"
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return str(seconds)


def _pretty(value: Any) -> str:
    return visible(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def _code(text: str) -> Markup:
    """Our own descriptions: what stands in backticks is code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


_templates = Environment(
    loader=PackageLoader("agentgym.server"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters.update(visible=visible, code=_code, moment=_moment, pretty=_pretty, num=number, share=share)
_templates.globals.update(version=agentgym.__version__)


def page(name: str, **content: Any) -> HTMLResponse:
    return HTMLResponse(_templates.get_template(name).render(**content))
