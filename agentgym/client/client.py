"""One method per thing a program asks of a server."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel

from agentgym.client.errors import ServerError, refusal
from agentgym.server.api.evaluations import Evaluation
from agentgym.server.api.machine import (
    Checkpoint,
    CheckpointList,
    ImageInfo,
    ImageList,
    SandboxInfo,
    SandboxList,
)
from agentgym.server.api.models import CallList, Detail, Summary, SummaryPage, TaskInfo, TaskPage
from agentgym.server.api.runs import Run, RunList
from agentgym.server.api.system import Health, PolicyList
from agentgym.server.api.training import Training
from agentgym.store.transfer import save

TOKEN_VARIABLE = "AGENTGYM_TOKEN"
ATTEMPTS = 4
LONGEST_WAIT = 10.0
PATIENCE = 120.0
"""Seconds without a word from a server whose run is watched, after which it counts as gone."""
_PASSING = (429, 502, 503, 504)
_QUIET = httpx.Timeout(30.0, read=60.0)
"""Of a stream of events: the server says something every 15 s."""
_LONG = httpx.Timeout(30.0, read=600.0)
"""Of an export: a filter may have to pass over many before the first that matches."""
Model = TypeVar("Model", bound=BaseModel)


class Client:
    """url: of the server. token: by default what `AGENTGYM_TOKEN` says. timeout: seconds of one request."""

    def __init__(
        self, url: str, token: str | None = None, *, timeout: float = 30.0, transport: httpx.BaseTransport | None = None
    ) -> None:
        token = token or os.environ.get(TOKEN_VARIABLE)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout, transport=transport)
        except httpx.InvalidURL as error:
            raise ServerError(f"{url!r} is no address of a server: {error}") from error

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def health(self) -> Health:
        return self._get(Health, "/v1/health")

    def page(self, **query: Any) -> SummaryPage:
        """One page of trajectories; the query is that of `GET /v1/trajectories`."""
        return self._get(SummaryPage, "/v1/trajectories", query)

    def trajectories(
        self, *, on_damaged: Callable[[str], object] = lambda id_: None, **query: Any
    ) -> Iterator[Summary]:
        """All matching trajectories, a page at a time. on_damaged: told the ids of those that cannot be read."""
        cursor = None
        while True:
            page = self.page(**{"limit": 200, **query, "cursor": cursor})
            yield from page.items
            for id_ in page.damaged:
                on_damaged(id_)
            cursor = page.next
            if cursor is None:
                return

    def trajectory(self, trajectory_id: str) -> Summary:
        return self._get(Summary, f"/v1/trajectories/{_part(trajectory_id)}")

    def detail(self, trajectory_id: str) -> Detail:
        return self._get(Detail, f"/v1/trajectories/{_part(trajectory_id)}/detail")

    def calls(self, trajectory_id: str) -> CallList:
        return self._get(CallList, f"/v1/trajectories/{_part(trajectory_id)}/calls")

    def report(self, **query: Any) -> dict[str, Any]:
        """The document of `agentgym report --json`."""
        return self._ask("GET", "/v1/report", params=_said(query)).json()

    def policies(self) -> PolicyList:
        return self._get(PolicyList, "/v1/policies")

    def checkpoints(self) -> list[Checkpoint]:
        return self._get(CheckpointList, "/v1/checkpoints").items

    def images(self) -> list[ImageInfo]:
        return self._get(ImageList, "/v1/images").items

    def sandboxes(self) -> list[SandboxInfo]:
        return self._get(SandboxList, "/v1/sandboxes").items

    def evaluation(self, run_id: str, **query: Any) -> Evaluation:
        """pass@k of a run; `split` and `against` as in `GET /v1/evaluations/{run_id}`."""
        return self._get(Evaluation, f"/v1/evaluations/{_part(run_id)}", query)

    def training(self, run_id: str) -> Training:
        return self._get(Training, f"/v1/training/{_part(run_id)}")

    def export(self, path: Path, **query: Any) -> None:
        """Write matching trajectories to a file, whole or not at all; `format` and the rest are as in `GET /v1/export`."""
        try:
            with self._http.stream("GET", "/v1/export", params=_said(query), timeout=_LONG) as stream:
                if stream.status_code >= 400:
                    stream.read()
                    raise refusal(stream)
                save(stream.iter_bytes(), path)
        except httpx.TransportError as error:
            raise _silent(self._http.base_url, error) from error

    def tasks(self, **query: Any) -> Iterator[TaskInfo]:
        cursor = None
        while True:
            page = self._get(TaskPage, "/v1/tasks", {**query, "cursor": cursor})
            yield from page.items
            cursor = page.next
            if cursor is None:
                return

    def task(self, task_id: str) -> TaskInfo:
        return self._get(TaskInfo, f"/v1/tasks/{task_id}")

    def runs(self) -> list[Run]:
        return self._get(RunList, "/v1/runs").items

    def run(self, run_id: str) -> Run:
        return self._get(Run, f"/v1/runs/{_part(run_id)}")

    def launch(self, kind: str, config: Mapping[str, Any] | None = None, *, run_id: str | None = None) -> Run:
        """Start a run on the server; `kind` is a command, `config` its options."""
        return self._post("/v1/runs", {"kind": kind, "config": dict(config or {}), "id": run_id})

    def result(self, run_id: str) -> dict[str, Any]:
        """The document that the command of a run printed at its end."""
        return self._ask("GET", f"/v1/runs/{_part(run_id)}/result").json()

    def stop(self, run_id: str) -> Run:
        return self._post(f"/v1/runs/{_part(run_id)}/stop")

    def resume(self, run_id: str) -> Run:
        return self._post(f"/v1/runs/{_part(run_id)}/resume")

    def log(self, run_id: str, *, tail: int | None = None) -> str:
        """What a launched run said. tail: at most so many bytes of its end."""
        return self._ask("GET", f"/v1/runs/{_part(run_id)}/log", params=_said({"tail": tail})).text

    def watch(self, run_id: str) -> Iterator[Run]:
        """The run whenever it changes, until it is over. A server that is started again meanwhile is asked again."""
        last, heard = None, time.monotonic()
        while True:
            try:
                for run in self._events(run_id):
                    heard = time.monotonic()
                    if run is None:
                        return
                    if run != last:  # each stream begins with all that there is to say
                        yield run
                    last = run
            except (httpx.TransportError, ServerError) as error:
                passing = not isinstance(error, ServerError) or error.status in _PASSING
                if last is None or not passing or time.monotonic() - heard > PATIENCE:
                    raise error if isinstance(error, ServerError) else _silent(self._http.base_url, error) from error
            time.sleep(1)

    def _events(self, run_id: str) -> Iterator[Run | None]:
        """What one stream tells of a run, and None where that was all; a stream may also break off."""
        with self._http.stream("GET", f"/v1/runs/{_part(run_id)}/events", timeout=_QUIET) as stream:
            if stream.status_code >= 400:
                stream.read()
                raise refusal(stream)
            event = ""
            for line in stream.iter_lines():
                if line.startswith("event: "):
                    event = line.removeprefix("event: ")
                elif line.startswith("data: ") and event == "progress":
                    yield Run.model_validate(json.loads(line.removeprefix("data: ")))
                elif event == "end" and not line:
                    yield None

    def _get(self, model: type[Model], path: str, query: Mapping[str, Any] | None = None) -> Model:
        return model.model_validate(self._ask("GET", path, params=_said(query or {})).json())

    def _post(self, path: str, body: Mapping[str, Any] | None = None) -> Run:
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        return Run.model_validate(self._ask("POST", path, json=body, headers=headers).json())

    def _ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Raises ServerError. What passes (no connection, 429, a proxy's 5xx) is tried again."""
        for attempt in range(ATTEMPTS):
            last = attempt == ATTEMPTS - 1
            try:
                response = self._http.request(method, path, **options)
            except httpx.TransportError as error:
                if last:
                    raise _silent(self._http.base_url, error) from error
                wait = 0.2 * 2**attempt
            else:
                if response.status_code < 400:
                    return response
                passing = response.status_code in _PASSING or "retry-after" in response.headers
                wait = float(response.headers.get("retry-after", 0.2 * 2**attempt))
                if last or not passing or wait > LONGEST_WAIT:
                    raise refusal(response)
            time.sleep(wait)
        raise AssertionError("unreachable")


def _said(query: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked: nothing for None; JSON's words for booleans."""
    return {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in query.items()
        if value is not None
    }


def _silent(url: httpx.URL, error: httpx.TransportError) -> ServerError:
    return ServerError(f"{url} does not answer: {error}", hint="agentgym serve")


def _part(text: str) -> str:
    """One part of a path."""
    return quote(text, safe="")
