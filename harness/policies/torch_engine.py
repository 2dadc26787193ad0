"""The in-process inference engine: one worker thread, continuous batching, exact records.

All torch work happens on one thread that owns the model and every slab; asyncio talks to it through a queue and waits
on futures. Each turn of the loop packs one token per decoding request and as many prompt tokens as the chunk allows
into one ragged forward pass (see `ragged`), so episodes join and leave at any step. Kept between turns: each episode's
slab, up to a memory budget, least recently used first out. A new prompt starts from whatever slab shares most of it,
its own or another episode's (the system prompt is computed once).

A weight update happens between two steps. Everything kept was computed with the old weights, so all slabs are emptied
and running requests recompute their prefix: a token's logprob is then exactly that of the version its span names.
"""

from __future__ import annotations

import queue
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

import numpy as np
import torch
from transformers import PreTrainedModel

from agentgym.store.records import FinishReason, Int32Array, Sampling, VersionSpan
from harness.policies.protocol import Generation, PolicyError
from harness.policies.ragged import Slab, forward
from harness.policies.sampling import generator_for, sample

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Request:
    """One generation in progress. tokens: the prompt and what has been sampled so far."""

    episode_id: str
    prompt: Int32Array
    sampling: Sampling
    max_tokens: int
    stop_token_ids: frozenset[int]
    generator: torch.Generator
    future: Future[Generation] = field(default_factory=Future)
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tokens = self.prompt.tolist()

    def generation(self, reason: FinishReason) -> Generation:
        return Generation(
            token_ids=np.asarray(self.tokens[len(self.prompt) :], dtype=np.int32),
            logprobs=np.asarray(self.logprobs, dtype=np.float32),
            versions=_spans(self.versions),
            finish_reason=reason,
        )


class TorchEngine:
    """Owns the model, the slabs and the worker thread. Public methods may be called from any thread."""

    def __init__(
        self, model: PreTrainedModel, *, version: int, max_batch: int, prefill_chunk: int, kv_cache_bytes: int
    ) -> None:
        self.version = version
        self.model = model
        self._max_batch = max_batch
        self._prefill_chunk = prefill_chunk
        self._kv_cache_bytes = kv_cache_bytes
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._waiting: deque[Request] = deque()
        self._running: dict[Request, Slab] = {}
        self._idle: OrderedDict[str, Slab] = OrderedDict()
        self._thread = threading.Thread(target=self._work, name="torch-engine", daemon=True)
        self._thread.start()

    def submit(
        self,
        prompt: Int32Array,
        *,
        sampling: Sampling,
        max_tokens: int,
        stop_token_ids: frozenset[int],
        episode_id: str,
    ) -> Future[Generation]:
        """Queue one generation; cancelling the future drops it at the next step."""
        generator = generator_for(sampling.seed, self.model.device)
        request = Request(episode_id, prompt, sampling, max_tokens, stop_token_ids, generator)
        self._inbox.put(lambda: self._waiting.append(request))
        return request.future

    def swap(self, model: PreTrainedModel, version: int) -> Future[None]:
        """Go on with other weights from the next step; the future says when that is so."""

        def exchange() -> None:
            self.model, self.version = model, version
            self._idle.clear()
            self._running = {request: self._new_slab() for request in self._running}

        return self._call(exchange)

    def forget(self, episode_id: str) -> Future[None]:
        """The episode is over: its slab may still lend its prefix, but is the first to go when memory is needed."""

        def demote() -> None:
            if episode_id in self._idle:
                self._idle.move_to_end(episode_id, last=False)

        return self._call(demote)

    def close(self) -> None:
        """Stop the worker after its current step; requests still open fail with PolicyError."""
        self._inbox.put(None)
        self._thread.join()

    def _call(self, action: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()

        def run() -> None:
            try:
                _settle(future, result=action())
            except Exception as error:  # the caller's failure, not the worker's end
                _settle(future, error=error)

        self._inbox.put(run)
        return future

    def _work(self) -> None:
        with torch.inference_mode():
            while self._read_inbox():
                self._drop_cancelled()
                self._admit()
                if not self._running:
                    continue
                try:
                    self._step()
                except Exception as error:  # the model's failure is each caller's PolicyError; the engine lives on
                    self._fail_running(error)
        self._fail_running(RuntimeError("the engine was closed"))
        for request in self._waiting:
            _settle(request.future, error=PolicyError("the engine was closed before the request was served"))

    def _read_inbox(self) -> bool:
        """Do what was asked from outside; waits only when there is nothing to run. False: stop."""
        block = not (self._running or self._waiting)
        while True:
            try:
                action = self._inbox.get(block=block)
            except queue.Empty:
                return True
            if action is None:
                return False
            action()
            block = False

    def _drop_cancelled(self) -> None:
        for request in [request for request in self._running if request.future.cancelled()]:
            self._retire(request)
        self._waiting = deque(request for request in self._waiting if not request.future.cancelled())

    def _admit(self) -> None:
        while self._waiting and len(self._running) < self._max_batch:
            request = self._waiting.popleft()
            try:
                self._running[request] = self._slab_for(request)
            except (MemoryError, RuntimeError) as error:  # torch reports a lack of memory as RuntimeError
                _settle(request.future, error=PolicyError(f"no memory for the request's keys and values: {error}"))

    def _slab_for(self, request: Request) -> Slab:
        """The episode's own slab, or a new one that borrows the longest prefix any other slab holds."""
        slab = self._idle.pop(request.episode_id, None) or self._new_slab()
        # At least the last prompt token must run, or there would be no logits to sample from.
        prompt = request.prompt[:-1]
        slab.crop(slab.common_prefix(prompt))
        donors = [*self._idle.values(), *self._running.values()]
        donor = max(donors, key=lambda other: other.common_prefix(prompt), default=slab)
        if (shared := donor.common_prefix(prompt)) > len(slab):
            slab.copy_prefix(donor, shared)
        slab.reserve(len(request.prompt))
        return slab

    def _new_slab(self) -> Slab:
        return Slab(self.model.config, self.model.dtype, self.model.device)

    def _step(self) -> None:
        budget = self._prefill_chunk
        work: list[tuple[Request, Slab, list[int], bool]] = []
        for request, slab in self._running.items():
            pending = request.tokens[len(slab) :]
            tokens = pending[: max(1, budget)] if budget > 0 or len(pending) == 1 else []
            if len(pending) > 1:
                budget -= len(tokens)
            if tokens:
                work.append((request, slab, tokens, len(tokens) == len(pending)))
        logits = forward(self.model, [(slab, tokens, last) for _, slab, tokens, last in work])
        sampled = [request for request, _, _, last in work if last]
        for request, row in zip(sampled, logits, strict=True):
            self._extend(request, row)

    def _extend(self, request: Request, logits: torch.Tensor) -> None:
        token, logprob = sample(logits, request.sampling, request.generator)
        request.tokens.append(token)
        request.logprobs.append(logprob)
        request.versions.append(self.version)
        if token in request.stop_token_ids:
            self._finish(request, FinishReason.STOP)
        elif len(request.logprobs) >= request.max_tokens:
            self._finish(request, FinishReason.LENGTH)

    def _finish(self, request: Request, reason: FinishReason) -> None:
        self._retire(request)
        _settle(request.future, result=request.generation(reason))

    def _retire(self, request: Request) -> None:
        """Keep the slab for the episode's next turn, within the budget for all that is kept."""
        self._idle[request.episode_id] = self._running.pop(request)
        self._idle.move_to_end(request.episode_id)
        held = sum(slab.nbytes for slab in [*self._idle.values(), *self._running.values()])
        while self._idle and held > self._kv_cache_bytes:
            held -= self._idle.popitem(last=False)[1].nbytes

    def _fail_running(self, error: Exception) -> None:
        for request in self._running:
            _settle(request.future, error=PolicyError(f"in-process inference failed: {error!r}"))
        self._running.clear()
        self._idle.clear()


def _settle(future: Future[T], *, result: T | None = None, error: Exception | None = None) -> None:
    """Complete a future that its owner may cancel at the same moment."""
    try:
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]
    except InvalidStateError:
        return


def _spans(versions: list[int]) -> tuple[VersionSpan, ...]:
    cuts = [0, *(i for i in range(1, len(versions)) if versions[i] != versions[i - 1]), len(versions)]
    return tuple(VersionSpan(versions[a], a, b) for a, b in pairwise(cuts) if b > a)
