"""`agentgym store export` and `agentgym store import`: trajectories to and from files."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, cast

import typer
from rich.markup import escape

from agentgym.cli import remote
from agentgym.cli.options import JSON
from agentgym.cli.output import counted, emit, progress
from agentgym.cli.selection import selecting
from agentgym.cli.shared import DEFAULT_STORE, STORE, open_registry
from agentgym.cli.words import words
from agentgym.config import nearest
from agentgym.errors import AgentGymError, InputError
from agentgym.store import Store, TrajectoryFilter
from agentgym.store.transfer import (
    FORMATS,
    IN_WORDS,
    ExportReport,
    Format,
    ImportReport,
    export,
    import_file,
    recorded_transcript,
)


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

    json, atif: a file per trajectory, or one .jsonl file. sft, predictions: one .jsonl file. parquet: one .parquet file, or
    a directory for `datasets.load_dataset`. From a server (--server): one file.
    """
    if format not in FORMATS:
        raise InputError(f"format {format!r} is not known{nearest(format, FORMATS)}")
    if remote.asked():
        with remote.connected() as client:
            client.export(output, format=format, tokenizer=tokenizer, **remote.query_of(where))
        emit({"format": format, "files": [str(output)]}, f"{escape(str(output))}", as_json=as_json)
        return
    with Store.open(store, create=False) as opened, progress() as bars:
        registry = open_registry(store)
        bar = bars.add_task(f"writing {format}", total=opened.count(where))
        report = export(
            opened,
            where,
            cast(Format, format),
            output,
            transcribe=words(opened, registry, where, tokenizer) if format in IN_WORDS else recorded_transcript,
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
    lines += [f"left out {count}: {escape(reason)}" for reason, count in report.left_out.items()]
    return "\n".join(lines)


def _imported(report: ImportReport) -> str:
    lines = [f"{counted(report.added, 'trajectory')} added, {report.known} known already"]
    if report.without_tokens:
        lines.append(f"{report.without_tokens} without token ids: kept to be read, never trained on")
    return "\n".join([*lines, *(f"refused: {escape(one)}" for one in report.refused)])
