"""Whole episodes of agents that are programs of their own: a real sandbox, a real process, our grade."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from agentgym.store import Store
from agentgym.store.records import Termination
from agentgym.store.sequences import sequences
from harness.engine import run_rollouts
from harness.gateway.agent import Agent, load_agent
from harness.gateway.runner import agent_runner, profile_for
from harness.jobs import Job
from harness.policies.protocol import PolicyError
from harness.policies.scripted import gold_script
from harness.profile import Limits, load_profile
from harness.replay import reexecute

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("grade_each_patch_once")]

LOOP = """
import json, os, urllib.request
import openai

url, key = os.environ["AGENTGYM_GATEWAY_URL"], os.environ["AGENTGYM_EPISODE_KEY"]
tool = {"type": "function", "function": {"name": "bash", "description": "", "parameters": {
    "type": "object", "properties": {"command": {"type": "string"}}}}}

def run(command):
    body = json.dumps({"command": command}).encode()
    request = urllib.request.Request(url + "/episode/exec", body, {"Authorization": "Bearer " + key})
    return json.load(urllib.request.urlopen(request))

client = openai.OpenAI()
messages = [{"role": "user", "content": os.environ["AGENTGYM_INSTRUCTION"]}]
while True:
    answer = client.chat.completions.create(model=os.environ["AGENTGYM_MODEL"], messages=messages, tools=[tool])
    message = answer.choices[0].message
    messages.append(message.model_dump(exclude_none=True))
    if not message.tool_calls:
        break
    for call in message.tool_calls:
        seen = run(json.loads(call.function.arguments)["command"])
        messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(seen)})
"""

ONE_REQUEST = """
import json, os, urllib.request as web
body = json.dumps({"messages": [{"role": "user", "content": "Hello."}]}).encode()
key = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
web.urlopen(web.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, key)).read()
"""


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("agent") / "agent.py"
    file.write_text(LOOP)
    return file


@pytest.fixture
def run(tmp_path, backend, task, renderer, typist):
    """One rollout of an agent; its trajectory, read back from the store."""

    async def rollout(agent: Agent, **limits: object):
        profile = profile_for(agent, load_profile("gateway"))
        profile = profile.model_copy(update={"limits": Limits(**limits)})
        job = Job(task, typist, renderer, profile, seed=1)
        with Store.open(tmp_path / "store.db") as store:
            async with agent_runner(agent) as runner:
                report = await run_rollouts(
                    [job], run_id="r", store=store, backend=backend, environment_retries=0, episode=runner
                )
            return store.get(report.trajectory_ids[0])

    return rollout


async def test_an_agent_solves_the_task_through_the_gateway(run, typist, task, program, backend) -> None:
    *work, _ = gold_script(task)
    for turn in work:
        typist.say("", ("bash", {"command": turn.arguments["command"]}))
    typist.say("That is all.")

    trajectory = await run(load_agent(f"{sys.executable} {program}"))

    assert (trajectory.termination, trajectory.reward, trajectory.error) == (Termination.SUBMITTED, 1.0, None)
    assert len(sequences(trajectory)) == 1
    assert [step.tool for step in trajectory.steps] == ["exec"] * len(work)
    assert [step.call_index for step in trajectory.steps] == list(range(len(work)))
    assert {"queue", "start", "inference", "tool", "grade"} <= set(trajectory.timings)
    assert trajectory.metadata["agent"]["exit_code"] == 0
    assert trajectory.metadata["gateway"]["delivered_fraction"] == 1.0
    profile = load_profile("gateway").model_copy(update={"name": "python"})
    again = await reexecute(trajectory, task, backend, profile=profile, regrade=True)
    assert (again.identical, again.same_reward) == (len(work), True)


async def test_an_agent_that_crashes_is_no_zero(run, typist) -> None:
    trajectory = await run(load_agent("echo no such thing >&2; exit 3"))
    assert (trajectory.termination, trajectory.reward) == (Termination.ENVIRONMENT_FAILURE, None)
    assert "exit code 3" in trajectory.error
    assert "no such thing" in trajectory.error


async def test_an_agent_that_never_asks_is_no_zero(run) -> None:
    trajectory = await run(load_agent("true"))
    assert (trajectory.termination, trajectory.reward) == (Termination.ENVIRONMENT_FAILURE, None)
    assert "without asking" in trajectory.error


async def test_a_policy_that_fails_the_agent_is_no_zero(run, typist, program) -> None:
    for _ in range(3):
        typist.fail(PolicyError("the server is gone"))
    trajectory = await run(load_agent(f"{sys.executable} {program}"))
    assert (trajectory.termination, trajectory.reward) == (Termination.POLICY_FAILURE, None)
    assert "the server is gone" in trajectory.error


async def test_an_agent_that_does_not_end_is_ended_with_all_it_started(run, typist, tmp_path) -> None:
    typist.say("One word.")
    mark = tmp_path / "alive"
    command = f"(while sleep 0.1; do date > {mark}; done) & {sys.executable} -S -c '{ONE_REQUEST}'; sleep 600"
    trajectory = await run(Agent("sleepy", command), wall_time_s=12)
    assert (trajectory.termination, trajectory.reward) == (Termination.TIME_LIMIT, 0.0)
    assert len(trajectory.calls) == 1
    mark.unlink()
    await asyncio.sleep(0.5)
    assert not mark.exists()


async def test_a_budget_ends_an_agent_that_goes_on(run, typist, program) -> None:
    for number in range(4):
        typist.say("", ("bash", {"command": f"echo {number}"}))
    trajectory = await run(load_agent(f"{sys.executable} {program}"), max_turns=3)
    assert (trajectory.termination, trajectory.reward, len(trajectory.calls)) == (Termination.MAX_STEPS, 0.0, 3)
