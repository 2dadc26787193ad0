"""`agentgym gateway`: other harnesses act through an OpenAI-compatible endpoint, and leave trajectories like ours."""

from __future__ import annotations

import asyncio
import os
import time

import typer
from pydantic import Field

from agentgym.cli.options import config_command
from agentgym.cli.output import emit, stderr
from agentgym.cli.policy import PolicyChoice, load_policy, load_tokenizer
from agentgym.cli.shared import backend_for, default_store, open_registry, resolve_tasks
from agentgym.sandbox import BackendName
from agentgym.store import Store
from agentgym.tasks import Task, TaskError

KEY_VARIABLE = "AGENTGYM_GATEWAY_KEY"


class GatewayConfig(PolicyChoice):
    """Which policy is served, where, and into which store its episodes go."""

    profile: str = Field("gateway", description="Budgets and sampling: a shipped harness profile or a TOML file.")
    own_sampling: bool = Field(False, description="Sample as the profile says, whatever an agent asks for.")
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8100, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    capacity: int = Field(64, ge=1, description="Episodes open at once; more are refused.")
    backend: BackendName = Field(
        "auto", description="Where commands run; auto: Docker if an engine answers, else local."
    )
    store: str = Field(default_factory=default_store, description="SQLite path or SQLAlchemy URL.")
    run_id: str = Field("", description="Name of the run its episodes belong to (default: the time).")
    any_status: bool = Field(False, description="Also tasks that validation has not found valid.")


def register(app: typer.Typer) -> None:
    config_command(app, GatewayConfig, "gateway")(gateway)


def gateway(config: GatewayConfig, *, as_json: bool) -> None:
    """Serve a policy to other harnesses: episodes are registered, acted in, graded by us, and stored.

    Episodes are registered with the key it prints, or with the one in AGENTGYM_GATEWAY_KEY. Ctrl-C gives up what is open.
    """
    asyncio.run(_serve(config, as_json=as_json))


async def _serve(config: GatewayConfig, *, as_json: bool) -> None:
    from harness.gateway.app import create_app
    from harness.gateway.desk import Desk
    from harness.gateway.gateway import Gateway
    from harness.gateway.server import serving
    from harness.profile import load_profile
    from harness.render import load_renderer

    registry = open_registry(config.store)

    def find(name: str) -> Task:
        task, *others = resolve_tasks([name], registry)
        if others:
            raise TaskError(f"{name!r} names {len(others) + 1} tasks; an episode has one")
        if registry.status(task.digest) != "valid" and not config.any_status:
            raise TaskError(f"{task.id} is not validated, so its reward means nothing")
        return task

    run_id = config.run_id or time.strftime("%Y%m%d-%H%M%S")
    profile = load_profile(config.profile)
    renderer = load_renderer(load_tokenizer(config.model, config.tokenizer))
    policy = load_policy(config.model, config.policy_version)
    served = Gateway()
    async with backend_for(config.backend, owner=f"gateway {run_id}") as backend:
        with Store.open(config.store) as store:
            desk = Desk(
                served,
                store,
                backend,
                policy,
                renderer,
                profile,
                find,
                run_id,
                own_sampling=config.own_sampling,
                capacity=config.capacity,
                key=os.environ.get(KEY_VARIABLE, ""),
            )
            try:
                async with serving(create_app(served, desk), host=config.host, port=config.port) as url:
                    document = {"url": url, "run_id": run_id, "key": desk.key}
                    emit(document, f"{url}  run {run_id}\nkey to register episodes with: {desk.key}", as_json=as_json)
                    stderr.print("[dim]Ctrl-C stops it[/]")
                    await asyncio.Event().wait()
            finally:
                await desk.close()
                await policy.close()
