"""The language-model head and the loss behind it, without a [tokens, vocabulary] tensor and without recomputation.

Log probabilities need the logits of a token once. So does their gradient: with p = softmax(z/τ) and g = ∂loss/∂log π(a),

    ∂loss/∂z = (g (1_a − p) − e p (log p + H)) / τ,    e = ∂loss/∂H,  H = −Σ p log p

and g follows from log π(a) alone. So a chunk of tokens is scored, its loss and g taken, and its share of the gradients of
hidden states and head added up while its logits are at hand: three matrix products a token where recomputing the logits in
the backward pass costs four, and two buffers of [CHUNK, vocabulary] in all. A loss that needs all tokens of a sequence at
once (`whole`) is taken between two passes, the first of which only scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK = 128
"""Action tokens whose logits exist at one time."""

LossOf = Callable[[Tensor, Tensor, slice], Tensor]
"""(log π float[k], entropy float[k], which of the n tokens) → their loss, a scalar with gradient."""


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """n positions to score. hidden: float32[n, H] before each; weight: float32[V, H]; bias: float32[V] or None;
    targets: int64[n]; temperature: float32[n].
    """

    hidden: Tensor
    weight: Tensor
    bias: Tensor | None
    targets: Tensor
    temperature: Tensor

    def parts(self) -> list[slice]:
        n = len(self.targets)
        return [slice(start, min(start + CHUNK, n)) for start in range(0, n, CHUNK)]


@torch.no_grad()
def score(tokens: Tokens) -> tuple[Tensor, Tensor]:
    """log π of the targets and the entropy, float32[n] each, nats, at each token's temperature."""
    buffers = _Buffers(tokens)
    found = [buffers.fill(part) for part in tokens.parts()]
    if not found:
        return tokens.temperature.new_zeros(0), tokens.temperature.new_zeros(0)
    return torch.cat([one for one, _ in found]), torch.cat([two for _, two in found])


def loss(
    tokens: Tokens, loss_of: LossOf, *, entropy_gradient: bool = False, whole: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """The loss, a scalar through which gradients of hidden states, weight and bias flow; log π and entropy without."""
    found: Any = _HeadLoss.apply(
        tokens.hidden, tokens.weight, tokens.bias, tokens.targets, tokens.temperature, loss_of, entropy_gradient, whole
    )
    return found


class _HeadLoss(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        temperature: Tensor,
        loss_of: LossOf,
        entropy_gradient: bool,
        whole: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        tokens = Tokens(hidden, weight, bias, targets, temperature)
        total, logprobs, entropies = (
            temperature.new_zeros(()),
            torch.empty_like(temperature),
            torch.empty_like(temperature),
        )
        slopes = torch.zeros(2, len(targets), device=hidden.device)  # of the loss, by log π and by the entropy
        if whole and len(targets):
            logprobs, entropies = score(tokens)
            total, slopes = _slopes(loss_of, logprobs, entropies, slice(0, len(targets)), entropy_gradient)
        buffers = _Buffers(tokens)
        to_hidden = torch.empty_like(hidden)
        to_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        to_bias = torch.zeros_like(weight[:, 0]) if bias is not None and ctx.needs_input_grad[2] else None
        for part in tokens.parts():
            logprobs[part], entropies[part] = buffers.fill(part)
            if not whole:
                found, slopes[:, part] = _slopes(loss_of, logprobs[part], entropies[part], part, entropy_gradient)
                total = total + found
            by_logprob, by_entropy = slopes[:, part]
            slope = buffers.gradient(part, by_logprob, by_entropy, entropies[part] if entropy_gradient else None)
            heat = temperature[part, None]
            to_hidden[part] = (slope @ weight) / heat
            if to_weight is not None:
                to_weight.addmm_(slope.T, hidden[part] / heat)
            if to_bias is not None:
                to_bias += (slope / heat).sum(0)
        ctx.gradients = (to_hidden, to_weight, to_bias)
        ctx.mark_non_differentiable(logprobs, entropies)
        return total, logprobs, entropies

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        gradients, ctx.gradients = ctx.gradients, ()
        return *(None if one is None else one.mul_(slope) for one in gradients), None, None, None, None, None


def _slopes(
    loss_of: LossOf, logprobs: Tensor, entropies: Tensor, part: slice, entropy_gradient: bool
) -> tuple[Tensor, Tensor]:
    """The loss of some tokens, and its derivatives by log π and by the entropy, float[2, k]."""
    with torch.enable_grad():
        logprob, entropy = logprobs.detach().requires_grad_(), entropies.detach().requires_grad_(entropy_gradient)
        found = loss_of(logprob, entropy, part)
        by = [logprob, *([entropy] if entropy_gradient else [])]
        slopes = torch.autograd.grad(found, by, allow_unused=True, materialize_grads=True)
    return found.detach(), torch.stack([slopes[0], slopes[1] if entropy_gradient else torch.zeros_like(slopes[0])])


class _Buffers:
    """exp(z − max z) and z − max z of one chunk of tokens, z the tempered logits, float32[CHUNK, V] each, in memory that is
    used again for the next chunk. A pass over such a buffer costs about what a sixth of a matrix product does, so the
    normaliser stays a factor of its own, and the temperature is a factor of the hidden states.
    """

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        rows, columns = min(CHUNK, len(tokens.targets)), len(tokens.weight)
        self._z, self._exp = (tokens.weight.new_empty(rows, columns) for _ in range(2))
        self._total = tokens.weight.new_empty(0)

    def fill(self, part: slice) -> tuple[Tensor, Tensor]:
        """Score these tokens; log π of their targets, and their entropies."""
        t = self.tokens
        targets = t.targets[part]
        z, exp = self._z[: len(targets)], self._exp[: len(targets)]
        torch.mm(t.hidden[part].detach() / t.temperature[part, None], t.weight.detach().T, out=z)
        if t.bias is not None:
            z += t.bias.detach() / t.temperature[part, None]
        z -= z.amax(-1, keepdim=True)
        torch.exp(z, out=exp)
        self._total = exp.sum(-1)
        log_total = self._total.log()
        return z.gather(1, targets[:, None])[:, 0] - log_total, log_total - torch.linalg.vecdot(exp, z) / self._total

    def gradient(self, part: slice, by_logprob: Tensor, by_entropy: Tensor, entropy: Tensor | None) -> Tensor:
        """∂loss/∂z of the tokens filled in last, float32[k, V]. entropy: None where the loss does not depend on it."""
        targets = self.tokens.targets[part]
        z, exp = self._z[: len(targets)], self._exp[: len(targets)]
        factor = -by_logprob[:, None] / self._total[:, None]
        if entropy is None:
            exp *= factor
        else:
            z += (entropy - self._total.log())[:, None]
            z *= -(by_entropy / self._total)[:, None]
            z += factor
            exp *= z
        return exp.scatter_add_(1, targets[:, None], by_logprob[:, None])
