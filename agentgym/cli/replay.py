"""`agentgym replay`: was a trajectory what it says it was, and what would have come of it otherwise?"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from agentgym.cli import remote
from agentgym.cli.options import JSON
from agentgym.cli.output import counted, emit
from agentgym.cli.output import progress as progress_bars
from agentgym.cli.replay_report import Replayed, document, page
from agentgym.cli.selection import options_of, selecting
from agentgym.cli.shared import BACKEND, DEFAULT_STORE, STORE
from agentgym.errors import AgentGymError, InputError
from agentgym.sandbox import BackendName
from agentgym.store import Store, TrajectoryFilter
from agentgym.store.records import PolicyKind


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """Which parts of a replay are asked for; see the options of `replay`."""

    reexecute: bool
    regrade: bool
    rescore: str | None
    rerender: bool
    progress: bool
    from_step: int | None
    policy: str | None
    tokenizer: str | None
    rollouts: int
    seed: int | None
    into: str
    table: int
    backend: BackendName
    concurrency: int


def register(app: typer.Typer) -> None:
    app.command("replay")(replay)


@selecting
def replay(
    trajectories: Annotated[
        list[str] | None, typer.Argument(metavar="TRAJECTORY", help="Ids, or their first characters; or select below.")
    ] = None,
    *,
    where: TrajectoryFilter,
    reexecute: Annotated[
        bool | None, typer.Option(help="Run the actions again in a fresh sandbox, and compare.")
    ] = None,
    regrade: Annotated[
        bool | None, typer.Option(help="Grade again: the workspace they lead to, else the patch.")
    ] = None,
    rescore: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Compute the logprobs again with this checkpoint or server.")
    ] = None,
    rerender: Annotated[bool, typer.Option("--rerender", help="Would today's harness make the same prompts?")] = False,
    progress: Annotated[
        bool,
        typer.Option(
            "--progress", help="Grade every state it went through: solved when, broken when? Its page shows them."
        ),
    ] = False,
    from_step: Annotated[
        int | None, typer.Option(min=0, metavar="K", help="Keep the steps before K and roll the rest again.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(metavar="MODEL", help="With --from-step: who goes on. Else: only this policy's.")
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="Of the model, where it is not recorded or is a server.")
    ] = None,
    rollouts: Annotated[int, typer.Option(min=1, help="With --from-step: how many.")] = 1,
    seed: Annotated[int, typer.Option(help="With --from-step: every child's seed is derived from it.")] = 0,
    into: Annotated[str, typer.Option(metavar="RUN", help="With --from-step: the run of the children.")] = "",
    table: Annotated[int, typer.Option(help="With --rescore: so many tokens with the largest gaps; -1: all.")] = 0,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many, newest first.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Trajectories at once.")] = 4,
    backend: BACKEND = "auto",
    store: STORE = DEFAULT_STORE,
    as_json: JSON = False,
) -> None:
    """Replay trajectories: their actions, reward, logprobs or prompts again, or their rest with another policy.

    Without any part named, the actions are run again and graded. Exit code 1 where something came back different.
    """
    if remote.asked():
        said = {"trajectory": trajectories or None, "reexecute": reexecute, "regrade": regrade, "rescore": rescore}
        said |= {"rerender": rerender or None, "progress": progress or None, "from_step": from_step, "policy": policy}
        said |= {"tokenizer": tokenizer, "rollouts": rollouts, "seed": seed, "into": into or None, "table": table}
        said |= {"limit": limit, "concurrency": concurrency, "backend": backend, **options_of(where)}
        remote.launch("replay", {key: value for key, value in said.items() if value is not None}, as_json=as_json)
        return
    if from_step is None:
        where = replace(where, policy=policy)
    elif policy is None:
        raise InputError("who goes on from that step?", hint="--policy with a model, a directory or a server's URL")
    if not trajectories and where == TrajectoryFilter() and limit is None:
        raise InputError("which trajectories?", hint="name some, or select them: --run-id, --task, --limit, …")
    named = bool(rescore or rerender or progress or regrade or from_step is not None)
    plan = ReplayPlan(
        reexecute=not named if reexecute is None else reexecute,
        regrade=not named and reexecute is not False if regrade is None else regrade,
        rescore=rescore,
        rerender=rerender,
        progress=progress,
        from_step=from_step,
        policy=policy,
        tokenizer=tokenizer,
        rollouts=rollouts,
        seed=seed,
        into=into or time.strftime("replay-%Y%m%d-%H%M%S"),
        table=table,
        backend=backend,
        concurrency=concurrency,
    )
    if not (plan.reexecute or plan.regrade or named):
        raise InputError("nothing to replay", hint="leave out --no-reexecute, or name a part: --rescore, --rerender, …")
    done = _replay(trajectories or [], replace(where, limit=limit, newest_first=True), plan, store)
    emit(document(done, plan.into if from_step is not None else None), page(done), as_json=as_json)
    different = sum(one.different for one in done)
    if different:
        raise AgentGymError(f"{different} of {counted(len(done), 'trajectory')} did not come back the same")


def _replay(names: list[str], where: TrajectoryFilter, plan: ReplayPlan, url: str) -> list[Replayed]:
    from agentgym.cli.replay_run import Replayer

    with Store.open(url, create=False) as opened:
        ids = [opened.summary(name).id for name in names] or [one.id for one in opened.query(where)]
        if not ids:
            raise InputError("no trajectory fits these options", hint="`agentgym store ls` lists them")
        if plan.rescore and len(ids) == 1 and opened.summary(ids[0]).policy_kind is not PolicyKind.MODEL:
            raise InputError(
                f"trajectory {ids[0][:8]} was played from a script: no model sampled its tokens",
                hint="leave out --rescore",
            )
        with progress_bars() as bars:
            bar = bars.add_task("replaying", total=len(ids))
            replayer = Replayer(plan, opened, url)
            return asyncio.run(replayer.all(ids, on_done=lambda: bars.advance(bar)))
