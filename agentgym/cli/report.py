"""`agentgym report`: what a run did, beside what it earned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from agentgym.cli import remote
from agentgym.cli.options import JSON
from agentgym.cli.output import emit, progress, stderr
from agentgym.cli.selection import selecting
from agentgym.cli.shared import DEFAULT_STORE, STORE
from agentgym.errors import InputError
from agentgym.observe import BEHAVIOURS, Drift, Report, drift, observe
from agentgym.observe.audit import Audit, audit
from agentgym.observe.reading import behaviours
from agentgym.observe.suspicion import REASONS
from agentgym.observe.template import TemplateReport
from agentgym.store import NotFoundError, Store, TrajectoryFilter


def register(app: typer.Typer) -> None:
    app.command("report")(report)


@selecting
def report(
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", help="Run to report on; none: everything.")] = None,
    where: TrajectoryFilter = TrajectoryFilter(),
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write one self-contained HTML page.")
    ] = None,
    against: Annotated[str | None, typer.Option(metavar="RUN", help="Show what changed since this run.")] = None,
    since_version: Annotated[
        int | None, typer.Option(metavar="V", help="Show what changed from versions before V to V and later.")
    ] = None,
    reading: Annotated[
        int | None, typer.Option("--audit", metavar="N", min=1, help="Draw N successes and N failures to read.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the draw.")] = 0,
    template: Annotated[
        str | None, typer.Option("--template-collapse", metavar="MODEL", help="Score prompts with this checkpoint.")
    ] = None,
    server: Annotated[str, typer.Option(metavar="URL", help="Link the page's trajectories to this server.")] = "",
    store: STORE = DEFAULT_STORE,
    as_json: JSON = False,
) -> None:
    """Report on behaviour: success and its intervals, habits, suspicion of reward hacking, drift, a reading list."""
    where = replace(where, run_id=run or where.run_id)
    if remote.asked():
        if output or against or since_version is not None or reading or template:
            raise InputError(
                "of a server, only the report itself", hint=f"its page: {remote.page_of('/runs/RUN/report')}"
            )
        _of_a_server(where, as_json=as_json)
        return
    with Store.open(store, create=False) as opened:
        newer, before = _sides(opened, where, against, since_version)
        found = _observed(opened, newer, _title(where, since_version))
        change = (
            None if before is None else drift(_observed(opened, before, _older(where, against, since_version)), found)
        )
        drawn = None if reading is None else audit(behaviours(opened, newer), reading, seed=seed)
        collapse = None if template is None else _collapse(opened, newer, template)
    if output is not None:
        from agentgym.observe.html import report_html

        output.write_text(report_html(found, change=change, reading=drawn, template=collapse, base=server), "utf-8")
        stderr.print(f"wrote {output}", highlight=False)
    emit(document(found, change, drawn, collapse), _page(found, change, drawn, collapse), as_json=as_json)


def _of_a_server(where: TrajectoryFilter, *, as_json: bool) -> None:
    """The server's own report: its document, or where its page is."""
    with remote.connected() as client:
        found = client.report(**remote.query_of(where))
    success = found["success"]
    rate = "no verdicts" if success["share"] is None else f"{success['share']:.0%} of {success['trials']} solved"
    page = remote.page_of(f"/runs/{quote(where.run_id)}/report") if where.run_id else remote.page_of("/")
    emit(found, f"{found['episodes']} episodes, {rate}: {page}", as_json=as_json)


def document(
    found: Report, change: Drift | None = None, drawn: Audit | None = None, collapse: TemplateReport | None = None
) -> dict[str, Any]:
    """The report as JSON."""
    content = asdict(found)
    for name, part in (("drift", change), ("template_collapse", collapse)):
        if part is not None:
            content[name] = asdict(part)
    if drawn is not None:
        content["audit"] = {
            name: [
                {"id": one.id, "task_id": one.task_id, "flags": [asdict(flag) for flag in one.flags]} for one in part
            ]
            for name, part in (("positive", drawn.positive), ("negative", drawn.negative))
        }
    return content


def _sides(
    store: Store, where: TrajectoryFilter, against: str | None, since_version: int | None
) -> tuple[TrajectoryFilter, TrajectoryFilter | None]:
    """What is reported on, and what it is compared with. Raises NotFoundError for a query that nothing matches."""
    if against and since_version is not None:
        raise InputError("--against and --since-version both say what to compare with", hint="give one")
    newer, before = where, None
    if against:
        before = replace(where, run_id=against)
    elif since_version is not None:
        newer = replace(where, version_min=since_version)
        before = replace(where, version_max=since_version - 1)
    for side in (newer, before):
        if side is not None and not store.count(side):
            raise NotFoundError(
                f"no trajectory matches{f' in run {side.run_id!r}' if side.run_id else ''}",
                hint="`agentgym store ls` lists them",
            )
    return newer, before


def _title(where: TrajectoryFilter, since_version: int | None) -> str:
    name = where.run_id or "everything"
    return name if since_version is None else f"{name}, version {since_version} and later"


def _older(where: TrajectoryFilter, against: str | None, since_version: int | None) -> str:
    return against or f"{where.run_id or 'everything'}, before version {since_version}"


def _observed(store: Store, where: TrajectoryFilter, title: str) -> Report:
    with progress() as bars:
        bar = bars.add_task(f"reading {escape(title)}", total=store.count(where))
        return observe(store, where, title=title, on_progress=lambda: bars.advance(bar))


def _collapse(store: Store, where: TrajectoryFilter, model: str) -> TemplateReport:
    from agentgym.cli.policy import quiet_transformers
    from agentgym.observe.template import template_collapse

    quiet_transformers()
    with progress() as bars:
        bar = bars.add_task("scoring prompts")
        return template_collapse(
            store, where, model, on_progress=lambda done, total: bars.update(bar, completed=done, total=total)
        )


def _page(found: Report, change: Drift | None, drawn: Audit | None, collapse: TemplateReport | None) -> RenderableType:
    parts: list[RenderableType] = [
        f"[bold]{escape(found.title)}[/]: {found.episodes} episodes, success {found.success}, "
        f"{found.ungraded} without a verdict",
        _table("behaviour", [(BEHAVIOURS[one.name], one) for one in found.behaviours if one.episodes]),
        _table("ended", [(one.name, one) for one in found.terminations]),
    ]
    alike = found.shared_outcome
    parts.append(f"tasks that always pass: {alike['all-pass']}; that never do: {alike['all-fail']}")
    if change is not None:
        moved = [one for one in (change.success, *change.shares, *change.means) if one.clear]
        parts.append(f"[bold]changed since {escape(change.before)}[/]" + ("" if moved else ": nothing clearly"))
        parts += [f"  {BEHAVIOURS.get(one.name, one.name)}: {one.before:.3g} → {one.after:.3g}" for one in moved]
    if collapse is not None:
        parts.append(
            f"template collapse: MI {collapse.mutual_information:.2f} of {collapse.bound:.2f} nats, "
            f"retrieval {collapse.retrieval:.0%}, entropy {collapse.entropy:.2f} nats a token"
        )
    if found.reasons:
        parts.append("[bold]suspicion[/] (reasons to read, not verdicts)")
        parts += [f"  {count} × {REASONS[reason]}" for reason, count in found.reasons.items()]
        parts += [
            f"  {one.id[:8]} reward {one.reward} step {step}: {escape(evidence)}"
            for one in found.suspects[:10]
            for _, step, evidence in one.flags[:1]
        ]
    if drawn is not None:
        for name, part in (("succeeded", drawn.positive), ("did not", drawn.negative)):
            parts.append(f"[bold]to read: {len(part)} that {name}[/]")
            parts += [f"  agentgym store show {one.id[:12]}   {escape(one.task_id)}" for one in part]
    return Group(*parts)


def _table(title: str, rows: Sequence[tuple[str, Any]]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for heading in ("what", "episodes", "P(success | it)", "otherwise", "difference"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    for words, one in rows:
        by = one.effect
        effect = "—" if by.value is None else f"{by.value:+.0%} ({by.low:+.0%} to {by.high:+.0%})"
        style = "bold" if by.is_clear else ""
        table.add_row(escape(words), str(one.episodes), str(one.success), str(one.otherwise), effect, style=style)
    return table
