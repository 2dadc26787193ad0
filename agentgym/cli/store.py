"""`agentgym store`: list, show and check what was recorded; `store_files` and `store_rm` move and remove it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from agentgym.cli import remote, store_files, store_rm
from agentgym.cli.options import JSON
from agentgym.cli.output import counted, emit, progress
from agentgym.cli.selection import options_of, selecting
from agentgym.cli.shared import DEFAULT_STORE, STORE
from agentgym.errors import AgentGymError
from agentgym.store import Store, Trajectory, TrajectoryFilter, TrajectorySummary
from agentgym.store.check import CheckReport, check_store
from agentgym.store.records import ModelCall, Step

if TYPE_CHECKING:
    from agentgym.server.api.models import Summary


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="What was recorded.", no_args_is_help=True, callback=_remote_only)
    group.command("ls")(ls)
    group.command("show")(show)
    group.command("check")(check)
    store_files.register(group)
    store_rm.register(group)
    app.add_typer(group, name="store")


def _remote_only(context: typer.Context) -> None:
    remote.only("store", context.invoked_subcommand, frozenset({"ls", "show", "check", "export"}))


@selecting
def ls(
    *,
    where: TrajectoryFilter,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, newest first.")] = 50,
    store: STORE = DEFAULT_STORE,
    as_json: JSON = False,
) -> None:
    """List trajectories, newest first."""
    damaged: list[str] = []
    if remote.asked():
        with remote.connected() as client:
            query = remote.query_of(where)
            found = list(islice(client.trajectories(on_damaged=damaged.append, **query), limit))
            total, told = client.page(**query, limit=1).total, [one.model_dump() for one in found]
    else:
        where = replace(where, limit=limit, newest_first=True)
        with Store.open(store, create=False) as opened:
            found = list(opened.query(where, on_corrupt=lambda id_, _: damaged.append(id_)))
            total, told = opened.count(where), [asdict(one) for one in found]
    table: RenderableType = _listing(found, total)
    if damaged:
        table = Group(table, escape(f"cannot be read (`agentgym store check` says why): {', '.join(damaged)}"))
    emit({"total": total, "trajectories": told, "damaged": damaged}, table, as_json=as_json)


def show(
    trajectory: Annotated[str, typer.Argument(metavar="TRAJECTORY", help="Id, or the start of one.")],
    tokens: Annotated[bool, typer.Option(help="With token ids and logprobs (JSON only).")] = False,
    store: STORE = DEFAULT_STORE,
    as_json: JSON = False,
) -> None:
    """Show one trajectory: its steps, how it ended, and what the hidden tests said."""
    if remote.asked():
        with remote.connected() as client:
            told = client.trajectory(trajectory)
            record, columns = remote.record_of(told, client.detail(told.id)), told.model_dump()
            calls = [one.model_dump() for one in client.calls(told.id).calls] if tokens else []
    else:
        with Store.open(store, create=False) as opened:
            summary = opened.summary(trajectory)
            record, columns = opened.get(summary.id), asdict(summary)
        calls = [_call_json(call) for call in record.calls] if tokens else []
    document = columns | {
        "verdicts": dict(record.verdicts),
        "reward_vector": dict(record.reward_vector),
        "timings": dict(record.timings),
        "error": record.error,
        "patch": record.patch,
        "step_list": [_step_json(step) for step in record.steps],
    }
    if tokens:
        document["call_list"] = calls
    emit(document, _page(record), as_json=as_json)


@selecting
def check(*, where: TrajectoryFilter, store: STORE = DEFAULT_STORE, as_json: JSON = False) -> None:
    """Prove the token invariants on every trajectory; exit code 1 where one does not hold."""
    if remote.asked():
        remote.launch("check", options_of(where), as_json=as_json)
        return
    report = checked(store, where)
    emit(asdict(report) | {"ok": report.ok}, verdict(report), as_json=as_json)
    if not report.ok:
        raise AgentGymError(
            f"{counted(len(report.faults), 'fault')} in {store}", hint="trajectories named above are not evidence"
        )


def checked(url: str, where: TrajectoryFilter) -> CheckReport:
    """Check a store with a progress bar."""
    with Store.open(url, create=False) as opened, progress() as bars:
        bar = bars.add_task("checking", total=opened.count(where))
        return check_store(opened, where, on_progress=lambda _: bars.advance(bar))


def verdict(report: CheckReport) -> str:
    """The report in a few lines."""
    lines = [f"{escape(fault.trajectory_id or 'database')}: {escape(fault.message)}" for fault in report.faults]
    if report.unsealed:
        lines.append(
            f"{counted(report.unsealed, 'trajectory')} without a seal, as written before there were seals: only tokens are "
            "proved, not that reward, steps and the rest are those that were recorded"
        )
    lines.append(
        f"{counted(report.trajectories, 'trajectory')}, {counted(report.sequences, 'sequence')}, "
        f"{counted(report.tokens, 'token')} "
        f"({report.action_tokens} sampled): {'all invariants hold' if report.ok else 'NOT evidence'}"
    )
    return "\n".join(lines)


def _listing(found: Sequence[TrajectorySummary | Summary], total: int) -> Table:
    table = Table(
        title=f"{len(found)} of {counted(total, 'trajectory')}", title_justify="left", box=None, pad_edge=False
    )
    for heading in ("id", "run", "task", "policy", "ended", "reward", "calls", "steps", "tokens"):
        table.add_column(heading, justify="right" if heading in ("reward", "calls", "steps", "tokens") else "left")
    for one in found:
        reward = "—" if one.reward is None else f"{one.reward:g}"
        cells = (one.id[:8], one.run_id, one.task_id, one.policy, one.termination, reward)
        table.add_row(*map(escape, cells), str(one.calls), str(one.steps), str(one.tokens))
    return table


def _page(record: Trajectory) -> RenderableType:
    head = Table(box=None, show_header=False, pad_edge=False)
    reward = "— (no verdict)" if record.reward is None else f"{record.reward:g}"
    facts = {
        "trajectory": record.id,
        "task": record.task_id,
        "policy": record.policy,
        "ended": record.termination,
        "reward": reward,
        "error": record.error or "",
        "goes on from": f"{record.parent_id} at step {record.branch_step}" if record.parent_id else "",
    }
    for name, value in facts.items():
        if value:
            head.add_row(name, escape(value))
    steps = Table(box=None, pad_edge=False, title="steps", title_justify="left")
    for heading in ("#", "call", "action", "observation"):
        steps.add_column(heading, overflow="fold")
    for number, step in enumerate(record.steps):
        action = f"{step.tool or '(no tool call)'} {dict(step.arguments) if step.arguments else ''}"
        steps.add_row(str(number), str(step.call_index), escape(_short(action)), escape(_short(step.observation)))
    failed = [f"{test}: {said}" for test, said in record.verdicts.items() if said != "passed"]
    passed = len(record.verdicts) - len(failed)
    tests = f"hidden tests: {passed} passed" + "".join(f"\n  {escape(line)}" for line in failed[:20])
    return Group(head, "", steps, "", tests)


def _short(text: str, limit: int = 400) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def _step_json(step: Step) -> dict[str, Any]:
    return asdict(step) | {"arguments": dict(step.arguments)}


def _call_json(call: ModelCall) -> dict[str, Any]:
    return {
        "prompt_token_ids": call.prompt_token_ids.tolist(),
        "generation_token_ids": call.generation_token_ids.tolist(),
        "logprobs": call.logprobs.tolist(),
        "policy_versions": [asdict(span) for span in call.policy_versions],
        "sampling": asdict(call.sampling),
        "finish_reason": call.finish_reason,
        "context_event": call.context_event,
    }
