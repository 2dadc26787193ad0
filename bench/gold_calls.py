"""What a policy of `make learn` thinks of the gold calls of a held-out set: exact, where pass@1 is drawn.

For the start and for what an arm trained: p, the probability of the gold call, mean over the tasks; greedy, the share of tasks
whose gold call is the likeliest token at every place. What p lacks of greedy is what a sharper policy gains without learning any
other mend. kept, won and lost: tasks whose greedy call is the gold one before and after, only after, only before. Other calls
mend a bug as well, so pass@1 lies a little above p. Needs the finished run; the gold calls are made once, by scripted episodes,
in a store of their own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import torch
from rich.console import Console
from rich.table import Table
from transformers import AutoModelForCausalLM

from agentgym.config import parse_config, read_toml
from agentgym.store import Store, TrajectoryFilter
from agentgym.tasks import load_task
from recipes.learn.settings import LearnSettings
from recipes.learn.stages import HELD_OUT, Plan


class GoldCall(NamedTuple):
    task: str
    prompt: list[int]
    tokens: list[int]


class Found(NamedTuple):
    """p: probability of the whole call. greedy: whether each of its tokens is the likeliest."""

    p: float
    greedy: bool


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("settings", nargs="?", type=Path, default=Path("recipes/learn/learn.toml"))
    parser.add_argument("--arm", default="sao")
    parser.add_argument("--set", dest="which", choices=HELD_OUT, default="modules")
    given = parser.parse_args()
    settings = parse_config(LearnSettings, read_toml(given.settings), origin=str(given.settings))
    plan = Plan(settings, given.arm)
    policies = {"start": plan.start(plan.rounds()), "end": plan.published()}
    if missing := [str(path) for path in policies.values() if not (path / "config.json").exists()]:
        sys.exit(f"the run has not left {' or '.join(missing)}: make learn")
    operators = {
        (task := load_task(Path(path))).id: next(tag for tag in task.tags if tag.startswith("operator:"))
        for path in plan.tasks(given.which)
    }
    calls = gold_calls(plan, given.which)
    found = {name: [scored(model, call) for call in calls] for name, model in loaded(policies, settings.precision)}
    before, after = found["start"], found["end"]
    pairs = [(one.greedy, two.greedy) for one, two in zip(before, after, strict=True)]
    result = {"bench": "gold_calls", "arm": given.arm, "set": given.which, "tasks": len(calls)}
    result |= {f"p_{name}": mean([one.p for one in each]) for name, each in found.items()}
    result |= {f"greedy_{name}": mean([one.greedy for one in each]) for name, each in found.items()}
    result |= {"kept": pairs.count((True, True)), "won": pairs.count((False, True)), "lost": pairs.count((True, False))}
    table = Table("", "tasks", "p, start", "p, end", "greedy, start", "greedy, end", title=f"gold calls, {given.which}")
    groups = defaultdict[str, list[int]](list)
    for index, call in enumerate(calls):
        groups[operators[call.task].removeprefix("operator:")].append(index)
        groups["all"].append(index)
    for name, members in sorted(groups.items(), key=lambda group: (group[0] == "all", group[0])):
        own = [[each[index] for index in members] for each in (before, after)]
        ps, greedy = (
            [mean([one.p for one in each]) for each in own],
            [mean([one.greedy for one in each]) for each in own],
        )
        table.add_row(name, str(len(members)), *(f"{value:.3f}" for value in ps + greedy))
    Console(stderr=True).print(table)
    print(json.dumps(result))


def gold_calls(plan: Plan, which: str) -> list[GoldCall]:
    """The one call of each scripted episode, in the tokens of the model."""
    store = plan.out / "gold-calls.db"
    file = plan.write_config(f"gold-calls-{which}", plan.scripted(which, which) | {"store": str(store)})
    command = [sys.executable, "-m", "agentgym", "rollout", "--config", str(file), "--json"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # skips what the store has
    with Store.open(store) as opened:
        rows = sorted(opened.query(TrajectoryFilter(run_id=which)), key=lambda row: row.task_id)
        first = [(row.task_id, opened.get(row.id).calls[0]) for row in rows if row.reward == 1.0]
    return [GoldCall(task, call.prompt_token_ids.tolist(), call.generation_token_ids.tolist()) for task, call in first]


def loaded(policies: dict[str, Path], precision: str):
    """(name, model) one after the other, in the learner's compute type."""
    for name, path in policies.items():
        yield name, AutoModelForCausalLM.from_pretrained(path, dtype=getattr(torch, precision)).eval()


@torch.no_grad()
def scored(model: torch.nn.Module, call: GoldCall) -> Found:
    logits = (
        model(torch.tensor([call.prompt + call.tokens]), logits_to_keep=len(call.tokens) + 1).logits[0, :-1].float()
    )
    tokens = torch.tensor(call.tokens)
    logprobs = logits.log_softmax(-1).gather(1, tokens[:, None])
    return Found(float(logprobs.sum().exp()), bool((logits.argmax(-1) == tokens).all()))


def mean(values: list[float] | list[bool]) -> float:
    return sum(values) / len(values)


if __name__ == "__main__":
    main()
