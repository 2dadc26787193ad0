"""Query parameters that several routes share: which trajectories, in which order, and where a page begins.

Dependencies are coroutines although nothing in them waits: a plain function would cost a turn of the thread pool each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Depends, Query, Request
from pydantic import AfterValidator, BeforeValidator
from starlette.concurrency import run_in_threadpool

from agentgym.server.listing import Sort
from agentgym.server.runs.launch import Launcher
from agentgym.server.settings import ServerSettings
from agentgym.store import Store, TrajectoryFilter
from agentgym.store.records import PolicyKind, Termination
from agentgym.tasks import Registry

T = TypeVar("T")
PAGE = 50
_INT64 = (1 << 63) - 1


async def store_of(request: Request) -> Store:
    return request.app.state.store


async def registry_of(request: Request) -> Registry:
    return request.app.state.registry


async def launcher_of(request: Request) -> Launcher:
    return request.app.state.launcher


async def settings_of(request: Request) -> ServerSettings:
    return request.app.state.settings


AStore = Annotated[Store, Depends(store_of)]
ARegistry = Annotated[Registry, Depends(registry_of)]
ALauncher = Annotated[Launcher, Depends(launcher_of)]
Settings = Annotated[ServerSettings, Depends(settings_of)]


async def near(store: Store, read: Callable[..., T], *arguments: Any) -> T:
    """`read(*arguments)` for one row by its key. From an SQLite file that takes less than the way to a thread and back,
    and readers of a WAL never wait; a server across a network is asked from a thread."""
    if store.engine.dialect.name == "sqlite":
        return read(*arguments)
    return await run_in_threadpool(read, *arguments)


def _given(value: Any) -> Any:
    """Nothing where a form field was left blank. NUL and lone surrogates are in no column, and no database compares them."""
    if isinstance(value, list):
        return [one for one in value if one != ""]
    if isinstance(value, str):
        if "\0" in value or not value.isprintable():
            raise ValueError("holds characters that no column has")
        return value or None
    return value


def _bounded(value: int | None) -> int | None:
    if value is not None and not -_INT64 <= value <= _INT64:
        raise ValueError("is beyond 64 bits")
    return value


_given_first = BeforeValidator(_given)
Text = Annotated[str | None, _given_first]
Number = Annotated[float | None, _given_first]
Whole = Annotated[int | None, _given_first, AfterValidator(_bounded)]


async def wanted(
    run_id: Annotated[Text, Query(examples=["quickstart"])] = None,
    group_id: Text = None,
    task_id: Text = None,
    task_digest: Text = None,
    split: Text = None,
    policy: Text = None,
    policy_kind: Annotated[PolicyKind | None, _given_first] = None,
    model: Text = None,
    backend: Text = None,
    harness_digest: Text = None,
    parent_id: Text = None,
    termination: Annotated[list[Termination], _given_first, Query(description="Any of these.")] = [],  # noqa: B006
    reward_min: Number = None,
    reward_max: Number = None,
    has_reward: Annotated[bool | None, _given_first] = None,
    version_min: Whole = None,
    version_max: Whole = None,
    created_after: Annotated[Number, Query(description="Unix seconds, inclusive.")] = None,
    created_before: Annotated[Number, Query(description="Unix seconds, exclusive.")] = None,
    trainable: Annotated[bool, Query(description="Only what a trainer reads.")] = False,
) -> TrajectoryFilter:
    return TrajectoryFilter(
        run_id=run_id,
        group_id=group_id,
        task_id=task_id,
        task_digest=task_digest,
        split=split,
        policy=policy,
        policy_kind=policy_kind,
        model=model,
        backend=backend,
        harness_digest=harness_digest,
        parent_id=parent_id,
        terminations=tuple(termination),
        reward_min=reward_min,
        reward_max=reward_max,
        has_reward=has_reward,
        version_min=version_min,
        version_max=version_max,
        created_after=created_after,
        created_before=created_before,
        trainable=trainable,
        newest_first=True,
    )


Wanted = Annotated[TrajectoryFilter, Depends(wanted)]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page begins and how long it is."""

    sort: Sort
    descending: bool
    cursor: str | None
    limit: int


async def place(
    sort: Annotated[Sort, Query(description="By what.")] = "created_at",
    order: Annotated[Literal["desc", "asc"], Query(description="Largest or newest first, or last.")] = "desc",
    cursor: Annotated[Text, Query(description="`next` of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = PAGE,
) -> Place:
    return Place(sort, order == "desc", cursor, limit)


APlace = Annotated[Place, Depends(place)]
