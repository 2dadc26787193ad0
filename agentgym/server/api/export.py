"""Trajectories as files: streamed, one in memory at a time, so that a store of any size leaves through it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import StreamingResponse

from agentgym.server.access.scopes import needs_read
from agentgym.server.api.query import AStore, Wanted
from agentgym.server.problem import described
from agentgym.store import Store, TrajectoryFilter
from agentgym.store.transfer.document import dumps, to_document
from agentgym.store.transfer.export import HarnessDocuments
from agentgym.store.transfer.rows import LeftOut, prediction_row

router = APIRouter(tags=["trajectories"], dependencies=[Depends(needs_read)], responses=described(401, 403, 422, 429))
_log = logging.getLogger(__name__)


@router.get("/export", response_class=StreamingResponse)
def export_trajectories(
    store: AStore,
    where: Wanted,
    format: Annotated[
        Literal["json", "predictions"], Query(description="What `agentgym store export` calls so.")
    ] = "json",
    limit: Annotated[int | None, Query(ge=1, le=1 << 40, description="At most so many, oldest first.")] = None,
) -> StreamingResponse:
    """Matching trajectories as JSON lines. `json` holds everything, and `agentgym store import` takes it; `predictions` is
    SWE-bench's. What cannot be read is left out and named in the server's log."""
    where = replace(where, newest_first=False, limit=limit)
    lines = _documents(store, where) if format == "json" else _predictions(store, where)
    return StreamingResponse(lines, media_type="application/x-ndjson")


def _documents(store: Store, where: TrajectoryFilter) -> Iterator[str]:
    harness = HarnessDocuments(store)
    for one in store.iter(where):
        yield dumps(to_document(one, harness.document(one.harness_digest))) + "\n"


def _predictions(store: Store, where: TrajectoryFilter) -> Iterator[str]:
    for one in store.iter(where):
        try:
            yield json.dumps(prediction_row(one)) + "\n"
        except LeftOut as reason:
            _log.info("trajectory %s has no prediction: %s", one.id, reason)
