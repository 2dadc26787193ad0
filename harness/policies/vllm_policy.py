"""A vLLM server as policy: exact ids, exact logprobs, and weights that can be exchanged under running generations.

`vllm_server.py` is the wire; this file knows which labels of the server's weights stand for which version of the policy.

A weight update does not wait for requests: new ones are held for its second, running ones are kept by the server and go
on with the new weights, and their version spans say where. The update counts once the server's logprobs on fresh samples
agree with those the new weights really give (`probe.py`): a server can keep part of the old weights without an error (a
CPU server does so with a tied LM head, hence `agentgym.models.untie`). Until then its label stands for no version, so
whatever was sampled under it waits for the verdict; if the probe fails the old weights are put back, their version
stays, and generations that had crossed over are sampled again.

Where only LoRA adapters change, a version is an adapter beside the one before (`load_adapter`): nothing is held or paused. A
request under way ends with the adapter it began with, the next is sampled with the new one, once it has been probed; until
then nobody but the probe asks for it, so a failed update leaves nothing to put back.

A server that was restarted serves its first weights under a label that is not ours, or lacks the adapter. The first answer
that shows it makes this client load the last published weights again; the answer is thrown away and asked for anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from agentgym.store.records import Int32Array, PolicyKind, Sampling, VersionSpan
from harness.policies.probe import Scorer, checkpoint_scorer, probe_gap
from harness.policies.protocol import Generation, OnTokens, PolicyError, PublishError
from harness.policies.vllm_server import Answer, NotServed, Send, VllmPolicyConfig, VllmServer, adapter_label

__all__ = ["VllmPolicy", "VllmPolicyConfig"]

_ATTEMPTS = 4
"""Generations asked for anew because unknown weights had sampled them."""


@dataclass(frozen=True, slots=True)
class _Served:
    """Weights whose label is trusted. path: where the server can read them again. adapter: its name, where they are one."""

    version: int
    label: str | None
    path: Path | None
    adapter: str | None = None


class VllmPolicy:
    """Samples from a vLLM server; see `Policy`."""

    kind = PolicyKind.MODEL

    def __init__(self, config: VllmPolicyConfig, *, version: int = 0, name: str = "vllm") -> None:
        """Asks the server what it serves (blocking). Raises PolicyError where it is no usable vLLM server."""
        self.config = config
        self.name = name
        self.server = VllmServer(config)
        self.model, self.context_length = self.server.model, self.server.context_length
        self._served = _Served(version, self.server.first_label, self.server.root)
        self._versions = {self._served.label: version}
        self._adapters: dict[str, Path] = {}
        self._running: Counter[str | None] = Counter()
        self._open = asyncio.Event()
        self._open.set()
        self._publishing = asyncio.Lock()

    @property
    def version(self) -> int:
        return self._served.version

    @property
    def adapters(self) -> set[Path]:
        """What the server may still have to read: the adapter served, and those of requests under way."""
        return set(self._adapters.values())

    async def generate(
        self,
        prompt_token_ids: Int32Array,
        *,
        sampling: Sampling,
        max_tokens: int,
        stop_token_ids: Sequence[int],
        episode_id: str,
    ) -> Generation:
        """Sample up to `max_tokens`, fewer where the context ends first. Raises PolicyError."""
        return await self._sample(prompt_token_ids, sampling, max_tokens, stop_token_ids)

    async def stream(
        self,
        prompt_token_ids: Int32Array,
        *,
        sampling: Sampling,
        max_tokens: int,
        stop_token_ids: Sequence[int],
        episode_id: str,
        on_tokens: OnTokens,
    ) -> Generation:
        """The same, told along the way; a server whose answers carry no labels tells nothing before the end."""
        return await self._sample(prompt_token_ids, sampling, max_tokens, stop_token_ids, on_tokens)

    async def _sample(
        self,
        prompt_token_ids: Int32Array,
        sampling: Sampling,
        max_tokens: int,
        stop_token_ids: Sequence[int],
        on_tokens: OnTokens | None = None,
    ) -> Generation:
        room = self.context_length - len(prompt_token_ids)
        if len(prompt_token_ids) == 0 or max_tokens < 1 or room < 1:
            raise PolicyError(
                f"cannot sample {max_tokens} tokens after a prompt of {len(prompt_token_ids)} "
                f"with a context of {self.context_length}",
                hint="the harness must end the episode before its context is full",
            )
        prompt, stop = prompt_token_ids.tolist(), list(stop_token_ids)
        for _ in range(_ATTEMPTS):
            await self._open.wait()
            at_least, adapter = self.version, self._served.adapter
            with self._counted(adapter):
                try:
                    answer = await self.server.complete(
                        prompt, sampling, min(max_tokens, room), stop, on_tokens, adapter=adapter
                    )
                except NotServed:
                    if adapter is None:
                        raise
                    await self._restore()
                    continue
            versions = await self._version_spans(answer)
            if versions is not None and all(span.version >= at_least for span in versions):
                return Generation(answer.token_ids, answer.logprobs, versions, answer.finish_reason)
            await self._restore()
            if on_tokens is not None and len(answer.token_ids):
                raise PolicyError(f"the server at {self.server.url} streamed what nobody's weights had sampled")
        raise PolicyError(f"the server at {self.server.url} keeps serving weights that nobody published to it")

    async def load_weights(
        self, path: Path, version: int, *, score: Scorer | None = None, send: Send | None = None
    ) -> float:
        """Make the server serve another checkpoint (an untied one, on a disk it sees) as `version`.

        score: the logprobs the new weights give a probe, the checkpoint's own if unset. send: brings them in place of a reload;
        then `path` is read only if they are needed again. Returns the largest difference found. Raises PublishError, with the
        old weights and version back, where the server's differ; PolicyError where it does not take part in weight updates.
        """
        self._must_tell_labels()
        async with self._publishing:
            return await self._exchange(path, version, score or checkpoint_scorer(path), send)

    async def load_adapter(self, path: Path, version: int, *, score: Scorer | None = None) -> float:
        """Make the server sample with an adapter (peft's files) on its first weights, as `version`; see `load_weights`."""
        self._must_tell_labels()
        async with self._publishing:
            return await self._add_adapter(path, version, score or checkpoint_scorer(path))

    async def end_episode(self, episode_id: str) -> None:
        """Nothing to forget: the server's prefix cache is shared and evicts by itself."""

    async def close(self) -> None:
        await self.server.close()

    def _must_tell_labels(self) -> None:
        if not self.server.labelled:
            raise PolicyError(
                f"the server at {self.server.url} does not say which weights sampled a token",
                hint="start vLLM 0.32 or later with VLLM_SERVER_DEV_MODE=1 and --enable-scale-out",
            )

    async def _add_adapter(self, path: Path, version: int, score: Scorer) -> float:
        name, base = f"{version}-{secrets.token_hex(4)}", await asyncio.to_thread(self.server.label)
        try:
            await self.server.add_adapter(name, path)
            gap = await self._gap(score, name)
        except PolicyError as error:
            await self.server.drop_adapter(name)
            raise PublishError(f"version {version} was not published: {error.args[0]}") from error
        if gap > self.config.publish_tolerance:
            await self.server.drop_adapter(name)
            raise PublishError(
                f"with the adapter {path} the server's logprobs are off by {gap:.2g}: it does not serve that policy",
                hint="start the server from the model that the adapters are trained on",
            )
        self._adapters[name] = path
        self._trust(_Served(version, adapter_label(base, name), path, name))
        for idle in [one for one in self._adapters if one != name and not self._running[one]]:
            await self.server.drop_adapter(idle)
            del self._adapters[idle]
        return gap

    @contextlib.contextmanager
    def _counted(self, adapter: str | None) -> Iterator[None]:
        self._running[adapter] += 1
        try:
            yield
        finally:
            self._running[adapter] -= 1

    async def _exchange(self, path: Path, version: int, score: Scorer, send: Send | None = None) -> float:
        label, old = f"{version}-{secrets.token_hex(4)}", self._served
        self._open.clear()
        try:
            try:
                await self.server.exchange(path, label, send)
                gap = await self._gap(score)
            except PolicyError as error:
                await self._put_back(old)
                raise PublishError(f"version {version} was not published: {error.args[0]}") from error
            if gap > self.config.publish_tolerance:
                await self._put_back(old)
                raise PublishError(
                    f"after loading {path} the server's logprobs are off by {gap:.2g}: it does not serve those weights",
                    hint="start the server from an untied checkpoint and publish untied ones (agentgym.models.untie)",
                )
            self._trust(_Served(version, label, path))
            return gap
        finally:
            self._open.set()

    def _trust(self, served: _Served) -> None:
        self._served = served
        self._versions[served.label] = served.version

    async def _put_back(self, old: _Served) -> None:
        """The weights before a failed update, under the label they had. What fails here shows at the next answer."""
        if old.path is None or old.label is None:
            return
        try:
            await self.server.exchange(old.path, old.label)
        except PolicyError:
            return  # no label is trusted then, so the next answer leads to `_restore`

    async def _restore(self) -> None:
        """Load the last published weights again, unless somebody else has meanwhile. Raises PolicyError."""
        async with self._publishing:
            told, last = await asyncio.to_thread(self.server.label), self._served
            if await self._still_serves(last, told):
                return
            if last.path is None or not last.path.is_dir():
                raise PolicyError(
                    f"the server at {self.server.url} serves weights labelled {told!r}, which are not version "
                    f"{last.version}, and nothing was published that could be loaded again"
                )
            again = self._add_adapter if last.adapter else self._exchange
            await again(last.path, last.version, checkpoint_scorer(last.path))

    async def _still_serves(self, last: _Served, told: str | None) -> bool:
        if last.adapter is None:
            return self._versions.get(told) == last.version
        there = adapter_label(told, last.adapter) == last.label
        return there and last.adapter in await asyncio.to_thread(self.server.listed)

    async def _version_spans(self, answer: Answer) -> tuple[VersionSpan, ...] | None:
        """The answer's labels as versions; None where one stands for weights that were never vouched for."""
        if answer.labels is None:
            size = len(answer.token_ids)
            return (VersionSpan(self.version, 0, size),) if size else ()
        if any(label not in self._versions for label, _, _ in answer.labels):
            async with self._publishing:  # an update under way decides whether its label will be trusted
                pass
        if any(label not in self._versions for label, _, _ in answer.labels):
            return None
        found: list[VersionSpan] = []
        for label, start, end in answer.labels:
            version = self._versions[label]
            if found and found[-1].version == version:
                found[-1] = VersionSpan(version, found[-1].start, end)
            elif end > start:
                found.append(VersionSpan(version, start, end))
        return tuple(found)

    async def _gap(self, score: Scorer, adapter: str | None = None) -> float:
        async def ask(prompt: Int32Array) -> tuple[Int32Array, np.ndarray]:
            found = await self.server.complete(prompt.tolist(), Sampling(seed=0), 32, adapter=adapter)
            return found.token_ids, found.logprobs

        return await probe_gap(ask, score)
