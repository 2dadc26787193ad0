"""The whole loop, once, at its smallest: real model, real sandboxes, real grader, one SAO step, replay."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agentgym.store import Store, TrajectoryFilter


@pytest.mark.timeout(1200)
def test_the_loop_closes_on_real_input(tmp_path: Path) -> None:
    output = tmp_path / "quickstart"
    command = [sys.executable, "-m", "agentgym", "quickstart", "tutorial-duration", "--rollouts", "1", "--json"]
    done = subprocess.run([*command, "--output", str(output)], capture_output=True, text=True, check=False)
    if done.returncode == 3:
        pytest.skip(f"no sandbox on this machine: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr[-3000:]
    summary = json.loads(done.stdout)
    assert summary == json.loads((output / "summary.json").read_text())

    assert (summary["gold_reward"], summary["empty_reward"]) == (1.0, 0.0)
    assert summary["sequences_exact"] is True
    assert summary["logprob_gap"] <= 1e-3
    assert summary["replay"]["executed"] >= 3
    assert summary["replay"]["identical"] == summary["replay"]["steps"]
    assert sum(summary["terminations"].values()) == summary["model_trajectories"] == 1
    assert summary["sao"]["tokens"] > 0
    assert summary["sao"]["kept_fraction"] == 1.0, "on-policy tokens have ratio 1 and are all kept"
    assert (Path(summary["checkpoint"]) / "policy" / "model.safetensors").is_file()

    with Store.open(output / "store.db", create=False) as store:
        policies = sorted(one.policy for one in store.query(TrajectoryFilter(run_id=summary["run_id"])))
    assert policies == ["empty", "gold", "model"]
