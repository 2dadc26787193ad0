"""One vLLM server over HTTP: token ids out; token ids, their logprobs and the label of the weights behind each back.

The road is `/inference/v1/generate`, vLLM's own token-in/token-out endpoint: the server itself says which weights sampled
which token (`weight_versions`), so a generation may cross a weight update. A server too old to have it is asked through
`/v1/completions`, and so is one started without `--enable-scale-out`; its answers carry no labels, and its weights cannot be
exchanged.

Checked rather than assumed:

- the server echoes the prompt ids it used; anything but what was sent is an error;
- the server must report *processed* logprobs (`--logprobs-mode processed_logprobs`), those of the sampled distribution.
  A probe decides: sampling with a single allowed token has logprob 0 there, and the raw one otherwise;
- every sampling parameter is sent, since a server fills in what is missing from the model's `generation_config.json`.

Weights are exchanged while the server is paused with its requests kept; their keys and values are computed again, so a
token's logprob is exactly that of the weights it is labelled with. That needs `VLLM_SERVER_DEV_MODE=1`.

A LoRA adapter is put beside those that are served, under a name of its own, and each request names the one that samples it:
nothing pauses, and the name is part of its answer's label. vLLM 0.32 can also exchange an adapter under its name
(`load_inplace`), but then running requests bring their own adapter back from disk while the server already reports the
next (docs/training.md has the measurement).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from pydantic import Field

from agentgym.config import Config
from agentgym.errors import AgentGymError
from agentgym.store.records import FinishReason, Float32Array, Int32Array, Sampling
from harness.policies.protocol import OnTokens, PolicyError
from harness.policies.vllm_stream import StreamedAnswer

_FINISH = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH, "abort": FinishReason.ABORT}
_BUSY = {408, 425, 429, 500, 502, 503, 504}
_SERVE_HINT = (
    "start it with: python -m vllm.entrypoints.openai.api_server --logprobs-mode processed_logprobs --enable-scale-out"
)
_GENERATE = "/inference/v1/generate"
_COMPLETIONS = "/v1/completions"


class VllmPolicyConfig(Config):
    """Where the server is and how patient to be with it."""

    url: str = Field(description="base URL of the vLLM server, without /v1")
    model: str | None = Field(default=None, description="name the server serves it under; its only one if unset")
    api_key: str | None = Field(default=None, description="bearer token, where the server asks for one")
    timeout_s: float = Field(default=600.0, gt=0, description="longest wait for one generation, seconds")
    retries: int = Field(default=5, ge=0, description="attempts after a connection failure or a busy server")
    backoff_s: float = Field(default=0.5, gt=0, description="first wait before a retry, seconds; doubles each time")
    max_backoff_s: float = Field(default=15.0, gt=0, description="longest wait before a retry, seconds")
    publish_tolerance: float = Field(
        default=1e-3, gt=0, description="largest logprob gap after a weight update, nats; a bf16 server needs 0.05"
    )


Send = Callable[[], None]
"""Brings weights to the server's workers (blocking). Raises an AgentGymError where they did not arrive."""


class NotServed(PolicyError):
    """The server has nothing under the path or name that was asked for."""


@dataclass(frozen=True, slots=True)
class AdapterRoom:
    """What a server has room for. adapters: in one batch. rank: of the largest."""

    adapters: int
    rank: int


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """token_ids: int32[G]. logprobs: float32[G] nats. labels: (label, start, end) spans over them; None: not told."""

    token_ids: Int32Array
    logprobs: Float32Array
    labels: tuple[tuple[str, int, int], ...] | None
    finish_reason: FinishReason


class VllmServer:
    """Speaks to one server. model: the name it serves. root: the path its first weights came from.

    labelled: whether its answers say which weights sampled them. first_label: what they said when it was first asked.
    """

    def __init__(self, config: VllmPolicyConfig) -> None:
        """Asks the server what it serves (blocking). Raises PolicyError where it is no usable vLLM server."""
        self.config = config
        self.url = config.url.rstrip("/").removesuffix("/v1")
        self._headers = {"Authorization": f"Bearer {config.api_key}"} if config.api_key else {}
        self._client: httpx.AsyncClient | None = None
        self.model, self.root, self.context_length = self._served()
        self.labelled, self.first_label = self._probe()

    async def complete(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        max_tokens: int,
        stop_token_ids: Sequence[int] = (),
        on_tokens: OnTokens | None = None,
        adapter: str | None = None,
    ) -> Answer:
        """Sample up to `max_tokens` after `prompt`; a server with labels tells `on_tokens` along the way.

        adapter: the one to sample with; labels are `adapter_label`'s then. Raises PolicyError, NotServed where there is no
        such adapter.
        """
        path, body = self._request(list(prompt), sampling, max_tokens, list(stop_token_ids))
        if adapter is not None:
            body["model"] = adapter
        if on_tokens is None or not self.labelled:
            answer = _answer(await self.post(path, body), list(prompt), sampling)
        else:
            streamed = StreamedAnswer(on_tokens)
            await self.post(path, body | {"stream": True}, on_event=streamed.take)
            answer = _answer(streamed.document, list(prompt), sampling)
        if adapter is None or answer.labels is None:
            return answer
        return replace(answer, labels=tuple((adapter_label(base, adapter), s, e) for base, s, e in answer.labels))

    async def exchange(self, weights: Path, label: str, send: Send | None = None) -> None:
        """Load other weights of the same model, from a path the server sees or as `send` brings them; running requests go on
        with them.

        The label is set first: should loading fail half-way, no token is attributed to the weights before it.
        """
        await self.post("/pause?mode=keep", None)
        try:
            await self.post("/update_weight_version", {"new_version": label})
            reload = {"method": "reload_weights", "kwargs": {"weights_path": str(weights)}}
            if send is None:
                await self.post("/collective_rpc", reload, busy=False)
            else:
                await _sent(send)
            await self.post("/reset_prefix_cache?reset_running_requests=true", None)
        finally:
            await self.post("/resume", None)

    async def add_adapter(self, name: str, path: Path) -> None:
        """Serve an adapter (peft's files, at a path the server sees) beside the others. The name must be a new one."""
        try:
            await self.post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(path)}, busy=False)
        except PolicyError:
            if name not in await asyncio.to_thread(self.listed):  # it is, where only the answer was lost
                raise

    async def drop_adapter(self, name: str) -> None:
        """No longer serve it to new requests. What cannot be dropped is a name that nobody asks for: no error."""
        with contextlib.suppress(PolicyError):
            await self.post("/v1/unload_lora_adapter", {"lora_name": name}, busy=False)

    def adapter_room(self) -> AdapterRoom | None:
        """Room for adapters that come while it runs (blocking); None where the server was not started with any."""
        told = self._info()
        lora = told["vllm_config"].get("lora_config")
        if lora is None or not told["vllm_env"].get("VLLM_ALLOW_RUNTIME_LORA_UPDATING"):
            return None
        return AdapterRoom(lora["max_loras"], lora["max_lora_rank"])

    def transfer(self) -> tuple[str | None, int]:
        """Over what the server takes weights from another process (blocking), None where it does not; and its workers."""
        config = self._info()["vllm_config"]
        parallel = config["parallel_config"]
        workers = parallel["tensor_parallel_size"] * parallel["pipeline_parallel_size"] * parallel["data_parallel_size"]
        return (config.get("weight_transfer_config") or {}).get("backend"), workers

    def _info(self) -> dict[str, Any]:
        try:
            asked = {"config_format": "json"}
            answer = httpx.get(f"{self.url}/server_info", params=asked, headers=self._headers, timeout=120.0)
            answer.raise_for_status()
            return answer.json()
        except (httpx.HTTPError, ValueError) as error:
            raise PolicyError(
                f"the server at {self.url} does not say how it was started: {error}",
                hint="start vLLM 0.32 or later with VLLM_SERVER_DEV_MODE=1",
            ) from error

    def listed(self) -> dict[str, Any]:
        """What the server says it serves, by name (blocking): its model first, then adapters. Raises PolicyError."""
        try:
            answer = httpx.get(f"{self.url}/v1/models", headers=self._headers, timeout=30.0)
            answer.raise_for_status()
            return {model["id"]: model for model in answer.json()["data"]}
        except (httpx.HTTPError, ValueError, KeyError) as error:
            raise PolicyError(f"no vLLM server answers at {self.url}: {error}", hint=_SERVE_HINT) from error

    def label(self) -> str | None:
        """The label of the weights served now (blocking); None where the server does not tell."""
        try:
            answer = httpx.get(f"{self.url}/weight_info", headers=self._headers, timeout=30.0)
            return str(answer.json()["weight_version"]) if answer.is_success else None
        except (httpx.HTTPError, ValueError, KeyError):
            return None

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def post(
        self,
        path: str,
        body: dict[str, Any] | None,
        *,
        busy: bool = True,
        on_event: Callable[[Any], None] | None = None,
    ) -> Any:
        """The JSON answer, or None where there is none; retried while the server is not there or (`busy`) overloaded.

        on_event: gets each event of a streamed answer; one that is cut behind its first event is not asked for again.
        """
        self._client = self._client or httpx.AsyncClient(
            headers=self._headers, timeout=self.config.timeout_s, limits=httpx.Limits(max_connections=None)
        )
        failure, told, kind = "", False, PolicyError

        def tell(event: Any) -> None:
            nonlocal told
            told = True
            assert on_event is not None
            on_event(event)

        for attempt in range(self.config.retries + 1):
            try:
                if on_event is None:
                    response = await self._client.post(self.url + path, json=body)
                else:
                    response = await _read_events(self._client, self.url + path, body, tell)
            except httpx.TransportError as error:
                failure, kind = f"{type(error).__name__}: {error}", PolicyError
                if told:
                    break
            else:
                if response.is_success:  # adapters are answered for in plain text
                    return response.json() if "json" in response.headers.get("content-type", "") else None
                failure = f"HTTP {response.status_code}: {response.text[:500]}"
                kind = NotServed if response.status_code == 404 else PolicyError
                if not busy or response.status_code not in _BUSY:
                    break
            if attempt < self.config.retries:
                # Spread out, so that hundreds of episodes do not come back in one burst.
                wait = min(self.config.backoff_s * 2**attempt, self.config.max_backoff_s)
                await asyncio.sleep(wait * random.uniform(0.5, 1.5))
        raise kind(f"the vLLM server at {self.url} did not answer {path}: {failure}")

    def _request(
        self, prompt: list[int], sampling: Sampling, max_tokens: int, stop: list[int], *, generate: bool | None = None
    ) -> tuple[str, dict[str, Any]]:
        parameters: dict[str, Any] = {
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
            "skip_special_tokens": False,
        }
        if self.labelled if generate is None else generate:
            sampled = parameters | {"detokenize": False}
            body = {"model": self.model, "token_ids": prompt, "sampling_params": sampled, "return_token_ids": True}
            return _GENERATE, body
        return _COMPLETIONS, {"model": self.model, "prompt": prompt, "return_token_ids": True, **parameters}

    def _served(self) -> tuple[str, Path | None, int]:
        models = self.listed()
        name = self.config.model or next(iter(models), "")
        if not models.get(name, {}).get("max_model_len"):
            raise PolicyError(
                f"the server at {self.url} serves {', '.join(models) or 'no model'}, not {name!r} with a known length"
            )
        root = models[name].get("root")
        return name, Path(root) if root else None, int(models[name]["max_model_len"])

    def _probe(self) -> tuple[bool, str | None]:
        """Whether answers are labelled, and how. Refuses a server whose logprobs are not of what it samples from."""
        for generate in (True, False):
            path, body = self._request([1, 1], Sampling(), 1, [], generate=generate)
            (body["sampling_params"] if generate else body)["allowed_token_ids"] = [1]
            try:
                answer = httpx.post(self.url + path, json=body, headers=self._headers, timeout=120.0)
                if generate and answer.status_code in (403, 404, 405):  # too old, or without --enable-scale-out
                    continue
                answer.raise_for_status()
                found = _answer(answer.json(), [1, 1], Sampling())
            except (httpx.HTTPError, ValueError) as error:
                raise PolicyError(f"the server at {self.url} does not complete token ids: {error}") from error
            if abs(float(found.logprobs[0])) > 1e-3:
                raise PolicyError(
                    f"the server at {self.url} reports raw logprobs, not those of the distribution it samples from",
                    hint=_SERVE_HINT,
                )
            if generate and not found.labels:
                continue
            return generate, found.labels[-1][0] if found.labels else None
        raise AssertionError("the completions endpoint either answers or raises")


async def _sent(send: Send) -> None:
    try:
        await asyncio.to_thread(send)
    except AgentGymError as error:
        raise PolicyError(str(error.args[0])) from error


def adapter_label(base: str | None, adapter: str) -> str:
    """What labels a token sampled with an adapter on weights with a label of their own."""
    return f"{base}+{adapter}"


async def _read_events(
    client: httpx.AsyncClient, url: str, body: dict[str, Any] | None, tell: Callable[[Any], None]
) -> httpx.Response:
    """A response whose events have been told; one that is no success is read as a whole."""
    async with client.stream("POST", url, json=body) as response:
        if response.is_success:
            async for line in response.aiter_lines():
                if line.startswith("data: ") and line != "data: [DONE]":
                    try:
                        event = json.loads(line.removeprefix("data: "))
                    except ValueError as error:
                        raise PolicyError(f"{url} streamed what is no JSON: {line[:200]!r}") from error
                    tell(event)
            return httpx.Response(response.status_code)
        await response.aread()
        return response


def _answer(answer: Any, prompt: list[int], sampling: Sampling) -> Answer:
    """The server's answer, from either endpoint; raises PolicyError where it is incomplete or not about our prompt."""
    try:
        choice = answer["choices"][0]
        given = choice["logprobs"]
        tokens = np.asarray(choice["token_ids"], dtype=np.int32)
        listed = given["token_logprobs"] if "token_logprobs" in given else [one["logprob"] for one in given["content"]]
        logprobs = np.asarray(listed, dtype=np.float32)
        seen = choice["prompt_token_ids"] if "prompt_token_ids" in choice else answer["prompt_token_ids"]
        finish = _FINISH[choice["finish_reason"]]
        spans = choice.get("weight_versions")
        labels = None if spans is None else tuple((str(s["version"]), s["start"], s["end"]) for s in spans)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise PolicyError(f"the vLLM server's answer lacks {error}; is it vLLM 0.10.2 or later?") from error
    if seen != prompt:
        raise PolicyError(f"the server saw another prompt ({len(seen)} tokens) than was sent ({len(prompt)})")
    if len(tokens) != len(logprobs) or not np.isfinite(logprobs).all() or (logprobs <= -9999).any():
        raise PolicyError(f"the server gave {len(logprobs)} finite logprobs or fewer for {len(tokens)} tokens")
    if sampling.temperature == 0:
        logprobs = np.zeros_like(logprobs)  # a point mass, as `harness.policies.sampling` defines it
    return Answer(tokens, logprobs, labels, finish)
