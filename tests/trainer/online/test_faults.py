"""What an online run survives: a learner that is killed, a database that restarts, a policy server that dies and returns.

After each, every finished trajectory is in the store, and none was used twice.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from agentgym.store import Store
from agentgym.store.records import Termination
from harness.policies.vllm_policy import VllmPolicy, VllmPolicyConfig
from harness.render import load_renderer
from trainer import checkpoint
from trainer.online.loop import Parts, train_online
from trainer.online.publisher import publisher_for
from trainer.online.rollouts import Acting
from trainer.run import TrainEvent


def used(output: Path) -> list[str]:
    found = checkpoint.newest(output)
    assert found is not None
    return json.loads((found / "state.json").read_text())["used"]


PROFILE = """
name = "one short turn"
tools = ["bash", "submit"]
[prompts]
system = "Go."
[limits]
max_turns = 1
max_tokens_per_turn = 4
"""


@pytest.mark.timeout(900)
def test_a_learner_that_is_killed_goes_on_and_loses_no_trajectory(tiny_dir, tmp_path: Path, backend) -> None:
    """Given a run killed with SIGKILL in its second update, when it is started again, then it ends its steps; what had
    finished is used or waits, and nothing is used twice."""
    (tmp_path / "profile.toml").write_text(PROFILE)
    store, output = tmp_path / "store.db", tmp_path / "out"
    command = [sys.executable, "-m", "agentgym", "train", "--mode", "async", "--model", str(tiny_dir)]
    command += ["--store", str(store), "--output", str(output), "--tasks", "tutorial-duration", "--any-status"]
    command += ["--profile", str(tmp_path / "profile.toml"), "--batch-trajectories", "2", "--concurrency", "2"]
    command += ["--value-warmup-steps", "1", "--no-tensorboard", "--task-split", "all", "--json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    first = subprocess.Popen([*command, "--steps", "50"], env=environment, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 400
        while checkpoint.newest(output) is None:
            assert first.poll() is None, first.stderr.read() if first.stderr else ""
            assert time.monotonic() < deadline
            time.sleep(0.2)
    finally:
        first.kill()
        first.wait()
    before = used(output)
    with Store.open(store) as opened:
        finished = {summary.id for summary in opened.query()}
    assert set(before) <= finished

    second = subprocess.run([*command, "--steps", "1"], env=environment, capture_output=True, text=True, timeout=400)
    assert second.returncode == 0, second.stderr
    after = used(output)
    assert after[: len(before)] == before
    assert len(after) == len(set(after)) == json.loads(second.stdout)["trajectories_used"]
    with Store.open(store) as opened:
        assert finished <= {summary.id for summary in opened.query()}


@pytest.mark.asyncio(loop_scope="session")
async def test_the_database_restarts_under_a_run(configured, parts_for, postgres, alternating) -> None:
    config = configured(steps=3, store=postgres.url.render_as_string(hide_password=False), patience_s=120)
    stepped = asyncio.Event()

    def on_event(event: TrainEvent) -> None:
        if event.stage == "step":
            stepped.set()

    with Store.open(config.store) as store:
        running = asyncio.create_task(train_online(config, parts_for(config), store, on_event))
        await stepped.wait()
        await asyncio.to_thread(postgres.kill)
        await asyncio.sleep(2)
        await asyncio.to_thread(postgres.start)
        report = await running
        ids = [summary.id for summary in store.query()]
        assert len(ids) == len(set(ids))
        assert set(used(config.output)) <= set(ids)
        assert set(store.metrics(config.run_id)) == {1, 2, 3}
    assert report.step == 3
    assert len(used(config.output)) == len(set(used(config.output))) == 9


@pytest.mark.vllm
@pytest.mark.timeout(1500)
@pytest.mark.asyncio(loop_scope="session")
async def test_the_policy_server_dies_and_returns(
    configured, tiny_dir, task, backend, profile, tiny_server, alternating
) -> None:
    """Given a server killed after the first publish and started again from its first weights, then the run publishes to it
    again, goes on, and every token's version is one that was really served."""
    config = configured(steps=3, server=tiny_server.url, patience_s=600)
    stepped = asyncio.Event()

    def on_event(event: TrainEvent) -> None:
        if event.stage == "step":
            stepped.set()

    policy = VllmPolicy(VllmPolicyConfig(url=tiny_server.url, retries=60), name="policy")
    acting = Acting(policy, load_renderer(AutoTokenizer.from_pretrained(tiny_dir)), profile)
    parts = Parts([task], acting, backend, publisher_for(policy, config))
    with Store.open(config.store) as store:
        running = asyncio.create_task(train_online(config, parts, store, on_event))
        await stepped.wait()
        await asyncio.to_thread(tiny_server.kill)
        await asyncio.to_thread(tiny_server.start)
        report = await running
        versions = {span.version for one in store.iter() for call in one.calls for span in call.policy_versions}
        assert versions <= {0, 1, 2, 3}
        assert max(versions) >= 2
        failed = [one for one in store.query() if one.termination is Termination.POLICY_FAILURE]
        assert not failed, "requests wait for the server instead of failing"
    assert (report.step, policy.version) == (3, 3)
    lines = [json.loads(line) for line in report.metrics_path.read_text().splitlines()]
    assert all(line["publish_gap"] < 1e-3 for line in lines)
    assert all(line["logprob_gap"] < 5e-3 for line in lines if line["staleness_max"] == 0)
    await policy.close()
