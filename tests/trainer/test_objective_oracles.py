"""Every objective against the losses of verl, TRL and OpenRLHF on the same tokens: value and gradient.

Theirs are padded and masked, ours flat. All averages are over the whole batch, so no factor stands between them except where
a test names it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from trainer.batch import Batch
from trainer.chain import Chain
from trainer.config import EvidenceRules, LearnerConfig
from trainer.evidence import Evidence, judge
from trainer.learner import Learner
from trainer.models import load_policy, prepare
from trainer.objectives import OBJECTIVES, ActionTokens
from trainer.objectives.aggregation import constant, token_mean, trajectory_mean
from trainer.objectives.kl import kl_estimate
from trainer.objectives.value import value_loss

Found = tuple[Tensor, ...]
"""A loss and its gradients, with respect to the log probabilities [N] first."""


def agree(mine: Found, theirs: Found) -> None:
    """All is float64 but our weights, which are float32: seven digits of each summand."""
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one.detach(), other.detach(), rtol=1e-6, atol=1e-10 if one.ndim else 1e-7)


@dataclass(frozen=True)
class Drawn:
    """mask: bool[B, L]. lengths: int64[B]. The others float64[B, L]: log π of four policies, advantages, entropies."""

    mask: Tensor
    lengths: Tensor
    behaviour: Tensor
    proximal: Tensor
    current: Tensor
    reference: Tensor
    advantages: Tensor
    entropy: Tensor


@pytest.fixture(params=range(3))
def drawn(request, random_chain) -> Drawn:
    """Random actions between random observations, in rows that end at random."""
    mask, lengths = random_chain(request.param, rows=6)
    generator = torch.Generator().manual_seed(request.param)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    behaviour = -torch.rand(mask.shape, generator=generator, dtype=torch.float64) * 3
    proximal = behaviour + 0.3 * normal(*mask.shape)
    return Drawn(
        mask=mask,
        lengths=lengths,
        behaviour=behaviour,
        proximal=proximal,
        current=proximal + 0.4 * normal(*mask.shape),
        reference=behaviour + 0.3 * normal(*mask.shape),
        advantages=normal(len(mask), 1).expand(mask.shape).contiguous(),
        entropy=normal(*mask.shape) ** 2,
    )


def ours(name: str, options: dict, given: Drawn, kl: float = 0.0) -> Found:
    """The second gradient is with respect to the entropies."""
    objective, mask = OBJECTIVES.build(name, options), given.mask
    logprobs, entropy = given.current[mask].requires_grad_(), given.entropy[mask].requires_grad_()
    row = torch.arange(len(mask))[:, None].expand(mask.shape)[mask]
    tokens = ActionTokens(
        logprobs, given.behaviour[mask], given.advantages[mask], row, entropy, proximal=given.proximal[mask]
    )
    result = objective.token_loss(tokens)
    assert result.kept.any()
    token_loss = result.loss + kl * kl_estimate(logprobs, given.reference[mask], "k3")
    loss = (objective.weights(Chain(given.lengths), given.lengths < 0) * token_loss).sum()
    return loss, *torch.autograd.grad(loss, (logprobs, entropy), materialize_grads=True)


VERL = [
    ("ppo", {}, "vanilla", "token-mean", {"clip_ratio": 0.2, "clip_ratio_c": 3.0}),
    ("grpo", {}, "vanilla", "seq-mean-token-mean", {"clip_ratio": 0.2, "clip_ratio_c": 1e9}),
    ("dapo", {}, "vanilla", "token-mean", {"clip_ratio_low": 0.2, "clip_ratio_high": 0.28, "clip_ratio_c": 1e9}),
    (
        "dr-grpo",
        {"max_tokens": 50},
        "vanilla",
        "seq-mean-token-sum-norm",
        {"clip_ratio": 0.2, "clip_ratio_c": 1e9, "loss_scale_factor": 50},
    ),
    (
        "gspo",
        {"epsilon_low": 0.03, "epsilon_high": 0.04},
        "gspo",
        "seq-mean-token-mean",
        {"clip_ratio_low": 0.03, "clip_ratio_high": 0.04},
    ),
    ("sapo", {}, "sapo", "seq-mean-token-mean", {"tau_pos": 1.0, "tau_neg": 1.05}),
    (
        "cispo",
        {"epsilon_low": 0.3, "epsilon_high": 0.5},
        "cispo",
        "token-mean",
        {"clip_ratio_low": 0.3, "clip_ratio_high": 0.5},
    ),
    ("decoupled-ppo", {}, "vanilla", "token-mean", {"clip_ratio": 0.2, "clip_ratio_c": 1e9}),
]


@pytest.mark.parametrize(("name", "options", "theirs", "mode", "settings"), VERL, ids=[case[0] for case in VERL])
def test_loss_and_gradient_are_verls(
    verl, drawn: Drawn, name: str, options: dict, theirs: str, mode: str, settings: dict
) -> None:
    from verl.workers.config import ActorConfig

    settings = dict(settings)
    scale = settings.pop("loss_scale_factor", None)
    config = ActorConfig(strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1, **settings)
    if scale:
        config.global_batch_info["loss_scale_factor"] = scale
    given = replace(drawn, proximal=drawn.behaviour)  # verl takes the weight of decoupled PPO from outside
    padded = given.current.clone().requires_grad_()
    expected, _ = verl.get_policy_loss_fn(theirs)(
        old_log_prob=given.behaviour,
        log_prob=padded,
        advantages=given.advantages,
        response_mask=given.mask.double(),
        loss_agg_mode=mode,
        config=config,
    )
    agree(ours(name, options, given)[:2], (expected, torch.autograd.grad(expected, padded)[0][given.mask]))


@pytest.mark.parametrize("clip", [None, 0.5])
def test_the_value_loss_is_verls(verl, drawn: Drawn, clip: float | None) -> None:
    mask, old, values, returns = drawn.mask, drawn.behaviour, drawn.current, drawn.reference
    expected, _ = verl.compute_value_loss(values, returns, old, mask.double(), clip if clip else 1e9, "token-mean")
    loss = (token_mean(Chain(drawn.lengths)) * value_loss(values[mask], returns[mask], old[mask], clip)).sum()
    agree((loss,), (expected,))


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_kl_estimates_are_verls(verl, estimator) -> None:
    a, b = -torch.rand(50) * 2, -torch.rand(50) * 2  # verl cuts k3 at 10
    torch.testing.assert_close(kl_estimate(a, b, estimator), verl.kl_penalty(a, b, estimator))


@pytest.mark.parametrize(
    ("weights", "mode"),
    [
        (token_mean, "token-mean"),
        (trajectory_mean, "seq-mean-token-mean"),
        (lambda chain: constant(chain, 77), "seq-mean-token-sum-norm"),
    ],
    ids=["token", "trajectory", "constant"],
)
def test_weights_are_verls_aggregation(verl, drawn: Drawn, weights, mode: str) -> None:
    expected = verl.agg_loss(drawn.current, drawn.mask.double(), mode, loss_scale_factor=77)
    agree(((weights(Chain(drawn.lengths)) * drawn.current[drawn.mask]).sum(),), (expected,))


def trl_loss(trl: ModuleType, given: Drawn, loss_type: str, *, parts: int = 1, **settings: Any) -> Found:
    """`GRPOTrainer._compute_loss` summed over a batch in `parts` micro-batches; what `ours` gives.

    Observations lie in a completion as the results of tools do there, masked by `tool_mask`.
    """
    logprobs, entropies = given.current.clone().requires_grad_(), given.entropy.clone().requires_grad_()
    state = {
        "model": SimpleNamespace(training=True),
        "accelerator": SimpleNamespace(num_processes=1, gather=lambda x: x, reduce=lambda x, reduction: x),
        "_metrics": {"train": defaultdict(list)},
        "loss_type": loss_type, "importance_sampling_level": "token", "epsilon_low": 0.2, "epsilon_high": 0.2, "beta": 0.0,
        "max_completion_length": 50, "current_gradient_accumulation_steps": parts, "aux_loss_enabled": False,
        "top_entropy_quantile": 1.0, "off_policy_mask_threshold": None, "use_vllm": False, "_entropy_bonus_enabled": False,
    }  # fmt: skip
    args = {"delta": None, "sapo_temperature_pos": 1.0, "sapo_temperature_neg": 1.05, "use_bias_correction_kl": False}
    args |= {name: settings.pop(name) for name in args.keys() & settings.keys()}
    trainer = SimpleNamespace(**(state | settings), args=SimpleNamespace(steps_per_generation=parts, **args))
    completion = given.mask.flip(1).cumsum(1).flip(1) > 0  # everything up to the last action; padding follows
    total = torch.zeros((), dtype=torch.float64)
    for rows in torch.arange(len(given.mask)).chunk(parts):
        scored = (logprobs[rows], entropies[rows], None)
        trainer._get_per_token_logps_and_entropies = lambda *_, scored=scored, **__: scored
        prompts = torch.zeros(len(rows), 1, dtype=torch.int64)
        inputs = {
            "prompt_ids": prompts,
            "prompt_mask": torch.ones_like(prompts),
            "completion_ids": torch.zeros(given.mask[rows].shape, dtype=torch.int64),
            "completion_mask": completion[rows].long(),
            "tool_mask": given.mask[rows].long(),
            "old_per_token_logps": given.behaviour[rows],
            "ref_per_token_logps": given.reference[rows],
            "advantages": given.advantages[rows, 0],
            "num_items_in_batch": given.mask.sum(),
        }
        total = total + trl.GRPOTrainer._compute_loss(trainer, trainer.model, inputs)
    gradients = torch.autograd.grad(total, (logprobs, entropies), materialize_grads=True)
    assert not any(gradient[~given.mask].any() for gradient in gradients)
    return total, *(gradient[given.mask] for gradient in gradients)


TRL = {
    "grpo": ("grpo", {}, "grpo", {}),
    "dr_grpo": ("dr-grpo", {"max_tokens": 50}, "dr_grpo", {}),
    "dapo": ("dapo", {}, "dapo", {"epsilon_high": 0.28}),
    # TRL's upper bound of the weight is absolute.
    "cispo": ("cispo", {"epsilon_high": 0.3}, "cispo", {"epsilon_high": 1.3}),
    "sapo": (
        "sapo",
        {"tau_positive": 1.5, "tau_negative": 2.0},
        "sapo",
        {"sapo_temperature_pos": 1.5, "sapo_temperature_neg": 2.0},
    ),
    "gspo": (
        "gspo",
        {"epsilon_low": 0.03, "epsilon_high": 0.04},
        "grpo",
        {"importance_sampling_level": "sequence", "epsilon_low": 0.03, "epsilon_high": 0.04},
    ),
    # GRPO averaged over tokens is PPO's clip; TRL's cap `delta` acts where the dual clip does, on negative advantages.
    "bnpo": ("ppo", {"dual_clip": None}, "bnpo", {}),
    "delta": ("ppo", {"dual_clip": 1.5}, "bnpo", {"delta": 1.5}),
}


@pytest.mark.parametrize("beta", [0.0, 0.1])
@pytest.mark.parametrize("case", TRL)
def test_loss_and_gradient_are_trls(trl, drawn: Drawn, case: str, beta: float) -> None:
    """beta: weight of the KL to the reference in the loss, k3 under the same average."""
    name, options, loss_type, settings = TRL[case]
    agree(ours(name, options, drawn, beta), trl_loss(trl, drawn, loss_type, beta=beta, **settings))


@pytest.mark.parametrize("case", [case for case in TRL if TRL[case][2] != "bnpo"])
def test_trls_micro_batches_add_up_to_our_whole_batch(trl, drawn: Drawn, case: str) -> None:
    """bnpo is left out: it averages over the tokens of each micro-batch, ours over those of the batch."""
    name, options, loss_type, settings = TRL[case]
    agree(ours(name, options, drawn), trl_loss(trl, drawn, loss_type, parts=3, **settings))


def test_the_entropy_bonus_is_trls(trl, drawn: Drawn) -> None:
    bonus = {"_entropy_bonus_enabled": True, "use_adaptive_entropy": False, "entropy_coef": 0.05}
    accelerator = SimpleNamespace(gather=lambda x: x, reduce=lambda x, reduction: x, sync_gradients=False)
    expected = trl_loss(trl, drawn, "bnpo", accelerator=accelerator, **bonus)
    agree(ours("ppo", {"dual_clip": None, "entropy_bonus": 0.05}, drawn), expected)


def openrlhf_loss(openrlhf: SimpleNamespace, given: Drawn, old: Tensor, settings: dict) -> Found:
    padded = given.current.clone().requires_grad_()
    loss, *_ = openrlhf.loss.PolicyLoss(**settings)(
        padded, old, given.advantages, given.mask.double(), rollout_log_probs=given.behaviour
    )
    return loss, torch.autograd.grad(loss, padded)[0][given.mask]


OPENRLHF = {
    "ppo": ("ppo", {"dual_clip": None}, {}),
    "ppo-dual-clip": ("ppo", {"dual_clip": 1.5}, {"dual_clip": 1.5}),
    "grpo": ("grpo", {}, {"token_level_loss": False}),
    "dapo": ("dapo", {}, {"clip_eps_high": 0.28}),
    "gspo": (
        "gspo",
        {"epsilon_low": 0.03, "epsilon_high": 0.04},
        {"policy_loss_type": "gspo", "clip_eps_low": 0.03, "clip_eps_high": 0.04},
    ),
}


@pytest.mark.parametrize("case", OPENRLHF)
def test_loss_and_gradient_are_openrlhfs(openrlhf, drawn: Drawn, case: str) -> None:
    name, options, settings = OPENRLHF[case]
    agree(ours(name, options, drawn)[:2], openrlhf_loss(openrlhf, drawn, drawn.behaviour, settings))


def corrected(mode: str, low: float, high: float) -> dict:
    """OpenRLHF weighs each token by π_old / π_rollout, clamped to the bounds ("clip") or 0 outside them ("mask")."""
    return {"is_correction_level": "token", "is_correction_mode": mode, "is_correction_threshold": (low, high)}


def test_decoupled_ppo_is_openrlhfs_corrected_clip(openrlhf, drawn: Drawn) -> None:
    expected = openrlhf_loss(openrlhf, drawn, drawn.proximal, corrected("clip", 0.0, 1.3))
    agree(ours("decoupled-ppo", {"cap": 1.3}, drawn)[:2], expected)


CORRECTIONS = {
    "reinforce": ({}, {}),
    "tis": ({"cap": 1.3}, corrected("clip", 0.0, 1.3)),
    "icepop": ({"low": 0.7, "high": 1.5}, corrected("mask", 0.7, 1.5)),
    "sao": ({"epsilon_low": 0.3, "epsilon_high": 0.5}, corrected("mask", 0.7, 1.5)),
    "cispo": ({"epsilon_low": 0.3, "epsilon_high": 0.5}, corrected("clip", 0.7, 1.5)),
}


@pytest.mark.parametrize("name", CORRECTIONS)
def test_weighted_score_functions_have_openrlhfs_gradient(openrlhf, drawn: Drawn, name: str) -> None:
    """Where π_old is the current policy its ratio is 1, and its gradient the score function under the correction's weight;
    the values differ, for ours has log π where theirs has the ratio.
    """
    options, settings = CORRECTIONS[name]
    agree(ours(name, options, drawn)[1:2], openrlhf_loss(openrlhf, drawn, drawn.current, settings)[1:])


def test_imitation_is_openrlhfs(openrlhf, drawn: Drawn) -> None:
    padded = drawn.current.clone().requires_grad_()
    expected = openrlhf.loss.SFTLoss()(padded, drawn.mask.double())
    agree(ours("sft", {}, drawn)[:2], (expected, torch.autograd.grad(expected, padded)[0][drawn.mask]))


@pytest.mark.parametrize("clip", [None, 0.2])
def test_the_value_loss_is_openrlhfs(openrlhf, drawn: Drawn, clip: float | None) -> None:
    mask, old, returns = drawn.mask, drawn.behaviour, drawn.reference
    padded, values = drawn.current.clone().requires_grad_(), drawn.current[mask].requires_grad_()
    expected = openrlhf.loss.ValueLoss(clip)(padded, old, returns, mask.double())
    loss = (token_mean(Chain(drawn.lengths)) * value_loss(values, returns[mask], old[mask], clip)).sum()
    theirs = torch.autograd.grad(expected, padded)[0][mask]
    agree((loss, *torch.autograd.grad(loss, values)), (expected, theirs))


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_kl_estimates_are_openrlhfs(openrlhf, drawn: Drawn, estimator) -> None:
    a, b = drawn.current.float().requires_grad_(), drawn.reference.float()  # it computes in float32
    mine, theirs = kl_estimate(a, b, estimator), openrlhf.utils.compute_approx_kl(a, b, kl_estimator=estimator)
    torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close(*(torch.autograd.grad(one.sum(), a)[0] for one in (mine, theirs)))


def test_a_whole_update_is_trls_on_the_padded_batch(trl, make_policy, policy_dir, sample) -> None:
    """Given sampled trajectories of several turns and a policy that left its reference, when the learner takes them packed and
    in micro-batches and TRL padded and at once, then losses and gradient norms agree, the KL included.
    """
    policy, reference = make_policy(), load_policy(policy_dir)
    prepare(policy)
    for parameter in policy.parameters():
        parameter.data += 0.01 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    evidence = [
        judge(sample(reference, seed=seed, turns=1 + seed, reward=float(seed % 2)), EvidenceRules(), version=0)
        for seed in range(4)
    ]
    evidence = [item for item in evidence if isinstance(item, Evidence)]
    rows, batch = [row for item in evidence for row in item.rows], Batch.of(evidence, micro_batch_tokens=40)
    assert len(batch.micro_batches) > 1

    def scored(model) -> Tensor:
        """log π of each token but the first, [B, T − 1]."""
        ids = pad_sequence([row.token_ids for row in rows], batch_first=True)
        attended = pad_sequence([torch.ones(len(row), dtype=torch.int64) for row in rows], batch_first=True)
        logits = model(input_ids=ids, attention_mask=attended).logits[:, :-1]
        return logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]

    current = scored(policy)
    mask, behaviour = torch.zeros(current.shape, dtype=torch.bool), torch.zeros(current.shape)
    for index, row in enumerate(rows):
        mask[index, row.positions - 1] = True
        behaviour[index, row.positions - 1] = row.behaviour
    advantages = (batch.rewards - batch.rewards.mean())[:, None].expand(mask.shape)
    given = Drawn(
        mask=mask,
        lengths=batch.chain.lengths,
        behaviour=behaviour,
        proximal=behaviour,
        current=current.detach(),
        reference=scored(reference).detach(),
        advantages=advantages,
        entropy=torch.zeros_like(behaviour),
    )
    expected, gradient, _ = trl_loss(trl, given, "grpo", beta=0.1)
    policy.zero_grad()
    current[mask].backward(gradient)
    norm = torch.cat([p.grad.flatten() for p in policy.parameters() if p.grad is not None]).norm()

    config = LearnerConfig(
        credit="reinforce", objective="grpo", reference=policy_dir, reference_kl=0.1, max_gradient_norm=1e9
    )
    policy.zero_grad()
    metrics = Learner(policy, config).step(batch)
    assert 0 < metrics["kept_fraction"] < 1
    assert metrics["policy_loss"] == pytest.approx(expected.item(), rel=1e-4)
    assert metrics["policy_gradient_norm"] == pytest.approx(norm.item(), rel=1e-4)
