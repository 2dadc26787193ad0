"""Trajectories as files: streamed, one in memory at a time, so that a store of any size leaves through it."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import StreamingResponse

from agentgym.models import models_dir
from agentgym.server.access.scopes import needs_read
from agentgym.server.api.query import ARegistry, AStore, Text, Wanted
from agentgym.server.problem import RequestError, described
from agentgym.store.transfer import IN_WORDS, ExportReport, Format, recorded_transcript, stream

LINES = "application/x-ndjson"
PARQUET = "application/vnd.apache.parquet"
_FILE = {"schema": {"type": "string", "format": "binary"}}
router = APIRouter(tags=["trajectories"], dependencies=[Depends(needs_read)], responses=described(401, 403, 422, 429))
_log = logging.getLogger(__name__)


@router.get(
    "/export",
    response_class=StreamingResponse,
    responses={200: {"content": {LINES: _FILE, PARQUET: _FILE}, "description": "The file."}},
)
def export_trajectories(
    request: Request,
    store: AStore,
    registry: ARegistry,
    where: Wanted,
    format: Annotated[Format, Query(description="What `agentgym store export` calls so.")] = "json",
    tokenizer: Annotated[
        Text,
        Query(description="For atif and sft, a model of the server to read what was said with; none: each one's own."),
    ] = None,
    limit: Annotated[int | None, Query(ge=1, le=1 << 40, description="At most so many, oldest first.")] = None,
) -> StreamingResponse:
    """Matching trajectories as one file: JSON lines, or Parquet. `json` and `atif` hold everything, and `agentgym store import`
    takes them; `parquet` has the sequences a learner eats, `sft` conversations, `predictions` SWE-bench's. What a format has no
    room for, and what cannot be read, is left out and counted in the server's log."""
    where = replace(where, newest_first=False, limit=limit)
    words, model = request.app.state.words, _model(tokenizer)
    transcribe = words(store, registry, where, model) if words and format in IN_WORDS else recorded_transcript
    report = ExportReport(format)
    chunks = stream(store, where, format, report, transcribe=transcribe)
    name = f"trajectories.{'parquet' if format == 'parquet' else 'jsonl'}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    media_type = PARQUET if format == "parquet" else LINES
    return StreamingResponse(_counted(chunks, report), media_type=media_type, headers=headers)


def _model(name: str | None) -> str | None:
    """The directory of a model that was pulled; no other place of the server's disk can be named."""
    if name is None:
        return None
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) or not (models_dir() / name).is_dir():
        raise RequestError(422, f"no model {name!r} was pulled on the server", hint="agentgym models pull NAME, there")
    return str(models_dir() / name)


def _counted(chunks: Iterator[bytes], report: ExportReport) -> Iterator[bytes]:
    yield from chunks
    for reason, count in report.left_out.items():
        _log.info("an export as %s left out %d: %s", report.format, count, reason)
