"""log π of recorded tokens, and V of their prefixes."""

from __future__ import annotations

import json

import pytest
import torch

from agentgym.models import ModelNotFound
from trainer import head
from trainer.batch import Batch
from trainer.config import EvidenceRules, LearnerConfig
from trainer.critic import Critic
from trainer.errors import ModelError
from trainer.evidence import Evidence, judge
from trainer.models import action_logprobs, action_loss, checkpoint_activations, load_policy, prepare


def batch_of(policy, sample, limit: int = 10_000, **values) -> Batch:
    trajectories = [sample(policy, seed=seed, turns=2 + seed, compact_at=2, **values) for seed in range(3)]
    evidence = [judge(trajectory, EvidenceRules(), version=0) for trajectory in trajectories]
    return Batch.of([item for item in evidence if isinstance(item, Evidence)], micro_batch_tokens=limit)


def scores(policy, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    logprobs, entropies = torch.zeros(batch.chain.tokens), torch.zeros(batch.chain.tokens)
    for micro in batch.micro_batches:
        logprobs[micro.cells], entropies[micro.cells] = action_logprobs(policy, micro, batch.temperature[micro.cells])
    return logprobs, entropies


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("limit", [1, 10_000])
def test_the_weights_that_sampled_give_the_recorded_logprobs(policy, sample, temperature: float, limit: int) -> None:
    batch = batch_of(policy, sample, limit, temperature=temperature)
    prepare(policy)
    logprobs, entropies = scores(policy, batch)
    torch.testing.assert_close(logprobs.detach(), batch.behaviour, rtol=1e-4, atol=1e-4)
    assert (entropies > 0).all()


def test_chunks_and_recomputed_activations_change_no_gradient(policy, sample, monkeypatch) -> None:
    batch = batch_of(policy, sample)
    prepare(policy)

    def gradient() -> torch.Tensor:
        policy.zero_grad()
        for micro in batch.micro_batches:
            action_loss(policy, micro, batch.temperature[micro.cells], lambda logprob, _, part: logprob.sum())[
                0
            ].backward()
        return torch.cat([p.grad.flatten() for p in policy.parameters() if p.grad is not None])

    plain = gradient()
    monkeypatch.setattr(head, "CHUNK", 3)
    checkpoint_activations(policy, True)
    torch.testing.assert_close(gradient(), plain, rtol=1e-4, atol=1e-5)


def test_a_directory_without_a_model_is_named(tmp_path) -> None:
    with pytest.raises(ModelNotFound, match=r"no config\.json"):
        load_policy(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "no-such-thing"}))
    with pytest.raises(ModelNotFound, match="cannot be loaded"):
        load_policy(tmp_path)


def test_a_model_that_rescales_its_logits_is_refused(policy) -> None:
    policy.config.final_logit_softcapping = 30.0
    with pytest.raises(ModelError, match="final_logit_softcapping"):
        prepare(policy)


@pytest.mark.parametrize("layers", [None, 1, 2, 3])
def test_a_critic_reads_the_prefix_before_the_action(make_policy, sample, layers: int | None) -> None:
    """Given another last token, then V before it is the same and V after it is not."""
    policy = make_policy(layers=3)
    prepare(policy)
    batch = batch_of(policy, sample, limit=1)
    critic = Critic(policy, LearnerConfig(critic_layers=layers))
    torch.nn.init.normal_(critic.head.weight)
    micro = batch.micro_batches[0]
    before, after = critic.values(micro, critic.features(micro))
    micro.token_ids[-1] = (micro.token_ids[-1] + 1) % 96
    changed_before, changed_after = critic.values(micro, critic.features(micro))
    torch.testing.assert_close(before, changed_before)
    assert not torch.allclose(after, changed_after)


def test_a_split_critic_is_the_whole_one(make_policy, sample) -> None:
    policy = make_policy(layers=3)
    prepare(policy)
    whole, split = (Critic(policy, LearnerConfig(critic_layers=layers)) for layers in (None, 1))
    for critic in (whole, split):
        torch.nn.init.constant_(critic.head.weight, 0.1)
    micro = batch_of(policy, sample).micro_batches[0]
    torch.testing.assert_close(
        whole.values(micro, whole.features(micro)), split.values(micro, split.features(micro)), rtol=1e-4, atol=1e-5
    )


def test_a_critic_starts_at_zero_and_trains_projections_and_head_only(policy) -> None:
    prepare(policy)
    critic = Critic(policy, LearnerConfig())
    trained = {name for name, parameter in critic.named_parameters() if parameter.requires_grad}
    assert trained == {
        *(f"top.layers.{i}.mlp.{p}_proj.weight" for i in range(2) for p in ("gate", "up", "down")),
        "head.weight",
        "head.bias",
    }
    assert not critic.head.weight.any()
    assert not critic.head.bias.any()


def test_a_critic_with_more_layers_than_the_policy_is_refused(policy) -> None:
    with pytest.raises(ModelError, match="critic layers = 9"):
        Critic(policy, LearnerConfig(critic_layers=9))


def test_a_critic_may_train_its_head_alone(make_policy, sample) -> None:
    """Given critic_trains = "head", then everything below is computed once and the values are those of the whole backbone."""
    policy = make_policy(layers=3)
    prepare(policy)
    critic, whole = Critic(policy, LearnerConfig(critic_trains="head")), Critic(policy, LearnerConfig())
    assert {name for name, p in critic.named_parameters() if p.requires_grad} == {"head.weight", "head.bias"}
    for one in (critic, whole):
        torch.nn.init.constant_(one.head.weight, 0.1)
    micro = batch_of(policy, sample).micro_batches[0]
    torch.testing.assert_close(critic(micro), whole(micro), rtol=1e-4, atol=1e-5)


def test_bfloat16_computes_in_bfloat16_and_keeps_everything_else_in_float32(policy, sample) -> None:
    """Given bfloat16, then the backbone's products are bfloat16, and weights, gradients and log probabilities float32."""
    prepare(policy)
    (micro,) = batch_of(policy, sample).micro_batches
    seen: set[torch.dtype] = set()
    for layer in policy.model.layers:
        layer.mlp.up_proj.register_forward_hook(lambda module, given, found: seen.add(found.dtype))
    temperature = torch.ones(len(micro.actions))
    exact, _ = action_logprobs(policy, micro, temperature)
    assert seen == {torch.float32}
    seen.clear()
    loss, logprobs, entropies = action_loss(
        policy, micro, temperature, lambda logprob, _, part: logprob.sum(), precision="bfloat16"
    )
    loss.backward()
    assert seen == {torch.bfloat16}
    kinds = {tensor.dtype for p in policy.parameters() for tensor in (p, p.grad) if tensor is not None}
    assert kinds == {logprobs.dtype, entropies.dtype, loss.dtype} == {torch.float32}
    assert 1e-6 < (logprobs - exact).abs().max() < 0.2, "the backbone rounds, the softmax does not"
