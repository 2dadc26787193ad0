"""How a route asks for a scope: `dependencies=[Depends(needs_run)]`; `Caller` tells who is calling.

A token comes as `Authorization: Bearer …`, or as the cookie that the login page sets (pages only follow links, so a
header is not theirs to send). Where the server runs without authentication, on loopback only, everyone is `local`.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPBearer
from starlette.concurrency import run_in_threadpool

from agentgym.server.access.tokens import Scope, TokenInfo, Tokens
from agentgym.server.problem import RequestError

COOKIE = "agentgym_token"
LOCAL = TokenInfo("local", "local", "admin", 0.0, None, None, None)
_bearer = HTTPBearer(auto_error=False, description="A token of `agentgym token create`.")
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="agentgym"'}


async def caller(request: Request, _: Annotated[object, Depends(_bearer)] = None) -> TokenInfo:
    """Who is calling. Raises a 401 problem for nobody known."""
    if not request.app.state.settings.auth:
        return LOCAL
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    text = given.strip() if scheme.lower() == "bearer" else request.cookies.get(COOKIE, "")
    if not text:
        raise RequestError(401, "a token is needed", hint="agentgym token create", headers=_CHALLENGE)
    tokens: Tokens = request.app.state.tokens
    info = tokens.remembered(text) or await run_in_threadpool(tokens.check, text)
    if info is None:
        raise RequestError(401, "this token is unknown, expired or revoked", headers=_CHALLENGE)
    request.scope["agentgym_caller"] = info
    return info


Caller = Annotated[TokenInfo, Depends(caller)]


def require(info: TokenInfo, scope: Scope) -> None:
    """Raises a 403 problem for a token of less scope."""
    if not info.allows(scope):
        raise RequestError(403, f"token {info.name!r} has scope {info.scope}, and this needs {scope}")


async def needs_read(info: Caller) -> None:
    require(info, "read")


async def needs_run(info: Caller) -> None:
    require(info, "run")


async def needs_admin(info: Caller) -> None:
    require(info, "admin")
