"""docs/store.md tells the truth: its Python reads a real store, and the reader printed in it does so without agentgym."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from documents import blocks, run_block

from agentgym.store import Store


async def test_a_store_is_read_as_its_page_says(tmp_path: Path, monkeypatch, capsys, make_trajectory) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    with Store.open("runs/agentgym.db") as store:
        store.add(make_trajectory(id="solved", run_id="r1", reward=1.0))
        store.add(make_trajectory(id="failed", run_id="r1", reward=0.0))
    await run_block("store.md", 0)
    assert capsys.readouterr().out.startswith("solved 1.0 ")


def test_the_documented_reader_reads_what_was_written(tmp_path: Path, make_call, make_trajectory) -> None:
    reader = blocks("store.md", "python")[1]
    calls = make_call([1, 2], [3, 4]), make_call([1, 2, 3, 4, 5], [6]), make_call([1, 9], [], event="compacted")
    (tmp_path / "runs").mkdir()
    with Store.open(tmp_path / "runs" / "agentgym.db") as store:
        store.add(make_trajectory(*calls, id="a", steps=(), created_at=1.0))
        store.add(make_trajectory(make_call([70_000], [1]), id="b", steps=(), created_at=2.0))
    exact = "    print([(p.tolist(), g.tolist(), l.tolist()) for p, g, l in calls(blob)])\n"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run(
        [sys.executable, "-c", reader + exact], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert lines[0] == "a [(2, 2), (5, 1), (2, 0)]"
    assert lines[2] == "b [(1, 1)]"
    expected = [(c.prompt_token_ids.tolist(), c.generation_token_ids.tolist(), c.logprobs.tolist()) for c in calls]
    assert lines[1] == str(expected)
