"""What a replay found, as one JSON document and for people: each trajectory, then all of them together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from agentgym.cli.output import counted

if TYPE_CHECKING:
    from agentgym.store.states import WorkspaceStates
    from agentgym.verify.grade import Grade
    from harness.replay import ReexecuteReport, RerenderReport, RescoreReport, TokenGap

_SHOWN = 3
"""Differences that are spelled out when several trajectories are replayed."""


@dataclass(slots=True)
class Replayed:
    """One trajectory's replay; a part that was not asked for is None. text: of the tokens in `table`. children: id,
    termination and reward of each."""

    trajectory_id: str
    task_id: str
    reexecute: ReexecuteReport | None = None
    grade: Grade | None = None
    recorded_reward: float | None = None
    rescore: RescoreReport | None = None
    table: list[TokenGap] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    rerender: RerenderReport | None = None
    progress: WorkspaceStates | None = None
    children: list[tuple[str, str, float | None]] = field(default_factory=list)
    error: str = ""

    @property
    def same_reward(self) -> bool | None:
        """None where there is nothing to compare."""
        if self.grade is None or self.grade.reward is None or self.recorded_reward is None:
            return None
        return self.grade.reward == self.recorded_reward

    @property
    def different(self) -> bool:
        """Whether a step, the reward or a prompt came back different, or the replay could not be done."""
        steps = self.reexecute is not None and self.reexecute.first_divergence is not None
        prompts = self.rerender is not None and bool(self.rerender.differences or self.rerender.stopped)
        return steps or prompts or self.same_reward is False or bool(self.error)


def document(done: Sequence[Replayed], into: str | None) -> dict[str, Any]:
    """into: the run of the children, where there are any."""
    return {
        "trajectories": [_one(result) for result in done],
        "summary": summary(done),
        **({} if into is None else {"run_id": into}),
    }


def summary(done: Sequence[Replayed]) -> dict[str, Any]:
    """Counts and shares over all trajectories; a part nobody asked for is left out."""
    found: dict[str, Any] = {"trajectories": len(done), "failed": sum(bool(one.error) for one in done)}
    runs = [one.reexecute for one in done if one.reexecute]
    if runs:
        steps, same = sum(len(run.steps) for run in runs), sum(run.identical for run in runs)
        found |= {"steps": steps, "identical_steps": same, "identical_step_share": _share(same, steps)}
    rewards = [one.same_reward for one in done if one.same_reward is not None]
    if any(one.grade for one in done):
        found |= {"rewards": len(rewards), "equal_reward_share": _share(sum(rewards), len(rewards))}
    scores = [one.rescore for one in done if one.rescore]
    if scores:
        tokens = sum(len(score.recorded) for score in scores)
        found |= {
            "tokens": tokens,
            "skipped_tokens": sum(score.skipped for score in scores),
            "max_gap": max(score.max_gap for score in scores),
            "mean_gap": sum(score.mean_gap * len(score.recorded) for score in scores) / tokens if tokens else 0.0,
        }
    prompts = [one.rerender for one in done if one.rerender]
    if prompts:
        total, same = sum(one.calls for one in prompts), sum(one.identical for one in prompts)
        found |= {"prompts": total, "identical_prompt_share": _share(same, total)}
    courses = [one.progress for one in done if one.progress]
    if courses:
        found["ever_solved"] = sum(one.solved_at is not None for one in courses)
        found["broken_again"] = sum(one.broken_at is not None for one in courses)
    children = [child for one in done for child in one.children]
    if children:
        found |= {"children": len(children), "ended": dict(Counter(ended for _, ended, _ in children))}
    return found


def page(done: Sequence[Replayed]) -> RenderableType:
    if len(done) == 1:
        return Group(*_lines(done[0]))
    table = Table(title=counted(len(done), "trajectory"), title_justify="left", box=None, pad_edge=False)
    for heading in ("id", "task", "steps the same", "reward", "largest gap", "prompts the same", "children"):
        table.add_column(heading)
    for one in done:
        table.add_row(one.trajectory_id[:8], escape(one.task_id), *_cells(one))
    told: list[RenderableType] = []
    for one in [one for one in done if one.different][:_SHOWN]:
        told += ["", f"[bold]{one.trajectory_id[:8]}[/] {escape(one.task_id)}", *_lines(one)]
    return Group(table, *told, "", _summary_line(summary(done)))


def _summary_line(found: dict[str, Any]) -> str:
    parts = [counted(found["trajectories"], "trajectory")]
    if found["failed"]:
        parts.append(f"{found['failed']} could not be replayed")
    if "steps" in found:
        parts.append(
            f"{found['identical_steps']} of {counted(found['steps'], 'step')} the same{_percent(found, 'step')}"
        )
    if found.get("rewards"):
        parts.append(f"{found['equal_reward_share']:.1%} of {counted(found['rewards'], 'reward')} equal")
    if "tokens" in found:
        parts.append(
            f"logprobs of {counted(found['tokens'], 'token')}: largest gap {found['max_gap']:.2e}, "
            f"mean {found['mean_gap']:.2e}"
        )
    if found.get("prompts"):
        parts.append(f"{found['identical_prompt_share']:.1%} of {counted(found['prompts'], 'prompt')} the same")
    if "ever_solved" in found:
        parts.append(f"{found['ever_solved']} solved at some step, {found['broken_again']} of them broken again")
    if "children" in found:
        parts.append(counted(found["children"], "rollout") + " from there")
    return "; ".join(parts)


def _percent(found: dict[str, Any], what: str) -> str:
    share = found[f"identical_{what}_share"]
    return "" if share is None else f" ({share:.1%})"


def _share(part: int, total: int) -> float | None:
    return part / total if total else None


def _cells(one: Replayed) -> list[str]:
    steps = f"{one.reexecute.identical} of {len(one.reexecute.steps)}" if one.reexecute else ""
    reward = "" if one.grade is None else f"{one.recorded_reward} → {one.grade.reward}"
    gap = "" if one.rescore is None else f"{one.rescore.max_gap:.1e}"
    prompts = f"{one.rerender.identical} of {one.rerender.calls}" if one.rerender else ""
    return [steps, reward, gap, prompts, str(len(one.children) or "")] if not one.error else ["could not be replayed"]


def _lines(one: Replayed) -> list[RenderableType]:
    lines: list[RenderableType] = [escape(one.error)] if one.error else []
    if one.reexecute is not None:
        lines.append(f"{one.reexecute.identical} of {counted(len(one.reexecute.steps), 'step')} came back the same")
        if divergence := one.reexecute.first_divergence:
            lines.append(f"first difference at step {divergence.index} ({escape(divergence.tool)}):")
            lines.append(escape(divergence.diff))
    if one.grade is not None:
        lines.append(f"reward: recorded {one.recorded_reward}, now {one.grade.reward}")
    if one.rescore is not None:
        score = one.rescore
        lines.append(
            f"logprobs of {counted(len(score.recorded), 'token')}: largest gap {score.max_gap:.2e}, "
            f"99 % within {score.quantile(0.99):.2e}, mean {score.mean_gap:.2e}"
        )
        if score.skipped:
            lines.append(f"{counted(score.skipped, 'token')} not compared (another version or sampling)")
        if one.table:
            lines.append(_gap_table(one))
    if one.rerender is not None:
        lines += _prompt_lines(one.rerender)
    if one.progress is not None:
        lines.append(_course(one.progress))
    for child, ended, reward in one.children:
        lines.append(f"{child[:8]}: {ended}, reward {'—' if reward is None else f'{reward:g}'}")
    return lines


def _course(course: WorkspaceStates) -> str:
    executed = counted(len(course.states), "executed step")
    if course.solved_at is None:
        return f"no state of {executed} passes the hidden tests"
    if course.broken_at is None:
        return f"solved at step {course.solved_at}, and still at the end ({executed})"
    return f"solved at step {course.solved_at}, broken at step {course.broken_at} ({executed})"


def _gap_table(one: Replayed) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("call", "token", "id", "text", "recorded", "now", "gap"):
        table.add_column(heading, justify="left" if heading == "text" else "right")
    for row, text in zip(one.table, one.text, strict=True):
        numbers = (f"{row.recorded:.6f}", f"{row.recomputed:.6f}", f"{row.gap:.2e}")
        table.add_row(str(row.call_index), str(row.position), str(row.token_id), escape(repr(text)), *numbers)
    return table


def _prompt_lines(report: RerenderReport) -> list[RenderableType]:
    lines: list[RenderableType] = [f"{report.identical} of {counted(report.calls, 'prompt')} would be the same today"]
    if report.stopped:
        lines.append(f"not compared further: {escape(report.stopped)}")
    if report.differences:
        first = report.differences[0]
        lines += [
            f"first difference in the prompt of call {first.call_index}, at token {first.position}: recorded "
            f"{first.recorded_token} of {first.recorded_length}, today {first.rendered_token} of {first.rendered_length}",
            escape(f"- …{first.recorded!r}…"),
            escape(f"+ …{first.rendered!r}…"),
        ]
    return lines


def _one(result: Replayed) -> dict[str, Any]:
    found: dict[str, Any] = {"trajectory": result.trajectory_id, "task": result.task_id}
    if result.error:
        found["error"] = result.error
    if result.reexecute is not None:
        divergence = result.reexecute.first_divergence
        found["reexecute"] = {
            "steps": len(result.reexecute.steps),
            "identical": result.reexecute.identical,
            "first_divergence": None if divergence is None else {"step": divergence.index, "diff": divergence.diff},
            "seconds": result.reexecute.seconds,
        }
    if result.grade is not None:
        rewards = {"recorded": result.recorded_reward, "now": result.grade.reward, "same": result.same_reward}
        found["regrade"] = rewards | {"error": result.grade.error}
    if result.rescore is not None:
        score = result.rescore
        found["rescore"] = {
            "tokens": len(score.recorded),
            "skipped": score.skipped,
            "max_gap": score.max_gap,
            "mean_gap": score.mean_gap,
            "p99_gap": score.quantile(0.99),
            "table": [asdict(row) | {"text": text} for row, text in zip(result.table, result.text, strict=True)],
        }
    if result.rerender is not None:
        differences = [asdict(one) for one in result.rerender.differences]
        found["rerender"] = {
            "prompts": result.rerender.calls,
            "identical": result.rerender.identical,
            "stopped": result.rerender.stopped,
            "differences": differences,
        }
    if result.progress is not None:
        course = result.progress
        found["progress"] = {
            "solved_at": course.solved_at,
            "broken_at": course.broken_at,
            "last_failed": course.last_failed,
            "states": [asdict(state) for state in course.states],
        }
    if result.children:
        found["children"] = [
            {"trajectory": child, "termination": ended, "reward": reward} for child, ended, reward in result.children
        ]
    return found
