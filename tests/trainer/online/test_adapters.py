"""LoRA adapters published to a real vLLM server: beside each other under running requests, probed before they count."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from servers import Vllm
from transformers import AutoTokenizer, LlamaForCausalLM, PreTrainedModel

from agentgym.store import Store
from agentgym.store.records import Sampling, VersionSpan
from harness.policies.probe import Scorer
from harness.policies.protocol import Generation, PublishError
from harness.policies.sampling import recompute
from harness.policies.vllm_policy import VllmPolicy
from harness.policies.vllm_server import AdapterRoom
from harness.render import load_renderer
from trainer.errors import TrainConfigError
from trainer.online.loop import Parts, train_online
from trainer.online.publisher import AdapterPublisher, ServerPublisher, publisher_for
from trainer.online.rollouts import Acting

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1500), pytest.mark.asyncio(loop_scope="session")]

PROMPT = np.arange(3, 40, dtype=np.int32)
SLOTS = 2


@pytest.fixture(scope="module")
def server(vllm_python: str, tiny_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vllm]:
    """From the tied model as it is: its own weights never change."""
    log = tmp_path_factory.mktemp("vllm") / "server.log"
    server = Vllm(vllm_python, tiny_dir, log, context=2048, adapters=SLOTS)
    with server.running():
        yield server


@pytest.fixture
def adapter(tiny_dir: Path, tmp_path: Path) -> Callable[..., tuple[Path, PreTrainedModel]]:
    """Makes an adapter of random numbers: its directory, as peft writes it, and the model that has it merged in."""

    def make(seed: int, rank: int = 4) -> tuple[Path, PreTrainedModel]:
        base = LlamaForCausalLM.from_pretrained(tiny_dir)
        names = [name for name, m in base.model.named_modules(prefix="model") if isinstance(m, torch.nn.Linear)]
        added = get_peft_model(base, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=names))
        torch.manual_seed(seed)
        for name, parameter in added.named_parameters():
            if "lora_" in name:
                torch.nn.init.normal_(parameter, std=0.1)
        added.save_pretrained(str(tmp_path / f"adapter-{seed}"))
        assert isinstance(added, PeftModel)
        return tmp_path / f"adapter-{seed}", added.merge_and_unload().eval()

    return make


def expected(model: PreTrainedModel) -> Scorer:
    def score(prompt: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        ids = torch.from_numpy(np.concatenate([prompt, tokens]).astype(np.int64))
        with torch.inference_mode():
            logits = model(input_ids=ids[None]).logits[0, len(prompt) - 1 : -1]
        return recompute(logits, ids[len(prompt) :], Sampling()).numpy()

    return score


def gap(model: PreTrainedModel, answer: Generation) -> float:
    return float(np.abs(expected(model)(PROMPT, answer.token_ids) - answer.logprobs).max())


async def sample(policy: VllmPolicy, tokens: int, seed: int = 0) -> Generation:
    return await policy.generate(
        PROMPT, sampling=Sampling(seed=seed), max_tokens=tokens, stop_token_ids=(), episode_id="a"
    )


async def test_a_publish_waits_for_nobody_and_every_token_has_the_version_that_sampled_it(policy, adapter) -> None:
    """Given a generation under way, when the next version is published, then it ends with its own, and what is asked for
    after it has the new one."""
    (first, one), (second, two) = adapter(1), adapter(2)
    assert await policy.load_adapter(first, 1) < 1e-3, "scored by the files themselves"
    running = asyncio.create_task(sample(policy, 600, seed=1))
    await asyncio.sleep(0.5)
    assert await policy.load_adapter(second, 2, score=expected(two)) < 1e-3
    assert not running.done()
    assert policy.adapters == {first, second}, "the server may have to read both"
    after, before = await sample(policy, 24), await running
    assert before.versions == (VersionSpan(1, 0, 600),)
    assert after.versions == (VersionSpan(2, 0, 24),)
    assert gap(one, before) < 1e-3 < gap(two, before)
    assert gap(two, after) < 1e-3 < gap(one, after)


async def test_more_versions_under_way_than_the_server_has_slots(policy, adapter) -> None:
    """Given requests under way with as many versions as the server takes in one batch, then another publish still arrives,
    and none of them is sampled with another's adapter."""
    others = set(policy.server.listed())
    made = {version: adapter(10 + version) for version in range(1, SLOTS + 2)}
    running = {}
    for version, (path, model) in made.items():
        await policy.load_adapter(path, version, score=expected(model))
        running[version] = [asyncio.create_task(sample(policy, 300, seed=seed)) for seed in range(2)]
        await asyncio.sleep(0.3)
    for version, (_, model) in made.items():
        for answer in await asyncio.gather(*running[version]):
            assert answer.versions == (VersionSpan(version, 0, 300),)
            assert gap(model, answer) < 1e-3
    path, model = adapter(20)
    await policy.load_adapter(path, 9, score=expected(model))
    assert policy.adapters == {path}, "nobody uses the others any more"
    (ours,) = set(policy.server.listed()) - others
    assert ours.startswith("9-")


async def test_a_failed_publish_changes_nothing(policy, adapter) -> None:
    """Given an adapter that is not the policy's, or that the server refuses, then version and weights stay."""
    (good, one), (other, _), (large, _) = adapter(1), adapter(2), adapter(3, rank=64)
    await policy.load_adapter(good, 1, score=expected(one))
    before = set(policy.server.listed())
    with pytest.raises(PublishError, match="off by"):
        await policy.load_adapter(other, 2, score=expected(one))
    with pytest.raises(PublishError, match="rank"):
        await policy.load_adapter(large, 2)
    with pytest.raises(PublishError, match="No adapter found"):
        await policy.load_adapter(good.with_name("nowhere"), 2, score=expected(one))
    assert set(policy.server.listed()) == before
    assert policy.version == 1
    answer = await sample(policy, 24)
    assert answer.versions == (VersionSpan(1, 0, 24),)
    assert gap(one, answer) < 1e-3


async def test_a_server_that_comes_back_without_the_adapter_gets_it_again(server, policy, adapter) -> None:
    path, model = adapter(1)
    await policy.load_adapter(path, 4, score=expected(model))
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)
    answers = await asyncio.gather(*[sample(policy, 24, seed=seed) for seed in range(3)])
    for answer in answers:
        assert answer.versions == (VersionSpan(4, 0, 24),)
        assert gap(model, answer) < 1e-3
    assert len(policy.server.listed()) == 2, "the model, and one adapter"


async def test_other_weights_below_an_adapter_are_no_version(policy, adapter, tiny_dir, tmp_path: Path) -> None:
    """Given that somebody exchanges the server's own weights, then what is sampled with the adapter counts for nothing; until
    they are back."""
    path, model = adapter(1)
    await policy.load_adapter(path, 1, score=expected(model))
    other = LlamaForCausalLM.from_pretrained(tiny_dir)
    with torch.no_grad():
        for parameter in other.model.layers.parameters():
            parameter.mul_(1.3)
    other.save_pretrained(tmp_path / "other")
    try:
        await policy.server.exchange(tmp_path / "other", "somebody's")
        with pytest.raises(PublishError, match="off by"):
            await sample(policy, 24)
    finally:
        await policy.server.exchange(tiny_dir, str(policy.server.first_label))
    answer = await sample(policy, 24)
    assert answer.versions == (VersionSpan(1, 0, 24),)
    assert gap(model, answer) < 1e-3


async def test_an_online_run_publishes_adapters(
    configured, tiny_dir, task, backend, profile, policy, alternating
) -> None:
    """Given LoRA and a server that takes adapters, then episodes go on under each publish, only adapters are written, and
    the learner agrees with the log probabilities recorded for its versions."""
    config = configured(
        steps=3, server=policy.server.url, policy_trains="lora", lora_rank=4, policy_learning_rate=1e-2, ahead=2
    )
    publisher = publisher_for(policy, config)
    assert isinstance(publisher, AdapterPublisher)
    acting = Acting(policy, load_renderer(AutoTokenizer.from_pretrained(tiny_dir)), profile)
    with Store.open(config.store) as store:
        report = await train_online(config, Parts([task], acting, backend, publisher), store, lambda event: None)
        versions = {span.version for one in store.iter() for call in one.calls for span in call.policy_versions}
    assert (report.version, policy.version) == (3, 3)
    assert versions <= {0, 1, 2, 3}
    assert len(versions) > 1
    lines = [json.loads(line) for line in report.metrics_path.read_text().splitlines()]
    assert all(line["publish_gap"] < 1e-3 for line in lines)
    assert all(line["logprob_gap"] < 1e-3 for line in lines if line["staleness_max"] == 0)
    written = [path for path in (config.output / "published").rglob("*") if path.is_file()]
    assert {path.name for path in written} == {"adapter_config.json", "adapter_model.safetensors"}
    assert config.output / "published" / "adapter-000003" in {path.parent for path in written}


@pytest.mark.parametrize(
    ("room", "reason"),
    [
        (None, "takes no adapters"),
        (AdapterRoom(1, 16), "one adapter at a time"),
        (AdapterRoom(2, 8), "up to rank 8"),
    ],
)
async def test_a_server_without_room(configured, policy, monkeypatch, room, reason) -> None:
    assert policy.server.adapter_room() == AdapterRoom(SLOTS, 16)
    monkeypatch.setattr(policy.server, "adapter_room", lambda: room)
    lora = {"server": policy.server.url, "policy_trains": "lora"}
    with pytest.raises(TrainConfigError, match=reason):
        publisher_for(policy, configured(**lora, publish="adapter"))
    assert isinstance(publisher_for(policy, configured(**lora)), ServerPublisher)


async def test_what_asks_for_adapters_that_cannot_be(configured) -> None:
    with pytest.raises(TrainConfigError, match="no adapter to publish"):
        configured(publish="adapter", server="http://policy:8000")
    with pytest.raises(TrainConfigError, match="without a server"):
        configured(publish="adapter", policy_trains="lora")
