"""The rollout engine with real sandboxes: everything stored at once and once, nothing left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from agentgym.sandbox.protocol import Image, ImageError, ImageSpec, Limits, Sandbox, SandboxBackend, TransportError
from agentgym.store import Store, StoreError, Trajectory
from agentgym.store.records import Termination
from agentgym.tasks import Task
from harness.engine import EventKind, RolloutEvent, run_rollouts
from harness.jobs import Job, plan
from harness.policies.scripted import EMPTY_SCRIPT, ScriptedPolicy, Turn, gold_script
from harness.profile import Profile, load_profile
from harness.render import GuardedRenderer

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("grade_each_patch_once")]

SLOW = (Turn(tool="bash", arguments={"command": "sleep 60"}), *EMPTY_SCRIPT)


@pytest.fixture(scope="session")
def profile() -> Profile:
    return load_profile("tiny")


@pytest.fixture
def store(tmp_path: Path):
    with Store.open(tmp_path / "store.db") as store:
        yield store


@dataclass
class Watched:
    """The real backend, counting what it gives and able to lose the first sandboxes while they are used."""

    backend: SandboxBackend
    lose: int = 0
    live: set[str] = field(default_factory=set)
    most: int = 0

    @property
    def name(self) -> str:
        return self.backend.name

    async def ensure_image(self, spec: ImageSpec) -> Image:
        return await self.backend.ensure_image(spec)

    async def start(self, image: Image, limits: Limits = Limits()) -> Sandbox:
        sandbox = await self.backend.start(image, limits)
        self.live.add(sandbox.id)
        self.most = max(self.most, len(self.live))
        close, run = sandbox.close, sandbox.exec
        lost = self.lose > 0
        self.lose -= lost

        async def closing() -> None:
            await close()
            self.live.discard(sandbox.id)

        async def running(*arguments, **options):
            if lost:
                raise TransportError("the engine died under this sandbox")
            return await run(*arguments, **options)

        sandbox.close, sandbox.exec = closing, running  # type: ignore[method-assign]
        return sandbox


@pytest.fixture
def watched(backend: SandboxBackend) -> Watched:
    return Watched(backend)


@pytest.fixture
def jobs(task: Task, renderer: GuardedRenderer, profile: Profile) -> Callable[..., list[Job]]:
    def make(script: tuple[Turn, ...], name: str = "script", rollouts: int = 1, task: Task = task) -> list[Job]:
        return plan([task], ScriptedPolicy(script, renderer, name=name), renderer, profile, rollouts=rollouts)

    return make


async def test_gold_is_one_empty_is_zero_and_a_second_call_does_nothing(watched, store, jobs, task, profile) -> None:
    todo = [*jobs(gold_script(task, profile), "gold"), *jobs(EMPTY_SCRIPT, "empty")]
    events: list[RolloutEvent] = []

    report = await run_rollouts(todo, run_id="r", store=store, backend=watched, on_event=events.append)

    gold, empty = (store.get(id_) for id_ in report.trajectory_ids)
    assert (gold.policy, gold.reward, gold.termination) == ("gold", 1.0, Termination.SUBMITTED)
    assert (empty.policy, empty.reward, empty.termination) == ("empty", 0.0, Termination.SUBMITTED)
    assert {"queue", "start", "inference", "tool", "grade"} <= set(gold.timings)
    assert store.get_document(profile.digest) == profile.document()
    assert [event.kind for event in events].count(EventKind.STORED) == 2
    assert not watched.live

    events.clear()
    again = await run_rollouts(todo, run_id="r", store=store, backend=watched, on_event=events.append)
    assert (again.ids, again.skipped) == (report.ids, 2)
    assert {event.kind for event in events} == {EventKind.SKIPPED}


async def test_a_run_goes_on_with_exactly_what_is_missing(watched, store, jobs) -> None:
    first = await run_rollouts(jobs(EMPTY_SCRIPT, rollouts=1), run_id="r", store=store, backend=watched)
    both = await run_rollouts(jobs(EMPTY_SCRIPT, rollouts=2), run_id="r", store=store, backend=watched)
    assert both.ids[0] == first.ids[0]
    assert both.skipped == 1
    assert store.count() == 2
    a, b = (store.get(id_) for id_ in both.trajectory_ids)
    assert a.seed != b.seed
    assert a.group_id == b.group_id


async def test_two_processes_on_one_run_leave_each_episode_once(watched, store, jobs, tmp_path) -> None:
    """Given another process that stores job 0 while ours acts in it, and job 2 before ours gets there."""
    todo = jobs(EMPTY_SCRIPT, rollouts=3)
    elsewhere = [await run_rollouts([todo[k]], run_id="r", store=store, backend=watched) for k in (0, 2)]
    theirs = [store.get(one.trajectory_ids[0]) for one in elsewhere]
    with Store.open(tmp_path / "other.db") as shared:

        def on_event(event: RolloutEvent) -> None:
            if event.kind is EventKind.STARTED and event.job.repeat == 0:
                for trajectory in theirs:
                    shared.add(trajectory)

        report = await run_rollouts(todo, run_id="r", store=shared, backend=watched, concurrency=1, on_event=on_event)
        assert (report.skipped, report.failed) == (2, {})
        assert report.ids == [job.trajectory_id("r") for job in todo]
        assert shared.count() == 3
        assert shared.get(theirs[0].id).created_at == theirs[0].created_at


async def test_an_environment_failure_is_run_again_and_leaves_its_reason(watched, store, jobs) -> None:
    watched.lose = 2  # the episode itself replaces a sandbox in which nothing has happened yet, once
    events: list[RolloutEvent] = []
    script = (Turn(tool="bash", arguments={"command": "true"}),) * 2 + EMPTY_SCRIPT
    report = await run_rollouts(
        jobs(script), run_id="r", store=store, backend=watched, environment_retries=2, on_event=events.append
    )
    (trajectory,) = map(store.get, report.trajectory_ids)
    assert trajectory.reward == 0.0
    assert "the engine died" in trajectory.metadata["earlier_failures"][0]
    assert EventKind.RETRYING in {event.kind for event in events}
    assert not watched.live


async def test_a_failure_that_stays_is_stored_without_a_reward_and_can_be_tried_later(watched, store, jobs) -> None:
    watched.lose = 100
    options = {"run_id": "r", "store": store, "backend": watched, "environment_retries": 0}
    report = await run_rollouts(jobs(EMPTY_SCRIPT), **options)
    (failed,) = map(store.get, report.trajectory_ids)
    assert (failed.termination, failed.reward) == (Termination.ENVIRONMENT_FAILURE, None)

    watched.lose = 0
    assert (await run_rollouts(jobs(EMPTY_SCRIPT), **options)).ids == report.ids
    retried = await run_rollouts(jobs(EMPTY_SCRIPT), **options, retry_failed=True)
    (solved,) = map(store.get, retried.trajectory_ids)
    assert solved.reward == 0.0
    assert solved.id != failed.id


async def test_an_image_that_does_not_build_fails_its_jobs_and_no_others(watched, store, jobs, task, tmp_path) -> None:
    (tmp_path / "context").mkdir()
    (tmp_path / "context" / "Dockerfile").write_text("FROM python:3.11-slim-bookworm\nRUN exit 7\n")
    spec = ImageSpec(name="broken", digest="sha256:" + "0" * 64, context=tmp_path / "context")
    broken = replace(task, id="broken", digest="sha256:" + "1" * 64, image=spec)
    todo = [*jobs(EMPTY_SCRIPT, task=broken), *jobs(EMPTY_SCRIPT)]
    report = await run_rollouts(todo, run_id="r", store=store, backend=watched)
    assert report.ids[0] is None
    assert set(report.failed) == {0}
    assert store.get(report.trajectory_ids[0]).task_id == task.id
    with pytest.raises(ImageError):
        await watched.ensure_image(spec)


async def test_cancelling_closes_every_sandbox_and_stores_nothing_unfinished(watched, store, jobs) -> None:
    acting, stored = asyncio.Event(), asyncio.Event()

    def on_event(event: RolloutEvent) -> None:
        if event.kind is EventKind.STORED:
            stored.set()
        if event.phase == "tool" and event.job.policy.name == "script":
            acting.set()

    todo = [*jobs(EMPTY_SCRIPT, "done"), *jobs(SLOW, rollouts=3)]
    run = asyncio.create_task(
        run_rollouts(todo, run_id="r", store=store, backend=watched, concurrency=3, on_event=on_event)
    )
    await asyncio.gather(acting.wait(), stored.wait())
    assert watched.live
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert not watched.live
    (kept,) = store.query()
    assert kept.policy == "done"


async def test_concurrency_bounds_the_sandboxes(watched, store, jobs) -> None:
    script = (Turn(tool="bash", arguments={"command": "sleep 0.5"}), *EMPTY_SCRIPT)
    report = await run_rollouts(jobs(script, rollouts=5), run_id="r", store=store, backend=watched, concurrency=2)
    assert len(report.trajectory_ids) == 5
    assert watched.most == 2


class Refusing(Store):
    """A store on a disk that is full."""

    def add(self, trajectory: Trajectory, harness=None) -> bool:
        raise StoreError("the disk is full")


async def test_a_store_that_refuses_ends_the_run(watched, store, jobs) -> None:
    todo = [*jobs(EMPTY_SCRIPT, "first"), *jobs(SLOW, rollouts=2)]
    with pytest.raises(StoreError, match="disk is full"):
        await run_rollouts(todo, run_id="r", store=Refusing(store.engine), backend=watched, concurrency=3)
    assert not watched.live
