"""From logits to a sampled token and its exact log-probability: one definition for sampling and for re-scoring.

The order is the field's: divide by the temperature, keep the top k, keep the nucleus of mass p, renormalise. A logprob
is always that of the distribution really sampled from. Temperature 0 samples from a point mass, so a greedy token's
logprob is 0.0 whatever the model thinks of it; `recompute` gives the point mass its only checkable meaning, minus the
distance to the largest logit (0.0 where today's weights would pick the same token).
"""

from __future__ import annotations

import torch

from agentgym.store.records import Sampling


def log_distribution(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """fp32[..., V] log-probabilities of the distribution `sampling` draws from; -inf where it never draws.

    logits: [..., V] of any float dtype. Temperature must be positive.
    """
    scaled = logits.float() / sampling.temperature
    vocabulary = scaled.shape[-1]
    if 0 < sampling.top_k < vocabulary:
        smallest_kept = scaled.topk(sampling.top_k, dim=-1).values[..., -1:]
        scaled = scaled.masked_fill(scaled < smallest_kept, -torch.inf)
    if sampling.top_p < 1.0:
        ordered, order = scaled.sort(dim=-1, descending=True)
        mass = ordered.softmax(dim=-1)
        # A token stays while the mass before it is short of p: the first token always does.
        beyond = mass.cumsum(dim=-1) - mass >= sampling.top_p
        scaled = scaled.masked_fill(torch.zeros_like(beyond).scatter(-1, order, beyond), -torch.inf)
    return scaled.log_softmax(dim=-1)


def sample(logits: torch.Tensor, sampling: Sampling, generator: torch.Generator) -> tuple[int, float]:
    """Draw one token from logits [V]; returns its id and its logprob in nats."""
    if sampling.temperature == 0:
        return int(logits.argmax()), 0.0
    logprobs = log_distribution(logits, sampling)
    token = int(torch.multinomial(logprobs.exp(), 1, generator=generator))
    return token, float(logprobs[token])


def recompute(logits: torch.Tensor, tokens: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """fp32[G] logprobs of tokens int64[G] under logits [G, V], as `sample` would have reported them."""
    index = tokens.unsqueeze(-1)
    if sampling.temperature == 0:
        wide = logits.float()
        return (wide.gather(-1, index) - wide.amax(dim=-1, keepdim=True)).squeeze(-1)
    return log_distribution(logits, sampling).gather(-1, index).squeeze(-1)


def generator_for(seed: int | None, device: torch.device) -> torch.Generator:
    """A generator of one call's own: equal seeds draw equal tokens, whatever else runs beside them."""
    generator = torch.Generator(device)
    if seed is None:
        generator.seed()
    else:
        generator.manual_seed(seed)
    return generator
