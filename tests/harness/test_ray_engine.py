"""Rollouts in Ray actors: a real local Ray, real sandboxes, one store; the same run as in one process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agentgym.store import Store, TrajectoryFilter
from harness.engine import RolloutReport
from harness.ray_engine import merge


def test_reports_become_one_in_the_order_of_the_jobs() -> None:
    first = RolloutReport(ids=["a", None], failed={1: "no image"}, skipped=1, seconds=2.0, phases={"tool": 1.0})
    second = RolloutReport(ids=["b"], seconds=3.0, phases={"tool": 0.5, "grade": 1.0})
    whole = merge([first, second], [[0, 2], [1]], 3)
    assert (whole.ids, whole.failed, whole.skipped) == (["a", "b", None], {2: "no image"}, 1)
    assert (whole.seconds, whole.phases) == (3.0, {"tool": 1.5, "grade": 1.0})


@pytest.mark.timeout(900)
def test_two_actors_do_a_run_and_a_second_call_does_nothing(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is an extra: pip install 'agentgym[ray]'")
    store = tmp_path / "store.db"
    command = [sys.executable, "-m", "agentgym", "rollout", "tutorial-duration", "--any-status", "--store", str(store)]
    command += ["--policy", "empty", "--run-id", "r", "--executor", "ray", "--actors", "2", "--json"]

    def run(*options: str) -> dict:
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
        if done.returncode == 3:
            pytest.skip(f"no sandbox on this machine: {done.stderr.strip()[-300:]}")
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout)

    assert run("--rollouts", "3")["terminations"] == {"submitted": 3}
    again = run("--rollouts", "3", "--executor", "local")
    assert again["skipped"] == 3
    with Store.open(store, create=False) as opened:
        assert opened.count(TrajectoryFilter(run_id="r", reward_max=0.0)) == 3
