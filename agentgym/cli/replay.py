"""`agentgym replay`: was a trajectory what it says it was?"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.markup import escape

from agentgym.cli.options import JSON
from agentgym.cli.output import emit, stderr
from agentgym.cli.shared import BACKEND, DEFAULT_STORE, STORE, backend_for, open_registry
from agentgym.errors import AgentGymError, InputError
from agentgym.sandbox import BackendName
from agentgym.store import Store, Trajectory
from agentgym.store.records import PolicyKind

if TYPE_CHECKING:
    from harness.replay import ReexecuteReport, RescoreReport


def register(app: typer.Typer) -> None:
    app.command("replay")(replay)


def replay(
    trajectory: Annotated[str, typer.Argument(metavar="TRAJECTORY", help="Id, or the start of one.")],
    reexecute: Annotated[bool, typer.Option(help="Run its actions again in a fresh sandbox and compare.")] = True,
    regrade: Annotated[bool, typer.Option(help="Also grade the workspace they lead to.")] = True,
    rescore: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Compute its logprobs again with this checkpoint.")
    ] = None,
    backend: BACKEND = "auto",
    store: STORE = DEFAULT_STORE,
    as_json: JSON = False,
) -> None:
    """Replay one trajectory: its actions in a fresh sandbox, its reward, its logprobs.

    Exit code 1 where an observation or the reward came back different.
    """
    if not reexecute and rescore is None:
        raise InputError("nothing to replay", hint="leave out --no-reexecute, or name a checkpoint with --rescore")
    document: dict[str, Any] = {}
    lines: list[RenderableType] = []
    done: ReexecuteReport | None = None
    with Store.open(store, create=False) as opened:
        record = opened.get(trajectory)
        if rescore is not None and record.policy_kind is not PolicyKind.MODEL:  # before minutes of running its actions
            raise InputError(
                f"trajectory {record.id[:8]} was played from a script: no model sampled its tokens",
                hint="leave out --rescore",
            )
        if reexecute:
            done = asyncio.run(_reexecute(record, opened, store, backend, regrade=regrade))
            document["reexecute"] = reexecute_json(done)
            lines += _reexecute_lines(done)
    if rescore is not None:
        from harness.replay import rescore as score

        with stderr.status("computing logprobs again…"):
            gaps = score(record, rescore)
        document["rescore"] = rescore_json(gaps)
        lines.append(
            f"logprobs of {len(gaps.recorded)} tokens: largest gap {gaps.max_gap:.2e}, mean {gaps.mean_gap:.2e}"
        )
    emit({"trajectory": record.id, **document}, Group(*lines), as_json=as_json)
    if done is not None and (done.first_divergence or done.same_reward is False):
        raise AgentGymError(f"trajectory {record.id[:8]} did not come back the same")


async def _reexecute(
    record: Trajectory, opened: Store, url: str, name: BackendName, *, regrade: bool
) -> ReexecuteReport:
    from harness.replay import profile_of
    from harness.replay import reexecute as run

    task = open_registry(url).get(record.task_digest).load()
    async with backend_for(name, owner=f"replay {record.id[:8]}") as backend:
        with stderr.status(f"running {len(record.steps)} steps again…"):
            return await run(record, task, backend, profile=profile_of(record, opened), regrade=regrade)


def reexecute_json(report: ReexecuteReport) -> dict[str, Any]:
    """steps, identical: counts. same_reward: None where there was nothing to compare."""
    divergence = report.first_divergence
    return {
        "steps": len(report.steps),
        "identical": report.identical,
        "same_reward": report.same_reward,
        "first_divergence": None if divergence is None else {"step": divergence.index, "diff": divergence.diff},
        "seconds": report.seconds,
    }


def rescore_json(report: RescoreReport) -> dict[str, Any]:
    return {
        "tokens": len(report.recorded),
        "skipped": report.skipped,
        "max_gap": report.max_gap,
        "mean_gap": report.mean_gap,
    }


def _reexecute_lines(report: ReexecuteReport) -> list[RenderableType]:
    lines: list[RenderableType] = [f"{report.identical} of {len(report.steps)} steps came back the same"]
    if divergence := report.first_divergence:
        lines.append(f"first difference at step {divergence.index} ({escape(divergence.tool)}):")
        lines.append(escape(divergence.diff))
    if report.grade is not None:
        lines.append(f"reward: recorded {report.recorded_reward}, now {report.grade.reward}")
    return lines
