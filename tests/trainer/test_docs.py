"""docs/training.md tells the truth: its Python takes a step."""

from __future__ import annotations

from pathlib import Path

from documents import run_block

from agentgym.store import Store


async def test_training_from_python_is_as_its_page_says(
    tmp_path, monkeypatch, capsys, policy, policy_dir, sample
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    with Store.open("runs/agentgym.db") as store:
        for seed in range(4):
            store.add(sample(policy, seed=seed, reward=float(seed % 2)))
    await run_block("training.md", 0, **{"smollm2-135m-instruct": str(policy_dir), 'output="runs/train"': _SMALL})
    checkpoint, *_ = capsys.readouterr().out.split()
    assert Path(checkpoint).is_relative_to("runs/train")


_SMALL = 'output="runs/train", steps=1, batch_trajectories=4, value_warmup_steps=1'
