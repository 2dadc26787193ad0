"""What came of it: summary.json, plots, and beforehand what memory it takes."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from pathlib import Path
from typing import Any

from agentgym.errors import InputError
from agentgym.models import resolve
from agentgym.observe.success import Outcomes, compare
from agentgym.store import Store, TrajectoryFilter
from recipes.learn.plots import draw
from recipes.learn.settings import LearnSettings
from recipes.learn.stages import HELD_OUT, Plan, by_family


def summarise(plan: Plan) -> Path:
    """Write OUTPUT/summary.json (arm "sao") or summary-ARM.json, and the plots; returns the summary's path.

    Raises InputError where a held-out set was answered by more than one policy: a run that went on from other weights.
    """
    settings, arm = plan.settings, plan.arm
    lines = [json.loads(line) for line in (plan.out / arm / "metrics.jsonl").read_text().splitlines()]
    with Store.open(settings.store) as store:
        outcomes = {(who, which): _of_one_policy(store, f"{who}-{which}") for who in ("sft", arm) for which in HELD_OUT}
        episodes = store.count(TrajectoryFilter(run_id=arm))
    stages = {path.stem: json.loads(path.read_text()) for path in sorted((plan.out / "stages").glob("*.json"))}
    own = {name: found for name, found in stages.items() if name.split("-")[0] not in set(settings.arms) - {arm}}
    summary: dict[str, Any] = {
        "arm": arm,
        "seed": settings.seed,
        "episodes": episodes,
        "updates": len(lines),
        "minutes": sum(found["stage_seconds"] for found in own.values()) / 60,
        "minutes_by_stage": {name: found["stage_seconds"] / 60 for name, found in own.items()},
        "kept_fraction": _mean(lines, "kept_fraction"),
        "max_staleness": max((line["staleness_max"] for line in lines), default=0.0),
        "dropped": lines[-1]["dropped"] if lines else {},
        "explained_variance": lines[-1].get("explained_variance") if lines else None,
        "environment_failure_rate": _mean(lines, "environment_failure_rate"),
        "sft_rounds": sum(name.startswith("sft-") and name[4:].isdigit() for name in stages),
        "settings": settings.model_dump(mode="json"),
    }
    for which in HELD_OUT:
        found = compare(outcomes["sft", which], outcomes[arm, which], seed=settings.seed)
        if found is not None:
            facts = dataclasses.asdict(found)
            renamed = {"sft_pass1": found.rate_a, "rl_pass1": found.rate_b, "ci_low": found.low, "ci_high": found.high}
            summary[which] = renamed | {
                name: facts[name] for name in ("difference", "p_value", "tasks", "better", "worse")
            }
            summary[which] |= _by_family(outcomes["sft", which], outcomes[arm, which], settings.seed)
    path = plan.out / ("summary.json" if arm == "sao" else f"summary-{arm}.json")
    path.write_text(json.dumps(summary, indent=2))
    if importlib.util.find_spec("matplotlib") is not None:
        draw(lines, summary, plan.out / f"plots-{arm}")
    return path


def _by_family(before: Outcomes, after: Outcomes, seed: int) -> dict[str, Any]:
    """The same difference with families drawn in place of tasks, which are alike within one: what other families might give."""
    a, b = by_family(before), by_family(after)
    found = compare(a, b, seed=seed)
    assert found is not None
    rates = {
        name: [round(a.counts[name].rate, 3), round(b.counts[name].rate, 3)] for name in a.graded if name in b.graded
    }
    return {"families": len(rates), "family_ci_low": found.low, "family_ci_high": found.high, "by_family": rates}


def _of_one_policy(store: Store, run_id: str) -> Outcomes:
    episodes = list(store.query(TrajectoryFilter(run_id=run_id)))
    if len(models := sorted({episode.model for episode in episodes})) > 1:
        raise InputError(
            f"run {run_id} holds answers of {len(models)} policies: {', '.join(models)}",
            hint="begin again in another `output`",
        )
    return Outcomes.of(episodes)


def memory_table(settings: LearnSettings) -> str:
    """Gigabytes of each part, from the model's size: float32 weights, gradients and AdamW's two moments; activations apart."""
    found = resolve(settings.model)
    config = json.loads((Path(found) / "config.json").read_text())
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    mlp = 3 * hidden * config["intermediate_size"]
    kv = config.get("num_key_value_heads", config["num_attention_heads"]) / config["num_attention_heads"]
    layer = mlp + hidden * hidden * (2 + 2 * kv)
    embedding = config["vocab_size"] * hidden
    parameters = embedding + layers * layer
    trained = settings.rl.critic_layers * mlp
    parts = {
        "learner: policy, gradients, AdamW": 16 * parameters,
        "learner: critic": 4 * parameters + 12 * trained,
        "policy server: weights, untied head": 4 * (parameters + embedding),
        "policy server: keys and values": 2 << 30,
        "a checkpoint on disk": 12 * parameters + 4 * parameters + 8 * trained,
    }
    rows = [f"  {name:<40}{size / 2**30:6.1f} GiB" for name, size in parts.items()]
    return "\n".join([f"memory, {parameters / 1e6:.0f} M parameters:", *rows])


def _mean(lines: list[dict[str, Any]], name: str) -> float | None:
    values = [line[name] for line in lines if name in line]
    return sum(values) / len(values) if values else None
