"""What the gateway answers instead of a completion: one error type, in the words and shapes that clients understand.

400 invalid_request_error    the request cannot be served as asked; `param` names what is wrong
400 context_length_exceeded  the conversation no longer fits
401 invalid_api_key          no key, an unknown one, or that of an episode that is over
403 episode_over             a budget of the episode is spent; clients do not retry this
413 request_too_large
502 policy_failure           the policy's server gave no usable answer; clients retry it
"""

from __future__ import annotations

from typing import Any

from agentgym.errors import AgentGymError


class Refusal(AgentGymError):
    """An HTTP error in OpenAI's shape. status: HTTP status. code, param: as in OpenAI's error body."""

    def __init__(self, status: int, message: str, *, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param

    @property
    def type(self) -> str:
        if self.status >= 500:
            return "server_error"
        return {401: "authentication_error", 403: "permission_error"}.get(self.status, "invalid_request_error")

    def openai(self) -> dict[str, Any]:
        return {"error": {"message": str(self), "type": self.type, "param": self.param, "code": self.code}}

    def anthropic(self) -> dict[str, Any]:
        kind = "api_error" if self.status >= 500 else self.type
        return {"type": "error", "error": {"type": kind, "message": str(self)}}


def unusable(message: str, param: str | None = None) -> Refusal:
    """The request itself is at fault."""
    return Refusal(400, message, param=param)


def unsupported(param: str, value: object, why: str) -> Refusal:
    return Refusal(400, f"{param} = {value!r} is not supported here: {why}", code="unsupported_parameter", param=param)


def unauthorised(why: str) -> Refusal:
    return Refusal(401, f"{why}; each episode has a key of its own", code="invalid_api_key")
