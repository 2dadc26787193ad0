"""Template collapse: does the policy still look at its input? (RAGEN-2's mutual-information proxy.)

From N episodes of different tasks take the first prompt x_j and the first generation z_i. Score every generation under
every prompt, ℓ_j(z_i) = Σ log p(z_i | x_j) by teacher forcing, and read

    MI        = mean_i [ ℓ_i(z_i) − (logsumexp_j ℓ_j(z_i) − log N) ]     nats, at most log N
    retrieval = share of i whose own prompt scores its generation highest (chance: 1/N)
    entropy   = − mean log p of the sampled tokens                        nats a token

Low MI with high entropy is the collapse that entropy alone does not show: varied words that could answer any task.
Costs N² forward passes of one turn each; only token ids are used, as they were recorded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from agentgym.errors import InputError
from agentgym.models import load_causal_lm, resolve
from agentgym.store import Store, TrajectoryFilter
from agentgym.store.records import Int32Array, PolicyKind

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MOST_TOKENS = 256
"""Of a generation that are scored: the first, where looking at the task shows."""


@dataclass(frozen=True, slots=True)
class TemplateReport:
    """mutual_information, bound (log N): nats. retrieval: share in [0, 1]. entropy: nats a token. tasks: N."""

    tasks: int
    mutual_information: float
    bound: float
    retrieval: float
    entropy: float

    @property
    def collapsed(self) -> bool:
        """A rule of thumb: less than a tenth of what the inputs could tell, in words that are not constant."""
        return self.mutual_information < 0.1 * self.bound and self.entropy > 0.5


def template_collapse(
    store: Store,
    where: TrajectoryFilter,
    model: str | Path,
    *,
    tasks: int = 16,
    device: str = "cpu",
    on_progress: Callable[[int, int], None] | None = None,
) -> TemplateReport:
    """Score one episode each of up to `tasks` tasks with `model`. Raises InputError with fewer than two."""
    pairs = _pairs(store, where, tasks)
    if len(pairs) < 2:
        raise InputError(
            f"template collapse compares tasks, and these trajectories are of {len(pairs)}",
            hint="widen the query; only what a model sampled counts",
        )
    path = resolve(str(model))
    if isinstance(path, str):
        raise InputError(f"{path} is a server", hint="name the checkpoint's directory")
    import torch

    loaded = load_causal_lm(path, dtype=torch.float32).to(torch.device(device)).eval()  # type: ignore[arg-type]
    count = len(pairs)
    scores = np.zeros((count, count))
    for i, (_, generation) in enumerate(pairs):
        for j, (prompt, _) in enumerate(pairs):
            scores[i, j] = _score(loaded, prompt, generation)
            if on_progress:
                on_progress(i * count + j + 1, count * count)
    return of_scores(scores, [len(generation) for _, generation in pairs])


def of_scores(scores: npt.NDArray[np.float64], lengths: Sequence[int]) -> TemplateReport:
    """scores: float[N, N], ℓ_j(z_i) at [i, j]. lengths: tokens of each z_i."""
    count = len(scores)
    own = np.diagonal(scores)
    top = scores.max(axis=1)
    marginal = top + np.log(np.exp(scores - top[:, None]).sum(axis=1)) - math.log(count)
    return TemplateReport(
        tasks=count,
        mutual_information=float((own - marginal).mean()),
        bound=math.log(count),
        retrieval=float((scores.argmax(axis=1) == np.arange(count)).mean()),
        entropy=float(-own.sum() / sum(lengths)),
    )


def _pairs(store: Store, where: TrajectoryFilter, tasks: int) -> list[tuple[Int32Array, Int32Array]]:
    """(first prompt, first generation) of the first model episode of each task."""
    found: dict[str, tuple[Int32Array, Int32Array]] = {}
    for summary in store.query(where):
        if summary.task_id in found or summary.policy_kind is not PolicyKind.MODEL or not summary.action_tokens:
            continue
        call = store.get(summary.id).calls[0]
        if len(call.generation_token_ids):
            found[summary.task_id] = (call.prompt_token_ids, call.generation_token_ids[:MOST_TOKENS])
        if len(found) == tasks:
            break
    return list(found.values())


def _score(model: PreTrainedModel, prompt: Int32Array, generation: Int32Array) -> float:
    import torch

    ids = torch.from_numpy(np.concatenate([prompt, generation]).astype(np.int64)).to(model.device)
    with torch.inference_mode():
        logits = model(input_ids=ids[None, :-1], use_cache=False, logits_to_keep=len(generation)).logits[0]
        logprobs = logits.float().log_softmax(-1)
    chosen = ids[len(prompt) :, None]
    return float(logprobs.gather(1, chosen).double().sum())
