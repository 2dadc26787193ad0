"""The whole loop, once, at its smallest: real model, real sandboxes, real grader, one SAO step, replay; and where it leads."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from serving import environment, serving

from agentgym.store import Store, TrajectoryFilter

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")
def ran(tmp_path_factory) -> tuple[Path, str]:
    """The directory that a quickstart was run in, and what it printed."""
    folder = tmp_path_factory.mktemp("quickstart")
    command = [sys.executable, "-m", "agentgym", "quickstart", "tutorial-duration", "--rollouts", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment())
    if done.returncode == 3:
        pytest.skip(f"no sandbox on this machine: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr[-3000:]
    return folder, done.stdout


@pytest.mark.timeout(1200)
def test_the_loop_closes_on_real_input(ran) -> None:
    folder, _ = ran
    output = folder / "runs" / "quickstart"
    summary = json.loads((output / "summary.json").read_text())

    assert (summary["gold_reward"], summary["empty_reward"]) == (1.0, 0.0)
    assert summary["sequences_exact"] is True
    assert summary["logprob_gap"] <= 1e-3
    assert summary["replay"]["executed"] >= 3
    assert summary["replay"]["identical"] == summary["replay"]["steps"]
    assert sum(summary["terminations"].values()) == summary["model_trajectories"] == 1
    assert summary["sao"]["tokens"] > 0
    assert summary["sao"]["kept_fraction"] == 1.0, "on-policy tokens have ratio 1 and are all kept"
    assert (folder / summary["checkpoint"] / "policy" / "model.safetensors").is_file()

    with Store.open(output / "store.db", create=False) as store:
        policies = sorted(one.policy for one in store.query(TrajectoryFilter(run_id=summary["run_id"])))
        assert store.metrics(summary["run_id"]), "its update is found under its run"
    assert policies == ["empty", "gold", "model"]


@pytest.mark.timeout(1200)
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium: agentgym doctor --for tests --fix")
def test_what_is_printed_leads_to_the_tokens_of_a_failed_trajectory(ran) -> None:
    """Only what stands there is typed and opened, from where the quickstart was run."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    folder, printed = ran
    lines = [line.strip() for line in printed.splitlines()]
    [serve] = [line for line in lines if " serve " in line]
    [address] = [line for line in lines if line.startswith("http://")]
    command = shlex.split(serve)
    with socket.socket() as probe:
        if not probe.connect_ex(("127.0.0.1", 8000)):  # another server of this machine: its error names the option
            command += ["--port", "0"]
    began = time.monotonic()
    with serving(folder / "store", command=command) as server, playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(re.sub(r"http://[^/]+", server.url, address))
        page.wait_for_selector("#heat[data-ready]")
        assert "logprob -" in page.locator("#token").inner_text()
        playwright.expect(page.locator("#heat i.s").first).to_be_in_viewport()
        assert any(text.strip() for text in page.locator("#heat i.s").all_inner_texts()[:20]), "text, not ids alone"
        page.get_by_role("link", name="tutorial-duration").click()
        assert page.locator("dl.facts dd.bad").inner_text() == "0"
        browser.close()
    assert time.monotonic() - began < 120

    [show] = [line for line in lines if " store show " in line]
    shown = subprocess.run(
        shlex.split(show), capture_output=True, text=True, check=False, cwd=folder, env=environment()
    )
    assert shown.returncode == 0, shown.stderr
    assert "hidden tests" in shown.stdout
