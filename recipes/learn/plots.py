"""PNG plots of a run: reward and success, held-out success before and after, and how the policy behaved."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def draw(lines: list[dict[str, Any]], summary: dict[str, Any], directory: Path) -> None:
    """Write learning.png, held-out.png and behaviour.png into `directory`."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    directory.mkdir(parents=True, exist_ok=True)
    _curves(
        plt,
        lines,
        directory / "learning.png",
        {
            "training success": ["train_success"],
            "reward of the batch": ["reward_mean"],
            "explained variance": ["explained_variance"],
            "entropy": ["entropy"],
        },
    )
    _curves(
        plt,
        lines,
        directory / "behaviour.png",
        {
            "kept fraction, effective sample size": ["kept_fraction", "effective_sample_size"],
            "staleness (versions)": ["staleness_mean", "staleness_max"],
            "idle": ["learner_idle_fraction", "rollout_idle_fraction"],
            "how episodes ended": sorted({name for line in lines for name in line if name.startswith("termination/")}),
        },
    )
    figure, axes = plt.subplots(figsize=(5, 3.5))
    for place, which in enumerate(name for name in ("instances", "modules") if name in summary):
        found = summary[which]
        axes.bar(place - 0.2, found["sft_pass1"], 0.38, color="#9aa5b1", label="after SFT" if place == 0 else None)
        axes.bar(place + 0.2, found["rl_pass1"], 0.38, color="#2f6fde", label="after RL" if place == 0 else None)
        gain = f"{found['difference']:+.2f} [{found['ci_low']:+.2f}, {found['ci_high']:+.2f}]"
        axes.text(place, max(found["sft_pass1"], found["rl_pass1"]) + 0.02, gain, ha="center", fontsize=8)
    axes.set_xticks(range(2), ["instances", "modules"])
    axes.set_ylim(0, 1)
    axes.set_ylabel("pass@1, held out")
    axes.legend()
    figure.tight_layout()
    figure.savefig(directory / "held-out.png", dpi=120)
    plt.close(figure)


def _curves(plt: Any, lines: list[dict[str, Any]], path: Path, panels: dict[str, list[str]]) -> None:
    figure, axes = plt.subplots(2, 2, figsize=(9, 6))
    for axis, (title, names) in zip(axes.flat, panels.items(), strict=True):
        for name in names:
            points = [(line["step"], line[name]) for line in lines if name in line]
            if points:
                axis.plot(*zip(*points, strict=True), label=name.removeprefix("termination/"))
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("update")
        if len(axis.lines) > 1:
            axis.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
