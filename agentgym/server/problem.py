"""Every error of the API is one `application/problem+json` document (RFC 9457), whatever raised it.

`title` says what kind of error it is, `detail` what was wrong with what value, `hint` what to do about it. An error
that is no error of ours is a bug: its text stays in the log, and the answer only says so.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from agentgym.errors import AgentGymError, InputError, MachineError
from agentgym.store import NotFoundError

MEDIA_TYPE = "application/problem+json"
_log = logging.getLogger(__name__)


class Problem(BaseModel):
    """RFC 9457."""

    type: str = "about:blank"
    title: str = Field(description="What kind of error.", examples=["Not Found"])
    status: int = Field(examples=[404])
    detail: str = Field(description="What was wrong, with the value that was.", examples=["no trajectory '3f9a'"])
    hint: str | None = Field(default=None, description="What to do about it.")


class RequestError(InputError):
    """A request that is refused with `status`."""

    def __init__(
        self, status: int, message: str, *, hint: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.headers = headers or {}


def problem_response(
    status: int, detail: str, hint: str | None = None, headers: dict[str, str] | None = None
) -> Response:
    content = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail, hint=hint)
    return JSONResponse(
        content.model_dump(exclude_none=True), status_code=status, media_type=MEDIA_TYPE, headers=headers
    )


def described(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """`responses` of a router: what its errors look like in OpenAPI."""
    schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {status: {"description": HTTPStatus(status).phrase, "content": {MEDIA_TYPE: schema}} for status in statuses}


def install(app: FastAPI) -> None:
    app.add_exception_handler(AgentGymError, _ours)
    app.add_exception_handler(RequestValidationError, _unusable)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _bug)


def _ours(request: Request, error: Exception) -> Response:
    assert isinstance(error, AgentGymError)
    if isinstance(error, RequestError):
        if error.status == 401 and request.method == "GET" and _is_page(request):
            return RedirectResponse(f"/login?{urlencode({'next': request.url.path})}", status_code=303)
        return problem_response(error.status, str(error.args[0]), error.hint, error.headers)
    kinds = ((NotFoundError, 404), (MachineError, 503), (InputError, 422))
    status = next((status for kind, status in kinds if isinstance(error, kind)), 500)
    return problem_response(status, str(error.args[0]), error.hint)


def _is_page(request: Request) -> bool:
    return not request.url.path.startswith(("/v1/", "/metrics")) and "text/html" in request.headers.get("accept", "")


def _unusable(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
    return problem_response(422, "; ".join(faults).encode("utf-8", "backslashreplace").decode(), "see /docs")


def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem_response(error.status_code, str(error.detail), headers=dict(error.headers or {}))


def _bug(request: Request, error: Exception) -> Response:
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem_response(500, "the server failed; its log says how")
