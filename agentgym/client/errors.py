"""What a server refused, or that it did not answer."""

from __future__ import annotations

import httpx

from agentgym.errors import AgentGymError


class ServerError(AgentGymError):
    """status: of HTTP, None where there was no answer."""

    def __init__(self, message: str, *, status: int | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.exit_code = 2 if status in (400, 404, 409, 413, 422) else 3 if status in (None, 401, 403, 503) else 1


def refusal(response: httpx.Response) -> ServerError:
    """The error in an answer of 400 and above, whatever stood between us and the server."""
    try:
        problem = response.json()
        detail, hint = str(problem["detail"]), problem.get("hint")
    except (ValueError, KeyError, TypeError):
        detail, hint = response.text[:200] or response.reason_phrase, None
    return ServerError(f"{response.status_code}: {detail}", status=response.status_code, hint=hint)
