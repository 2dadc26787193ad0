"""Login, static files, and the page about the API. What needs no token is here, and nothing else is."""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse
from starlette.concurrency import run_in_threadpool

from agentgym.observe.html import style as report_style
from agentgym.server.access.scopes import COOKIE
from agentgym.server.access.tokens import Tokens
from agentgym.server.pages.render import page
from agentgym.server.problem import RequestError

router = APIRouter()
_STATIC = files("agentgym.server") / "static"
_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@router.get("/static/{name:path}")
def static(name: str) -> Response:
    kind = _TYPES.get(name.rpartition(".")[2])
    if name == "report.css":
        return Response(report_style(), media_type="text/css")
    path = _STATIC.joinpath(name) if kind and ".." not in name and "\0" not in name else None
    if path is None or not path.is_file():
        raise RequestError(404, "no such file")
    return FileResponse(str(path), media_type=kind, headers={"Cache-Control": "no-cache"})


@router.get("/login")
def login_page(next: Annotated[str, Query()] = "/") -> HTMLResponse:
    return page("login.html", next=_local(next), refused=False)


@router.post("/login")
async def login(request: Request) -> Response:
    """Take a token from the form and keep it in a cookie that scripts cannot read and other sites cannot send."""
    form = parse_qs((await request.body()).decode("utf-8", "replace"))
    token, target = form.get("token", [""])[0].strip(), _local(form.get("next", ["/"])[0])
    tokens: Tokens = request.app.state.tokens
    if await run_in_threadpool(tokens.check, token) is None:
        refused = page("login.html", next=target, refused=True)
        refused.status_code = 401
        return refused
    response = RedirectResponse(target, status_code=303)
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=secure, max_age=7 * 86_400)
    return response


@router.post("/logout")
def logout() -> Response:
    response = RedirectResponse("/login", status_code=303)
    response.delete_cookie(COOKIE)
    return response


@router.get("/docs")
def docs(request: Request) -> HTMLResponse:
    """The API as a list, from the same document that `/v1/openapi.json` is."""
    document = request.app.openapi()
    routes = [
        {"method": method.upper(), "path": path, "summary": (one.get("description") or "").split("\n\n")[0], "one": one}
        for path, methods in document["paths"].items()
        for method, one in methods.items()
    ]
    return page("docs.html", routes=routes)


def _local(target: str) -> str:
    """A path of ours to go to; anything that a browser could take for another site becomes the first page."""
    return target if target.startswith("/") and not target.startswith(("//", "/\\")) and target.isprintable() else "/"
