"""A vLLM server as policy, over its completions endpoint: token ids out, token ids and their logprobs back.

What makes the record exact, and is checked rather than assumed:

- the server echoes the prompt ids it used; anything but what was sent is an error;
- the server must report *processed* logprobs (`--logprobs-mode processed_logprobs`), those of the sampled distribution.
  A probe decides: sampling with a single allowed token has logprob 0 there, and the raw one otherwise;
- every sampling parameter is sent, since a server fills in what is missing from the model's `generation_config.json`.

A weight update waits until the requests of this client have ended, so each generation has one version. The server must
run with `VLLM_SERVER_DEV_MODE=1` for it, and must be given an *untied* checkpoint (`agentgym.models.untie`).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from pydantic import Field

from agentgym.config import Config
from agentgym.store.records import FinishReason, Int32Array, PolicyKind, Sampling, VersionSpan
from harness.policies.protocol import Generation, PolicyError

_FINISH = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH, "abort": FinishReason.ABORT}
_BUSY = {408, 425, 429, 500, 502, 503, 504}
_SERVE_HINT = "start it with: python -m vllm.entrypoints.openai.api_server --logprobs-mode processed_logprobs ..."


class VllmPolicyConfig(Config):
    """Where the server is and how patient to be with it."""

    url: str = Field(description="base URL of the vLLM server, without /v1")
    model: str | None = Field(default=None, description="name the server serves it under; its only one if unset")
    api_key: str | None = Field(default=None, description="bearer token, where the server asks for one")
    timeout_s: float = Field(default=600.0, gt=0, description="longest wait for one generation, seconds")
    retries: int = Field(default=5, ge=0, description="attempts after a connection failure or a busy server")
    backoff_s: float = Field(default=0.5, gt=0, description="first wait before a retry; doubles each time")


class VllmPolicy:
    """Samples from a vLLM server; see `Policy`."""

    kind = PolicyKind.MODEL

    def __init__(self, config: VllmPolicyConfig, *, version: int = 0, name: str = "vllm") -> None:
        """Asks the server what it serves (blocking). Raises PolicyError where it is no usable vLLM server."""
        self.config = config
        self.name = name
        self._url = config.url.rstrip("/").removesuffix("/v1")
        self._version = version
        self._headers = {"Authorization": f"Bearer {config.api_key}"} if config.api_key else {}
        self.model, self.context_length = self._served()
        self._client: httpx.AsyncClient | None = None
        self._in_flight = 0
        self._open = asyncio.Event()
        self._open.set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._probe()

    @property
    def version(self) -> int:
        return self._version

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
        room = self.context_length - len(prompt_token_ids)
        if len(prompt_token_ids) == 0 or max_tokens < 1 or room < 1:
            raise PolicyError(
                f"cannot sample {max_tokens} tokens after a prompt of {len(prompt_token_ids)} "
                f"with a context of {self.context_length}",
                hint="the harness must end the episode before its context is full",
            )
        body = self._body(prompt_token_ids.tolist(), sampling, min(max_tokens, room), list(stop_token_ids))
        async with self._one_version() as version:
            answer = await self._post("/v1/completions", body)
        return _generation(answer, body["prompt"], sampling, version)

    async def load_weights(self, path: Path, version: int) -> None:
        """Make the server serve another checkpoint (an untied one, on a disk it sees) as `version`.

        Waits for this client's requests to end. Raises PolicyError where the server refuses.
        """
        self._open.clear()
        try:
            await self._idle.wait()
            await self._post("/pause?mode=abort", None)
            try:
                reload = {"method": "reload_weights", "kwargs": {"weights_path": str(path)}}
                await self._post("/collective_rpc", reload)
                await self._post("/reset_prefix_cache", None)
            finally:
                await self._post("/resume", None)
            self._version = version
        finally:
            self._open.set()

    async def end_episode(self, episode_id: str) -> None:
        """Nothing to forget: the server's prefix cache is shared and evicts by itself."""

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    @asynccontextmanager
    async def _one_version(self) -> AsyncIterator[int]:
        """A request in flight: no weight update begins before it has ended."""
        await self._open.wait()
        self._in_flight += 1
        self._idle.clear()
        try:
            yield self._version
        finally:
            self._in_flight -= 1
            if self._in_flight == 0:
                self._idle.set()

    def _body(self, prompt: list[int], sampling: Sampling, max_tokens: int, stop: list[int]) -> dict[str, Any]:
        return {
            "model": self.model,
            "prompt": prompt,
            "max_tokens": max_tokens,
            "stop_token_ids": stop,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "seed": sampling.seed,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "n": 1,
            "logprobs": 0,
            "return_token_ids": True,
            "skip_special_tokens": False,
        }

    async def _post(self, path: str, body: dict[str, Any] | None) -> Any:
        """The JSON answer, or None where there is none; retried while the server is not there or busy."""
        self._client = self._client or httpx.AsyncClient(headers=self._headers, timeout=self.config.timeout_s)
        failure = ""
        for attempt in range(self.config.retries + 1):
            try:
                response = await self._client.post(self._url + path, json=body)
            except httpx.TransportError as error:
                failure = f"{type(error).__name__}: {error}"
            else:
                if response.is_success:
                    return response.json() if response.content else None
                failure = f"HTTP {response.status_code}: {response.text[:500]}"
                if response.status_code not in _BUSY:
                    break
            if attempt < self.config.retries:
                # Spread out, so that hundreds of episodes do not come back in one burst.
                await asyncio.sleep(self.config.backoff_s * 2**attempt * random.uniform(0.5, 1.5))
        raise PolicyError(f"the vLLM server at {self._url} did not answer {path}: {failure}")

    def _served(self) -> tuple[str, int]:
        try:
            answer = httpx.get(f"{self._url}/v1/models", headers=self._headers, timeout=30.0)
            answer.raise_for_status()
            models = {model["id"]: model.get("max_model_len") for model in answer.json()["data"]}
        except (httpx.HTTPError, ValueError, KeyError) as error:
            raise PolicyError(f"no vLLM server answers at {self._url}: {error}", hint=_SERVE_HINT) from error
        name = self.config.model or next(iter(models), "")
        if not models.get(name):
            raise PolicyError(
                f"the server at {self._url} serves {', '.join(models) or 'no model'}, not {name!r} with a known length"
            )
        return name, int(models[name])

    def _probe(self) -> None:
        """Refuse a server whose logprobs are not those of the distribution it samples from."""
        body = self._body([1, 1], Sampling(), 1, []) | {"allowed_token_ids": [1]}
        try:
            answer = httpx.post(f"{self._url}/v1/completions", json=body, headers=self._headers, timeout=120.0)
            answer.raise_for_status()
            found = _generation(answer.json(), body["prompt"], Sampling(), 0)
        except (httpx.HTTPError, ValueError) as error:
            raise PolicyError(f"the server at {self._url} does not complete token ids: {error}") from error
        if abs(float(found.logprobs[0])) > 1e-3:
            raise PolicyError(
                f"the server at {self._url} reports raw logprobs, not those of the distribution it samples from",
                hint=_SERVE_HINT,
            )


def _generation(answer: Any, prompt: list[int], sampling: Sampling, version: int) -> Generation:
    """The server's answer as a record; raises PolicyError where it is incomplete or not about our prompt."""
    try:
        choice = answer["choices"][0]
        tokens = np.asarray(choice["token_ids"], dtype=np.int32)
        logprobs = np.asarray(choice["logprobs"]["token_logprobs"], dtype=np.float32)
        seen, finish = choice["prompt_token_ids"], _FINISH[choice["finish_reason"]]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise PolicyError(f"the vLLM server's answer lacks {error}; is it vLLM 0.10.2 or later?") from error
    if seen != prompt:
        raise PolicyError(f"the server saw another prompt ({len(seen)} tokens) than was sent ({len(prompt)})")
    if len(tokens) != len(logprobs) or not np.isfinite(logprobs).all():
        raise PolicyError(f"the server gave {len(logprobs)} finite logprobs or fewer for {len(tokens)} tokens")
    if sampling.temperature == 0:
        logprobs = np.zeros_like(logprobs)  # a point mass, as `harness.policies.sampling` defines it
    spans = (VersionSpan(version, 0, len(tokens)),) if len(tokens) else ()
    return Generation(tokens, logprobs, spans, finish)
