"""Replay: the same actions come back the same, a difference is found where it begins, logprobs are what they were."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agentgym.errors import InputError
from agentgym.models import pull
from agentgym.sandbox.protocol import Image, SandboxBackend
from agentgym.store import Trajectory
from agentgym.store.records import Sampling
from agentgym.tasks import Task
from harness.episode import run_episode
from harness.policies.scripted import EMPTY_SCRIPT, ScriptedPolicy, Turn, gold_script
from harness.policies.torch_policy import TorchPolicy, TorchPolicyConfig
from harness.profile import Profile, load_profile
from harness.render import GuardedRenderer
from harness.replay import Rescorer, reexecute, rescore
from harness.replay.normalise import normalise

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture(scope="session")
def profile() -> Profile:
    return load_profile("tiny")


def bash(command: str) -> Turn:
    return Turn(tool="bash", arguments={"command": command})


@pytest.fixture
def play(task: Task, image: Image, backend: SandboxBackend, renderer: GuardedRenderer, profile: Profile):
    async def run(*turns: Turn) -> Trajectory:
        policy = ScriptedPolicy(turns, renderer)
        return await run_episode(
            task, policy=policy, renderer=renderer, profile=profile, backend=backend, image=image, seed=1
        )

    return run


async def test_a_solution_comes_back_the_same_with_the_same_reward(play, task, backend, profile) -> None:
    noisy = bash("date; echo took 0.$RANDOM s; echo 0x7f3a${RANDOM}b2; mktemp; cd /testbed && ls")
    recorded = await play(noisy, Turn("No call in this one."), *gold_script(task, profile))
    report = await reexecute(recorded, task, backend, profile=profile, regrade=True)
    assert report.identical == len(report.steps) == len(recorded.steps)
    assert report.first_divergence is None
    first, malformed, *rest = report.steps
    assert (first.identical, first.same_bytes) == (True, False)
    assert not malformed.executed
    assert all(step.same_tree for step in rest)
    assert report.same_reward is True


async def test_the_first_divergence_is_shown_as_a_diff(play, task, backend, profile) -> None:
    recorded = await play(bash("echo same"), bash("echo then; false"), bash("echo after"), *EMPTY_SCRIPT)
    changed = replace(recorded.steps[1], observation="now\n[exit code 1]")
    altered = replace(recorded, steps=(recorded.steps[0], changed, *recorded.steps[2:]))
    report = await reexecute(altered, task, backend, profile=profile)
    divergence = report.first_divergence
    assert divergence is not None
    assert divergence.index == 1
    assert "-now" in divergence.diff
    assert "+then" in divergence.diff
    assert report.identical == len(recorded.steps) - 1
    assert report.same_reward is None


async def test_another_exit_code_is_a_difference(play, task, backend, profile) -> None:
    recorded = await play(bash("exit 0"), *EMPTY_SCRIPT)
    altered = replace(recorded, steps=(replace(recorded.steps[0], exit_code=3), *recorded.steps[1:]))
    report = await reexecute(altered, task, backend, profile=profile)
    assert report.first_divergence is not None
    assert "exit code: recorded 3, replayed 0" in report.first_divergence.diff


async def test_another_version_of_the_task_is_refused(play, task, backend, profile) -> None:
    recorded = await play(*EMPTY_SCRIPT)
    with pytest.raises(InputError, match="is now sha256:0000"):
        await reexecute(recorded, replace(task, digest="sha256:" + "0" * 64), backend, profile=profile)


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ("3 passed in 0.12s", "3 passed in 1.05s"),
        ("Sun Nov 29 19:13:26 UTC 2026", "Mon Nov 30 08:00:01 UTC 2026"),
        ("2026-11-29T19:13:26.123Z start", "2026-11-30T01:02:03.9Z start"),
        ("<object at 0x7f3a12b2c0d0>", "<object at 0x7ffee012c0d0>"),
        ("[1] 4242", "[1] 77"),
        ("pid=31 up", "pid=902 up"),
        ("wrote /tmp/tmpk3x_91ab/out.txt", "wrote /tmp/tmpzz81qqab/out.txt"),
        ("real\t0m1.204s", "real\t0m0.900s"),
        ("-rw-r--r-- 1 a a 10 Nov 29 19:13 x.py", "-rw-r--r-- 1 a a 10 Nov  3 07:00 x.py"),
    ],
)
def test_what_means_nothing_is_normalised(then: str, now: str) -> None:
    assert then != now
    assert normalise(then) == normalise(now)


@pytest.mark.parametrize(
    ("then", "now"),
    [("3 passed", "2 passed"), ("x = 1.5", "x = 2.5"), ("line 10", "line 11"), ("0x1f", "0x2f"), ("/tmp/a", "/tmp/b")],
)
def test_what_means_something_is_not(then: str, now: str) -> None:
    assert normalise(then) != normalise(now)


@pytest.fixture(scope="session")
def model_dir() -> Path:
    return pull()


async def test_a_model_trajectory_is_rescored_to_what_was_recorded(
    task, image, backend, renderer, profile, model_dir
) -> None:
    short = {"max_turns": 3, "max_tokens_per_turn": 24}
    document = profile.model_dump()
    quick = Profile.model_validate({**document, "limits": {**document["limits"], **short}})
    policy = TorchPolicy(TorchPolicyConfig(model=str(model_dir)))
    try:
        recorded = await run_episode(
            task, policy=policy, renderer=renderer, profile=quick, backend=backend, image=image, seed=3
        )
    finally:
        await policy.close()
    assert len(recorded.calls) > 1
    report = rescore(recorded, model_dir, version=0)
    assert len(report.recorded) == sum(len(call.generation_token_ids) for call in recorded.calls)
    assert report.max_gap < 2e-4
    assert report.mean_gap <= report.max_gap

    hotter = replace(
        recorded, calls=tuple(replace(call, sampling=Sampling(temperature=1.5)) for call in recorded.calls)
    )
    scorer = Rescorer(model_dir)
    assert scorer.score(hotter).max_gap > 0.01
    other = scorer.score(recorded, version=1)
    assert (len(other.recorded), other.skipped, other.max_gap) == (0, len(report.recorded), 0.0)


async def test_a_script_is_not_rescored(play, model_dir) -> None:
    recorded = await play(*EMPTY_SCRIPT)
    assert np.all(recorded.calls[0].logprobs == 0)
    with pytest.raises(InputError, match="played from a script"):
        Rescorer(model_dir).score(recorded)
