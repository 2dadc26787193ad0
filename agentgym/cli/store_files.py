"""`agentgym store export` and `agentgym store import`: trajectories to and from files."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.markup import escape

from agentgym.cli.options import JSON
from agentgym.cli.output import counted, emit, progress, stderr
from agentgym.cli.selection import selecting
from agentgym.cli.shared import DEFAULT_STORE, STORE, open_registry
from agentgym.config import nearest
from agentgym.errors import AgentGymError, InputError
from agentgym.models import ModelNotFound
from agentgym.store import Store, TrajectoryFilter
from agentgym.store.transfer import (
    FORMATS,
    ExportReport,
    Format,
    ImportReport,
    Transcribe,
    export,
    import_file,
    recorded_transcript,
)
from agentgym.tasks import Task, TaskError
from agentgym.tasks.registry import Registry

if TYPE_CHECKING:
    from harness.render import GuardedRenderer


def register(group: typer.Typer) -> None:
    group.command("export")(export_command)
    group.command("import")(import_command)


@selecting
def export_command(
    *,
    where: TrajectoryFilter,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="PATH", help="A .jsonl file, or a directory.")],
    format: Annotated[str, typer.Option("--format", metavar="|".join(FORMATS), help="What to write.")] = "json",
    tokenizer: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL", help="Reads what the policy said, for atif and sft (default: the recorded model)."
        ),
    ] = None,
    store: STORE = DEFAULT_STORE,
    as_json: JSON = False,
) -> None:
    """Write trajectories in another format. json and atif come back equal with `store import`.

    json, atif: a file per trajectory, or one .jsonl file. sft, predictions: one .jsonl file. parquet: a directory for
    `datasets.load_dataset`.
    """
    if format not in FORMATS:
        raise InputError(f"format {format!r} is not known{nearest(format, FORMATS)}")
    with Store.open(store, create=False) as opened, progress() as bars:
        registry = open_registry(store)
        bar = bars.add_task(f"writing {format}", total=opened.count(where))
        report = export(
            opened,
            where,
            cast(Format, format),
            output,
            transcribe=_words(opened, registry, where, tokenizer) if format in ("atif", "sft") else recorded_transcript,
            on_progress=lambda _: bars.advance(bar),
        )
        registry.close()
    emit(asdict(report), _exported(report), as_json=as_json)
    if not report.trajectories:
        raise AgentGymError("no trajectory was written", hint="`agentgym store ls` with the same options lists them")


def import_command(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A .json or .jsonl file, or a directory of them.")],
    run_id: Annotated[str | None, typer.Option("--run-id", help="In place of the run they carry.")] = None,
    store: STORE = DEFAULT_STORE,
    as_json: JSON = False,
) -> None:
    """Store trajectories from files: what `store export` wrote as json or atif, or anybody's ATIF.

    ATIF without token ids is stored to be read; no trainer takes it.
    """
    with Store.open(store) as opened:
        report = import_file(opened, path, run_id=run_id)
    emit(asdict(report), _imported(report), as_json=as_json)
    if report.refused:
        raise AgentGymError(f"{counted(len(report.refused), 'document')} could not be taken; the others are stored")


def _exported(report: ExportReport) -> str:
    lines = [f"{counted(report.trajectories, 'trajectory')} as {report.format} ({counted(report.rows, 'row')}):"]
    lines += [f"  {escape(file)}" for file in report.files]
    lines += [f"left out {count}: {reason}" for reason, count in report.left_out.items()]
    return "\n".join(lines)


def _imported(report: ImportReport) -> str:
    lines = [f"{counted(report.added, 'trajectory')} added, {report.known} known already"]
    if report.without_tokens:
        lines.append(f"{report.without_tokens} without token ids: kept to be read, never trained on")
    return "\n".join([*lines, *(f"refused: {escape(one)}" for one in report.refused)])


def _words(opened: Store, registry: Registry, where: TrajectoryFilter, tokenizer: str | None) -> Transcribe:
    from harness.replay.transcript import Transcriber

    def find(digest: str) -> Task:
        return registry.get(digest).load() if digest else _no_task()

    return Transcriber(opened, find, renderer_for(opened, where, tokenizer))


def _no_task() -> Task:
    raise TaskError("it was made on no registered task")


def renderer_for(opened: Store, where: TrajectoryFilter, tokenizer: str | None) -> GuardedRenderer | None:
    """The renderer of the named tokenizer, or of the one model that the selected trajectories were sampled from."""
    from agentgym.cli.policy import load_tokenizer, quiet_transformers
    from harness.render import load_renderer

    names = {summary.model for summary in opened.query(where)} - {""} if tokenizer is None else {tokenizer}
    if tokenizer is None and len(names) != 1:
        what = "several models" if names else "no model"
        stderr.print(f"[yellow]note:[/] {what} sampled these: what was said is left out; name one with --tokenizer")
        return None
    quiet_transformers()
    try:
        return load_renderer(load_tokenizer(names.pop(), None))
    except (ModelNotFound, InputError) as error:
        if tokenizer is not None:
            raise
        stderr.print(f"[yellow]note:[/] {escape(str(error))}\n  what was said is left out; name one with --tokenizer")
        return None
