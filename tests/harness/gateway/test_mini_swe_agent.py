"""The released mini-swe-agent, unmodified, on a shipped task in our sandbox, against a real vLLM server: exact evidence.

A model of 135M parameters solves nothing; what counts is that every token it sampled is in the record as it was sampled.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agentgym.cli.main import app
from agentgym.sandbox import open_backend
from agentgym.store import Store
from agentgym.store.check import check_store
from agentgym.store.records import Termination
from agentgym.store.sequences import sequences
from harness.engine import run_rollouts
from harness.gateway.agent import mini_swe_agent
from harness.gateway.runner import agent_runner, profile_for
from harness.jobs import plan
from harness.policies.scripted import gold_script
from harness.profile import load_profile


@pytest.fixture(scope="session")
def mini_on_path() -> None:
    """A virtual environment of its own that has mini-swe-agent, since it pins other packages than ours."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(os.environ.get("AGENTGYM_MINI_SWE_AGENT") or cache / "agentgym" / "mini-swe-agent-venv" / "bin")
    if not (folder / "mini").exists():
        pytest.skip(
            f"no mini-swe-agent: {folder}/mini does not exist (`make test` installs it; AGENTGYM_MINI_SWE_AGENT)"
        )
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"


PROFILE = """
name = "short"
tools = ["exec"]
[prompts]
system = "the agent has its own"
[limits]
max_turns = 6
max_tokens_per_turn = 96
max_context = 4096
wall_time_s = 600
"""


def agentgym(*arguments: object) -> dict[str, Any]:
    """What a user's command prints with --json; it must end with exit code 0."""
    done = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert done.exit_code == 0, f"{arguments}: {done.exception!r}\n{done.output[-3000:]}"
    return json.loads(done.stdout)


@pytest.mark.vllm
@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("mini_on_path")
def test_mini_swe_agent_leaves_exact_evidence(vllm_url: str, untied_dir: Path, tmp_path: Path) -> None:
    """`rollout --agent mini-swe-agent` on a vLLM server; `store check` is clean and `replay --rescore` within 1e-3 nats."""
    store, profile = tmp_path / "store.db", tmp_path / "short.toml"
    profile.write_text(PROFILE)
    policy = ["--agent", "mini-swe-agent", "--model", vllm_url, "--tokenizer", untied_dir, "--own-sampling"]
    run = ["--profile", profile, "--rollouts", 2, "--run-id", "mini", "--store", store, "--any-status"]
    done = agentgym("rollout", "tutorial-duration", *policy, *run)
    assert done["terminations"].keys() <= {"invalid_actions", "max_steps", "submitted"}, done

    found = agentgym("store", "check", "--store", store)
    assert (found["ok"], found["trajectories"]) == (True, 2)
    gaps = agentgym("replay", "--run-id", "mini", "--rescore", untied_dir, "--store", store)["summary"]
    assert gaps["max_gap"] <= 1e-3
    assert (gaps["tokens"], gaps["skipped_tokens"]) == (found["action_tokens"], 0)
    assert gaps["tokens"] > 0
    with Store.open(store) as opened:
        for trajectory in opened.iter():
            assert trajectory.reward is not None
            assert trajectory.metadata["gateway"]["delivered_fraction"] == 1.0


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
