"""The released mini-swe-agent, unmodified, on a shipped task in our sandbox, against a real vLLM server: exact evidence.

A model of 135M parameters solves nothing; what counts is that every token it sampled is in the record as it was sampled.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentgym.sandbox import open_backend
from agentgym.store import Store
from agentgym.store.check import check_store
from agentgym.store.records import Termination
from agentgym.store.sequences import sequences
from agentgym.tasks import Task
from harness.engine import run_rollouts
from harness.gateway.agent import mini_swe_agent
from harness.gateway.runner import agent_runner, profile_for
from harness.jobs import plan
from harness.policies.scripted import gold_script
from harness.policies.vllm_policy import VllmPolicy, VllmPolicyConfig
from harness.profile import Limits, load_profile
from harness.render import GuardedRenderer
from harness.replay import rescore


@pytest.fixture(scope="session")
def mini_on_path() -> None:
    """A virtual environment of its own that has mini-swe-agent, since it pins other packages than ours."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(os.environ.get("AGENTGYM_MINI_SWE_AGENT") or cache / "agentgym" / "mini-swe-agent-venv" / "bin")
    if not (folder / "mini").exists():
        pytest.skip(f"no mini-swe-agent: {folder}/mini does not exist (AGENTGYM_MINI_SWE_AGENT names another folder)")
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"


@pytest.fixture
async def served(vllm_url: str) -> AsyncIterator[VllmPolicy]:
    policy = VllmPolicy(VllmPolicyConfig(url=vllm_url))
    yield policy
    await policy.close()


@pytest.mark.vllm
@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("mini_on_path")
async def test_mini_swe_agent_leaves_exact_evidence(
    served: VllmPolicy, untied_dir: Path, task: Task, renderer: GuardedRenderer, tmp_path: Path
) -> None:
    agent = mini_swe_agent()
    profile = profile_for(agent, load_profile("gateway"))
    profile = profile.model_copy(update={"limits": Limits(max_turns=6, max_tokens_per_turn=96, wall_time_s=600)})
    backend = await open_backend("auto", owner="tests-gateway")
    try:
        with Store.open(tmp_path / "store.db") as store:
            async with agent_runner(agent, own_sampling=True) as runner:
                report = await run_rollouts(
                    plan([task], served, renderer, profile, rollouts=2, seed=0),
                    run_id="mini",
                    store=store,
                    backend=backend,
                    episode=runner,
                )
            found = check_store(store)
            trajectories = [store.get(one) for one in report.trajectory_ids]
    finally:
        await backend.close()
    assert found.ok, found
    for trajectory in trajectories:
        assert trajectory.termination in (Termination.INVALID_ACTIONS, Termination.MAX_STEPS, Termination.SUBMITTED), (
            trajectory.error
        )
        assert trajectory.reward is not None
        sampled = sum(len(call.generation_token_ids) for call in trajectory.calls)
        assert sum(one.action_count for one in sequences(trajectory)) == sampled > 0
        assert trajectory.metadata["gateway"]["delivered_fraction"] == 1.0
        assert rescore(trajectory, untied_dir).max_gap <= 1e-3
        print(json.dumps(trajectory.metadata["gateway"]))


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("mini_on_path")
async def test_mini_swe_agent_solves_the_task_in_our_sandbox(typist, task, renderer, tmp_path: Path) -> None:
    """Given a policy that says what the reference solution is, then what mini-swe-agent makes of it is graded 1."""
    *work, _ = gold_script(task)
    for turn in work:
        typist.say("THOUGHT: I write the patch.", ("bash", {"command": turn.arguments["command"]}))
    typist.say("", ("bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}))
    agent = mini_swe_agent()
    backend = await open_backend("auto", owner="tests-gateway")
    try:
        with Store.open(tmp_path / "store.db") as store:
            async with agent_runner(agent) as runner:
                jobs = plan([task], typist, renderer, profile_for(agent, load_profile("gateway")))
                report = await run_rollouts(jobs, run_id="mini", store=store, backend=backend, episode=runner)
            (trajectory,) = map(store.get, report.trajectory_ids)
            assert check_store(store).ok
    finally:
        await backend.close()
    assert (trajectory.termination, trajectory.reward, trajectory.error) == (Termination.SUBMITTED, 1.0, None)
    assert len(sequences(trajectory)) == 1
    assert trajectory.metadata["gateway"]["kept_fraction"] == 1.0
    assert [step.call_index for step in trajectory.steps if step.arguments["command"].startswith("echo COMPL")] == [
        len(trajectory.calls) - 1
    ]
