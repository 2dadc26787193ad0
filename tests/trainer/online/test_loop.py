"""Rollouts and updates at once: every trajectory counted and used at most once, versions honest, ends clean."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from agentgym.store import Store
from harness.policies.protocol import PublishError
from trainer import checkpoint
from trainer.online.errors import RolloutsStalled
from trainer.online.loop import train_online
from trainer.run import TrainEvent

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("alternating")]


def silent(event: TrainEvent) -> None:
    pass


async def run(config, parts, on_event: Callable[[TrainEvent], None] = silent):
    with Store.open(config.store) as store:
        return await train_online(config, parts, store, on_event)


def used(config) -> list[str]:
    found = checkpoint.newest(config.output)
    assert found is not None
    return json.loads((found / "state.json").read_text())["used"]


async def test_async_overlaps_both_sides_and_publishes_each_version(configured, parts_for, store) -> None:
    config = configured(steps=3)
    parts = parts_for(config)
    report = await run(config, parts)

    assert (report.steps, report.version, parts.acting.policy.version) == (3, 3, 3)
    assert len(used(config)) == len(set(used(config))) == 9
    lines = [json.loads(line) for line in report.metrics_path.read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3]
    assert all(line["publish_gap"] < 1e-3 for line in lines)
    assert max(line["staleness_max"] for line in lines) <= config.max_staleness
    assert all(line["staleness/0"] > 0 for line in lines[:1])
    stored = {summary.id: summary for summary in store.query()}
    assert set(used(config)) <= set(stored)
    assert max(summary.version_max for summary in stored.values() if summary.version_max is not None) >= 1
    assert all(line["logprob_gap"] < 1e-3 for line in lines if line["staleness_max"] == 0)
    measured = store.metrics(config.run_id)
    assert set(measured) == {1, 2, 3}
    wanted = {
        "train_reward", "train_success", "rollout_tokens_per_second", "learner_idle_fraction", "rollout_idle_fraction",
        "environment_failure_rate", "kept_fraction", "effective_sample_size", "kl", "entropy", "explained_variance",
        "ratio_mean", "ratio_p99", "staleness_max", "termination/max_steps", "tasks_in_band",
    }  # fmt: skip
    assert wanted <= set().union(*measured.values())


async def test_sync_never_trains_on_anything_stale(configured, parts_for, store) -> None:
    config = configured(mode="sync", steps=2)
    report = await run(config, parts_for(config))
    lines = [json.loads(line) for line in report.metrics_path.read_text().splitlines()]
    assert [line["staleness_max"] for line in lines] == [0.0, 0.0]
    assert [line["ratio_mean"] for line in lines] == pytest.approx([1.0, 1.0], abs=1e-4)
    assert store.count() == 6, "nothing is rolled out that no update uses"


async def test_groups_come_whole_and_dynamic_sampling_rolls_on(configured, parts_for, store) -> None:
    """Given groups of two of which some are uniform, when DAPO trains, then uniform ones are counted and replaced."""
    config = configured(
        steps=2, credit="dapo", objective="dapo", group_size=2, batch_trajectories=4, value_warmup_steps=0
    )
    report = await run(config, parts_for(config))
    assert report.steps == 2
    groups: dict[str, list[float]] = {}
    for one in used(config):
        summary = store.summary(one)
        groups.setdefault(summary.group_id, []).append(summary.reward)
    assert all(sorted(rewards) == [0.0, 1.0] for rewards in groups.values())
    assert len(groups) == 4
    assert report.trajectories_dropped["uniform_group"] >= 2


async def test_an_interrupted_run_stops_cleanly_and_goes_on(configured, parts_for, store) -> None:
    config = configured(steps=20)
    stepped = asyncio.Event()

    def on_event(event: TrainEvent) -> None:
        if event.stage == "step":
            stepped.set()

    running = asyncio.create_task(run(config, parts_for(config), on_event))
    await stepped.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    before = used(config)
    known = {summary.id for summary in store.query()}

    report = await run(configured(steps=1), parts_for(config))
    after = used(config)
    assert after[: len(before)] == before
    assert len(after) == len(set(after)) == report.trajectories_used
    assert report.step == report.version
    waiting = known - set(before)
    assert waiting & set(after) or not waiting, "what had finished before is used first"


async def test_a_publish_that_does_not_arrive_ends_the_run_at_the_old_version(configured, parts_for) -> None:
    config = configured()
    parts = parts_for(config)

    class Refusing:
        async def publish(self, run) -> float:
            if run.learner.version:
                raise PublishError("off by 0.06")
            return await parts.publisher.publish(run)

    with pytest.raises(PublishError):
        await run(config, replace(parts, publisher=Refusing()))
    assert parts.acting.policy.version == 0
    found = checkpoint.newest(config.output)
    assert found is not None
    assert found.name == "step-000001", "the update itself is kept"
    [line] = map(json.loads, (config.output / "metrics.jsonl").read_text().splitlines())
    assert (line["step"], "policy_loss" in line) == (1, True), "and so is what it measured"


async def test_a_worker_that_dies_is_replaced(configured, parts_for, monkeypatch) -> None:
    """Given a worker that is killed by something unforeseen, then its episode is run again and nothing is lost."""
    config = configured(steps=1)
    parts = parts_for(config)
    generate, deaths = parts.acting.policy.generate, iter([True])

    async def dying(*arguments, **options):
        if next(deaths, False):
            raise ZeroDivisionError("a bug")
        return await generate(*arguments, **options)

    monkeypatch.setattr(parts.acting.policy, "generate", dying)
    report = await run(config, parts)
    (line,) = [json.loads(line) for line in report.metrics_path.read_text().splitlines()]
    assert line["rollout_worker_deaths"] == 1
    assert report.trajectories_used == 3


async def test_what_kills_every_worker_ends_the_run(configured, parts_for, monkeypatch) -> None:
    config = configured(steps=1, worker_retries=1)
    parts = parts_for(config)

    async def dying(*arguments, **options):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(parts.acting.policy, "generate", dying)
    with pytest.raises(RolloutsStalled, match="killed 2 workers"):
        await run(config, parts)
