"""OpenAI completions: a raw prompt, as text or as token ids. The client renders the conversation itself.

Where its text starts with a prompt and its answer from before, the ids of both stand; only what is new is encoded. Control tokens
are spelled as the tokenizer spells them, since here the client is the one who writes the template.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.gateway.api.chat import sampling, usage
from harness.gateway.api.dialect import Body, Event, Served, check_parameters, pieces
from harness.gateway.ask import Answer, Ask
from harness.gateway.messages import number, strings
from harness.gateway.refusal import Refusal, unusable

_KNOWN = frozenset(
    {
        "prompt",
        "temperature",
        "top_p",
        "top_k",
        "seed",
        "max_tokens",
        "stop",
        "stream",
        "stream_options",
        "logprobs",
        "return_token_ids",
    }
)
_FIXED: dict[str, tuple[object, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "logit_bias": ({},),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "min_p": (0,),
}


class Completions:
    """See `Dialect`."""

    def read(self, body: Body) -> Ask:
        check_parameters(body, _KNOWN, _FIXED)
        if body.get("logprobs") not in (None, False, 0, 1):
            raise unusable("logprobs can be 0 or 1: only those of the sampled tokens are known", "logprobs")
        most = number(body, "max_tokens", 1, 1 << 30, whole=True)
        prompt = body.get("prompt")
        if isinstance(prompt, list) and len(prompt) == 1 and not isinstance(prompt[0], int):
            prompt = prompt[0]
        shared: dict[str, Any] = {"max_tokens": most, "stop": strings(body, "stop"), **sampling(body)}
        if isinstance(prompt, str) and prompt:
            return Ask(text=prompt, **shared)
        if isinstance(prompt, list) and prompt and all(type(token) is int and 0 <= token < 1 << 31 for token in prompt):
            return Ask(token_ids=tuple(prompt), **shared)
        raise unusable("prompt must be one text, or one list of token ids, and not empty", "prompt")

    def document(self, body: Body, answer: Answer, served: Served) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": 0, "text": answer.content, "finish_reason": answer.finish, "logprobs": None}
        if body.get("logprobs") not in (None, False):
            choice["logprobs"] = _logprobs(answer, served)
        if body.get("return_token_ids"):
            choice["prompt_token_ids"] = answer.prompt.tolist()
            choice["token_ids"] = answer.generation.token_ids.tolist()
        return self._head(answer, served) | {"choices": [choice], "usage": usage(answer)}

    def events(self, body: Body, answer: Answer, served: Served) -> Iterator[Event]:
        head = self._head(answer, served)
        for part in pieces(answer.content):
            choice = {"index": 0, "text": part, "finish_reason": None, "logprobs": None}
            yield Event(head | {"choices": [choice]}, chars=len(part))
        logprobs = _logprobs(answer, served) if body.get("logprobs") not in (None, False) else None
        last = {"index": 0, "text": "", "finish_reason": answer.finish, "logprobs": logprobs}
        yield Event(head | {"choices": [last]})
        if (body.get("stream_options") or {}).get("include_usage"):
            yield Event(head | {"choices": [], "usage": usage(answer)})
        yield Event("[DONE]")

    def refusal(self, refusal: Refusal) -> dict[str, Any]:
        return refusal.openai()

    def _head(self, answer: Answer, served: Served) -> dict[str, Any]:
        return {
            "id": f"cmpl-{answer.id}",
            "object": "text_completion",
            "created": answer.created,
            "model": served.model,
        }


def _logprobs(answer: Answer, served: Served) -> dict[str, Any]:
    tokens = [served.renderer.decode([token]) for token in answer.generation.token_ids.tolist()]
    return {
        "tokens": tokens,
        "token_logprobs": answer.generation.logprobs.tolist(),
        "top_logprobs": None,
        "text_offset": [sum(map(len, tokens[:k])) for k in range(len(tokens))],
    }
