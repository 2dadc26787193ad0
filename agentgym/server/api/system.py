"""Health, metrics, policies, behaviour reports, and the administration of tokens."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated, Any, Literal

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, Field

import agentgym
from agentgym.observe import observe
from agentgym.observe.text import json_safe
from agentgym.server.access.scopes import needs_admin, needs_read
from agentgym.server.access.tokens import Scope, Tokens
from agentgym.server.api.query import AStore, Settings, Wanted
from agentgym.server.problem import RequestError, described
from agentgym.server.repeat import IdempotentRoute
from agentgym.store.engine import reading
from agentgym.store.schema import SCHEMA_VERSION
from agentgym.store.schema import server_audit as audit
from agentgym.store.schema import trajectory as rows

open_router = APIRouter(tags=["system"], responses=described(503))
router = APIRouter(tags=["system"], route_class=IdempotentRoute, responses=described(401, 403, 404, 422, 429))


class Health(BaseModel):
    status: Literal["ok"] = Field(description="`ok` where the store answers.")
    version: str = Field(description="Version of agentgym.")
    schema_version: str = Field(description="Schema of the store.")


class Policy(BaseModel):
    policy: str
    policy_kind: str
    model: str
    episodes: int
    graded: int
    solved: int
    version_min: int | None
    version_max: int | None


class PolicyList(BaseModel):
    items: list[Policy]


class NewToken(BaseModel):
    name: str = Field(description="Whose it is.", min_length=1, max_length=100, examples=["ci"])
    scope: Scope = Field(default="read", description="admin ⊃ run ⊃ read.")
    days: float | None = Field(default=None, gt=0, le=36_500, description="Until it expires; none: never.")


class TokenShown(BaseModel):
    id: str
    name: str
    scope: Scope
    created_at: float
    expires_at: float | None
    revoked_at: float | None
    last_used_at: float | None = Field(description="To the minute.")


class TokenCreated(TokenShown):
    token: str = Field(description="Shown only now; the store keeps its hash.")


class TokenList(BaseModel):
    items: list[TokenShown]


class Write(BaseModel):
    id: int
    at: float
    who: str
    client: str
    method: str
    path: str
    status: int


class AuditPage(BaseModel):
    items: list[Write]
    next: int | None = Field(description="Pass as `before` for the next page; None at the end.")


@open_router.get("/health")
def health(store: AStore) -> Health:
    """Whether the server and its store answer. Needs no token and tells nothing of what is stored."""
    with reading(store.engine) as connection:
        connection.execute(sa.select(sa.literal(1)))
    return Health(status="ok", version=agentgym.__version__, schema_version=SCHEMA_VERSION)


@router.get("/metrics", dependencies=[Depends(needs_read)], response_class=Response)
def metrics(request: Request) -> Response:
    """Prometheus text. Also at `/metrics`."""
    return Response(request.app.state.measures.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/policies", dependencies=[Depends(needs_read)])
def list_policies(store: AStore) -> PolicyList:
    """Who has acted, how often, and how well."""
    by = (rows.c.policy, rows.c.policy_kind, rows.c.model)
    query = sa.select(
        *by,
        sa.func.count().label("episodes"),
        sa.func.count(rows.c.reward).label("graded"),
        sa.func.sum(sa.case((rows.c.reward >= 1, 1), else_=0)).label("solved"),
        sa.func.min(rows.c.version_min).label("version_min"),
        sa.func.max(rows.c.version_max).label("version_max"),
    )
    with reading(store.engine) as connection:
        found = connection.execute(query.group_by(*by).order_by(*by)).mappings().all()
    return PolicyList(items=[Policy(**json_safe(dict(row))) for row in found])


@router.get("/report", dependencies=[Depends(needs_read)])
def get_report(store: AStore, where: Wanted, settings: Settings) -> dict[str, Any]:
    """Behaviour, suspicion and tasks of the matching trajectories: the document of `agentgym report --json`."""
    total = store.count(where)
    if total > settings.report_trajectories:
        raise RequestError(
            422,
            f"{total} trajectories match, and one request reads at most {settings.report_trajectories}",
            hint="narrow the query, or run `agentgym report`",
        )
    return json_safe(asdict(observe(store, replace(where, newest_first=False))))


@router.get("/tokens", dependencies=[Depends(needs_admin)])
def list_tokens(request: Request) -> TokenList:
    """All tokens, without their secrets."""
    return TokenList(items=[TokenShown(**asdict(one)) for one in _tokens(request).list()])


@router.post("/tokens", status_code=201, dependencies=[Depends(needs_admin)])
def create_token(body: NewToken, request: Request) -> TokenCreated:
    """Make a token. An `Idempotency-Key` is refused here: its answer would be kept, secret and all."""
    if "idempotency-key" in request.headers:
        raise RequestError(422, "tokens take no Idempotency-Key: the answer holds a secret, and answers are kept")
    name = json_safe(body.name).replace("\0", "␀")
    text, info = _tokens(request).create(name, body.scope, None if body.days is None else body.days * 86_400)
    return TokenCreated(token=text, **asdict(info))


@router.delete("/tokens/{token_id}", status_code=204, dependencies=[Depends(needs_admin)])
def revoke_token(token_id: str, request: Request) -> None:
    """Revoke a token; other servers on this store may accept it for five seconds more."""
    _tokens(request).revoke(token_id.replace("\0", "␀"))


@router.get("/audit", dependencies=[Depends(needs_admin)])
def list_writes(
    store: AStore,
    before: Annotated[int | None, Query(ge=1, le=1 << 62)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> AuditPage:
    """Every write that was asked for, newest first: who, what, and how it was answered."""
    query = sa.select(audit).order_by(audit.c.id.desc()).limit(limit)
    with reading(store.engine) as connection:
        found = connection.execute(query if before is None else query.where(audit.c.id < before)).mappings().all()
    return AuditPage(items=[Write(**row) for row in found], next=found[-1]["id"] if len(found) == limit else None)


def _tokens(request: Request) -> Tokens:
    return request.app.state.tokens
