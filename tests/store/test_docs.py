"""The reader printed in docs/store.md reads a real store without agentgym."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from agentgym.store import Store

DOCUMENT = Path(__file__).parents[2] / "docs" / "store.md"


def test_the_documented_reader_reads_what_was_written(tmp_path: Path, make_call, make_trajectory) -> None:
    [reader] = [code for code in re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.S) if "def calls" in code]
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
