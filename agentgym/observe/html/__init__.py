"""The report as one self-contained page: styles and plots inline, no script, nothing loaded from anywhere.

Plots are SVG that the templates write: an interval is a line with a dot on a scale from 0 to 1. Everything recorded is
escaped and made visible; a link to a trajectory needs `base`, the address of a server that shows it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from agentgym.observe.audit import Audit
from agentgym.observe.behaviour import BEHAVIOURS
from agentgym.observe.drift import Drift
from agentgym.observe.summary import MEASURES, Report
from agentgym.observe.suspicion import REASONS
from agentgym.observe.template import TemplateReport
from agentgym.observe.text import visible

MOST_TASKS = 200


def number(value: float | None) -> str:
    """For a reader: three significant digits, thousands apart, a dash for nothing."""
    if value is None or not math.isfinite(value):
        return "—"
    if abs(value) >= 1000 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.3g}"


def share(value: float | None) -> str:
    return "—" if value is None else f"{value:.0%}"


_templates = Environment(
    loader=PackageLoader("agentgym.observe", "html"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters.update(visible=visible, num=number, share=share)


def report_html(
    report: Report,
    *,
    change: Drift | None = None,
    reading: Audit | None = None,
    template: TemplateReport | None = None,
    base: str = "",
) -> str:
    """The page. base: where `agentgym serve` answers, to link trajectories to; "" for no links."""
    return _templates.get_template("report.html").render(**_content(report, change, reading, template, base))


def report_body(report: Report, *, base: str = "", change: Drift | None = None) -> str:
    """Only what stands in the page's body, for a page that has a frame of its own."""
    return _templates.get_template("body.html").render(**_content(report, change, None, None, base))


def style() -> str:
    """The style sheet of the body, for that page."""
    return _templates.get_template("report.css").render()


def _content(
    report: Report, change: Drift | None, reading: Audit | None, template: TemplateReport | None, base: str
) -> dict[str, Any]:
    return {
        "report": report,
        "change": change,
        "reading": reading,
        "template": template,
        "base": base.rstrip("/"),
        "linked": bool(base),
        "words": BEHAVIOURS,
        "measures": MEASURES,
        "reasons": REASONS,
        "tasks": _telling(report.tasks),
        "hidden_tasks": max(0, len(report.tasks) - MOST_TASKS),
    }


def _telling(tasks: Sequence[Any]) -> list[Any]:
    """Tasks that teach (their rewards vary) first."""
    return sorted(tasks, key=lambda row: (-(row.reward_variance or 0), row.task_id))[:MOST_TASKS]
