"""Which trajectories a command is about: the same options wherever a store is asked for some.

`@selecting` gives a command function's options those of a `TrajectoryFilter`; the function gets the filter as `where`.
"""

from __future__ import annotations

import functools
import inspect
import re
import time
import typing
from collections.abc import Callable
from typing import Annotated, Any

import typer

from agentgym.config import nearest
from agentgym.errors import InputError
from agentgym.store import TrajectoryFilter
from agentgym.store.records import Termination

_MOST = 2**31 - 1  # of an integer column

_OPTIONS: dict[str, Any] = {
    "run_id": Annotated[str | None, typer.Option("--run-id", help="Only this run.")],
    "task": Annotated[str | None, typer.Option("--task", help="Only this task.")],
    "split": Annotated[str | None, typer.Option("--split", help="Only tasks of this split.")],
    "policy": Annotated[str | None, typer.Option("--policy", help="Only this policy.")],
    "termination": Annotated[list[str], typer.Option("--termination", help="Only episodes that ended so; repeatable.")],
    "reward_min": Annotated[float | None, typer.Option("--reward-min", help="Only rewards of at least this.")],
    "reward_max": Annotated[float | None, typer.Option("--reward-max", help="Only rewards of at most this.")],
    "verdict": Annotated[bool | None, typer.Option("--verdict/--no-verdict", help="With a reward, or without.")],
    "version_min": Annotated[
        int | None, typer.Option("--version-min", min=0, max=_MOST, help="Only versions from this on.")
    ],
    "version_max": Annotated[
        int | None, typer.Option("--version-max", min=0, max=_MOST, help="Only versions up to this.")
    ],
    "harness": Annotated[str | None, typer.Option("--harness", help="Only this harness digest.")],
    "parent": Annotated[str | None, typer.Option("--parent", help="Only children of this trajectory.")],
    "trainable": Annotated[bool, typer.Option("--trainable", help="Only what a trainer may read.")],
    "newer_than": Annotated[
        str | None, typer.Option("--newer-than", metavar="AGE", help="Only younger ones: 90m, 12h, 7d, 4w.")
    ],
    "older_than": Annotated[str | None, typer.Option("--older-than", metavar="AGE", help="Only older ones.")],
}
_AGE = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def selecting(function: Callable[..., None]) -> Callable[..., None]:
    """The command with the filter's options before its own; `function` takes `where`."""

    hints = typing.get_type_hints(function, include_extras=True)
    own = [
        one.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[one.name])
        for one in inspect.signature(function).parameters.values()
        if one.name != "where"
    ]
    taken = [name for name in _OPTIONS if name not in hints]
    added = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default={"termination": [], "trainable": False}.get(name),
            annotation=_OPTIONS[name],
        )
        for name in taken
    ]

    @functools.wraps(function)
    def command(*arguments: Any, **given: Any) -> None:
        chosen = {name: given.pop(name) for name in taken}
        function(*arguments, where=filter_of(**chosen), **given)

    parameters = sorted([*own, *added], key=lambda one: one.default is not inspect.Parameter.empty)
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def filter_of(
    *,
    run_id: str | None = None,
    task: str | None = None,
    split: str | None = None,
    policy: str | None = None,
    termination: list[str] | None = None,
    reward_min: float | None = None,
    reward_max: float | None = None,
    verdict: bool | None = None,
    version_min: int | None = None,
    version_max: int | None = None,
    harness: str | None = None,
    parent: str | None = None,
    trainable: bool = False,
    newer_than: str | None = None,
    older_than: str | None = None,
) -> TrajectoryFilter:
    """The filter these options ask for. Raises InputError for an age or a termination that is none."""
    return TrajectoryFilter(
        run_id=run_id,
        task_id=task,
        split=split,
        policy=policy,
        terminations=tuple(_termination(name) for name in termination or []),
        reward_min=reward_min,
        reward_max=reward_max,
        has_reward=verdict,
        version_min=version_min,
        version_max=version_max,
        harness_digest=harness,
        parent_id=parent,
        trainable=trainable,
        created_after=None if newer_than is None else time.time() - seconds(newer_than),
        created_before=None if older_than is None else time.time() - seconds(older_than),
    )


def options_of(where: TrajectoryFilter) -> dict[str, Any]:
    """The options that ask for this filter: the arguments of `filter_of`, without those that say nothing."""
    now = time.time()
    ages = {"newer_than": where.created_after, "older_than": where.created_before}
    said = {
        "run_id": where.run_id,
        "task": where.task_id,
        "split": where.split,
        "policy": where.policy,
        "termination": [one.value for one in where.terminations] or None,
        "reward_min": where.reward_min,
        "reward_max": where.reward_max,
        "verdict": where.has_reward,
        "version_min": where.version_min,
        "version_max": where.version_max,
        "harness": where.harness_digest,
        "parent": where.parent_id,
        "trainable": where.trainable or None,
        **{name: None if moment is None else f"{max(0.0, now - moment):.0f}s" for name, moment in ages.items()},
    }
    return {name: value for name, value in said.items() if value is not None}


def seconds(age: str) -> float:
    """Seconds of "90m", "12h", "7d" or "4w"."""
    match = _AGE.fullmatch(age.strip())
    if match is None:
        raise InputError(f"{age!r} is no age", hint="a number and a unit: 30s, 90m, 12h, 7d, 4w")
    return float(match[1]) * _SECONDS[match[2]]


def _termination(name: str) -> Termination:
    try:
        return Termination(name)
    except ValueError:
        raise InputError(f"termination {name!r} is not known{nearest(name, list(Termination))}") from None
