"""Who may do what: every route, every scope; and what is refused before a route runs."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import httpx
import pytest

from agentgym.server import ServerSettings, api, create_app, pages
from agentgym.server.access.tokens import Tokens
from agentgym.server.api import system
from agentgym.server.pages import entry
from agentgym.store import Store

API = [part for part in api.PARTS if part is not system.open_router]
PAGES = [part for part in pages.PARTS if part is not entry.router]
OPEN = {"/health", "/static/{name:path}", "/login", "/logout", "/docs"}
NEEDS = {
    ("POST", "/v1/tasks"): "admin",
    ("GET", "/v1/tokens"): "admin",
    ("POST", "/v1/tokens"): "admin",
    ("DELETE", "/v1/tokens/{token_id}"): "admin",
    ("GET", "/v1/audit"): "admin",
    ("POST", "/v1/sandboxes/reap"): "admin",
    ("POST", "/v1/images"): "run",
    ("POST", "/v1/evaluations"): "run",
    ("POST", "/v1/runs"): "run",
    ("POST", "/v1/runs/{run_id}/stop"): "run",
    ("POST", "/v1/runs/{run_id}/resume"): "run",
}
"""Everything else needs `read`."""
ROUTES = sorted(
    {(method, f"/v1{route.path}") for part in API for route in part.routes for method in route.methods}  # type: ignore[attr-defined]
    | {(method, route.path) for part in PAGES for route in part.routes for method in route.methods}  # type: ignore[attr-defined]
    | {("GET", "/metrics")}
)


def open_client(app, **options) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False, client=("203.0.113.7", 4))
    return httpx.AsyncClient(transport=transport, base_url="http://agentgym.example", **options)


@pytest.fixture
def app(filled, tmp_path):
    return create_app(str(filled), ServerSettings(auth=True, runs_dir=tmp_path / "runs", max_running=0))


@pytest.fixture
async def client(app) -> AsyncIterator[httpx.AsyncClient]:
    async with open_client(app) as opened:
        yield opened


def bearer(app, scope, **options) -> dict[str, str]:
    text, _ = app.state.tokens.create("someone", scope, **options)
    return {"Authorization": f"Bearer {text}"}


def test_only_these_routes_need_no_token() -> None:
    assert {route.path for part in (system.open_router, entry.router) for route in part.routes} == OPEN  # type: ignore[attr-defined]


@pytest.mark.parametrize(("method", "route"), ROUTES)
async def test_every_route_asks_for_its_scope_and_no_less(app, client, method, route) -> None:
    path = route
    for name in ("run_id", "trajectory_id", "token_id", "task_id:path"):
        path = path.replace(f"{{{name}}}", "nothing")
    path = path.replace("{number}", "0")
    needed = NEEDS.get((method, route), "read")
    nobody = await client.request(method, path)
    assert nobody.status_code == 401
    assert nobody.headers["www-authenticate"].startswith("Bearer")
    for scope in ("read", "run", "admin"):
        allowed = ["read", "run", "admin"].index(scope) >= ["read", "run", "admin"].index(needed)
        answer = await client.request(method, path, headers=bearer(app, scope))
        assert (answer.status_code == 403) is not allowed, (scope, answer.status_code, answer.text[:200])
        assert answer.status_code != 401
        assert answer.status_code < 500


async def test_a_run_that_reads_the_servers_disk_needs_an_administrator(app, client) -> None:
    body = {"kind": "import", "config": {"benchmark": "swe-bench", "source": "/etc/passwd"}}
    assert (await client.post("/v1/runs", json=body, headers=bearer(app, "run"))).status_code == 403
    assert (
        await client.post("/v1/runs", json=body, headers=bearer(app, "admin"))
    ).status_code == 429  # none may run here


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer agym_x_y", "Bearer ", "Basic abc", "Bearer agym_\x80_\xff"])
async def test_what_is_no_token_is_nobody(client, given) -> None:
    answer = await client.get("/v1/trajectories", headers={"Authorization": given.encode("latin-1")})
    assert answer.status_code == 401


async def test_a_token_expires_and_can_be_revoked(app, client) -> None:
    spent = bearer(app, "read", lifetime=-1.0)
    assert (await client.get("/v1/trajectories", headers=spent)).status_code == 401
    admin = bearer(app, "admin")
    made = (await client.post("/v1/tokens", json={"name": "ci", "days": 1}, headers=admin)).json()
    mine = {"Authorization": f"Bearer {made['token']}"}
    assert (await client.get("/v1/trajectories", headers=mine)).status_code == 200
    shown = next(
        one for one in (await client.get("/v1/tokens", headers=admin)).json()["items"] if one["id"] == made["id"]
    )
    assert shown["last_used_at"] == pytest.approx(time.time(), abs=60)
    assert shown["expires_at"] == pytest.approx(time.time() + 86_400, abs=60)
    assert (await client.delete(f"/v1/tokens/{made['id']}", headers=admin)).status_code == 204
    assert (await client.get("/v1/trajectories", headers=mine)).status_code == 401
    assert (await client.delete(f"/v1/tokens/{made['id']}", headers=admin)).status_code == 404


async def test_the_store_holds_no_secret(app, client, filled) -> None:
    text, _ = app.state.tokens.create("someone", "admin")
    await client.get("/v1/trajectories", headers={"Authorization": f"Bearer {text}"})
    secret = text.rsplit("_", 1)[1].encode()
    for file in filled.parent.glob(f"{filled.name}*"):
        assert secret not in file.read_bytes()


async def test_another_server_stops_taking_a_revoked_token(app, filled, monkeypatch) -> None:
    text, info = app.state.tokens.create("someone", "read")
    with Store.open(filled) as store:
        other = Tokens(store.engine)
        assert other.check(text)
        app.state.tokens.revoke(info.id)
        monkeypatch.setattr("agentgym.server.access.tokens.TRUST_SECONDS", 0.0)
        assert other.check(text) is None


async def test_a_browser_logs_in_with_a_cookie_and_lands_where_it_wanted(app, client) -> None:
    asked = await client.get("/trajectories/good", headers={"Accept": "text/html"})
    assert (asked.status_code, asked.headers["location"]) == (303, "/login?next=%2Ftrajectories%2Fgood")
    wrong = await client.post("/login", data={"token": "no", "next": "/"})
    assert wrong.status_code == 401
    text, _ = app.state.tokens.create("someone", "read")
    done = await client.post("/login", data={"token": text, "next": "/trajectories/good"})
    assert (done.status_code, done.headers["location"]) == (303, "/trajectories/good")
    assert "httponly" in done.headers["set-cookie"].lower()
    assert "samesite=strict" in done.headers["set-cookie"].lower()
    assert (await client.get("/trajectories/good")).status_code == 200
    assert (await client.post("/v1/runs", json={"kind": "rollout"})).status_code == 403
    evil = await client.post("/login", data={"token": text, "next": "//evil.example"})
    assert evil.headers["location"] == "/"


async def test_writes_are_in_the_audit_log_with_who_and_how_it_ended(app, client) -> None:
    await client.post("/v1/runs", json={"kind": "rollout"})
    admin = bearer(app, "admin")
    await client.post("/v1/tokens", json={"name": "ci"}, headers=admin)
    made, refused = (await client.get("/v1/audit", headers=admin)).json()["items"]
    assert (refused["who"], refused["path"], refused["status"]) == ("nobody", "/v1/runs", 401)
    assert (made["method"], made["status"], made["client"]) == ("POST", 201, "203.0.113.7")
    assert made["who"].startswith("someone (")


async def test_a_page_of_another_site_may_not_write(app, client) -> None:
    admin = bearer(app, "admin")
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
        answer = await client.post("/v1/tokens", json={"name": "x"}, headers=admin | headers)
        assert answer.status_code == 403
    same = {"Origin": "http://agentgym.example", "Sec-Fetch-Site": "same-origin"}
    assert (await client.post("/v1/tokens", json={"name": "x"}, headers=admin | same)).status_code == 201


async def test_without_tokens_only_loopback_names_are_served(filled) -> None:
    async with open_client(create_app(str(filled))) as stranger:  # a name that an attacker rebinds to 127.0.0.1
        assert (await stranger.get("/v1/trajectories")).status_code == 421


async def test_a_body_above_the_limit_is_refused_however_it_is_sent(app, client) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b" " * 65_536

    admin = bearer(app, "admin") | {"Content-Type": "application/json"}
    assert (await client.post("/v1/runs", content=b" " * (1 << 21), headers=admin)).status_code == 413
    assert (await client.post("/v1/runs", content=chunks(), headers=admin)).status_code == 413


async def test_more_requests_than_the_rate_are_told_when_to_come_back(filled) -> None:
    app = create_app(str(filled), ServerSettings(auth=True, requests_per_second=0.001, burst=3))
    async with open_client(app) as client:
        answers = [await client.get("/v1/health") for _ in range(5)]
    assert [one.status_code for one in answers] == [200, 200, 200, 429, 429]
    assert int(answers[-1].headers["retry-after"]) >= 1


async def test_a_post_repeated_under_its_key_acts_once(app, client, task_directory) -> None:
    admin = bearer(app, "admin") | {"Idempotency-Key": "k1"}
    body = {"directory": str(task_directory)}
    first = await client.post("/v1/tasks", json=body, headers=admin)
    again = await client.post("/v1/tasks", json=body, headers=admin)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert again.headers["idempotency-replayed"] == "true"
    other = await client.post("/v1/tasks", json={"directory": "/"}, headers=admin)
    assert other.status_code == 422
    assert "another body" in other.json()["detail"]
    someone = await client.post("/v1/tasks", json=body, headers=bearer(app, "admin") | {"Idempotency-Key": "k1"})
    assert "idempotency-replayed" not in someone.headers
    assert (await client.post("/v1/tokens", json={"name": "x"}, headers=admin)).status_code == 422
