"""Harmony, the format of gpt-oss: a turn is several messages on channels, and ends with a call or with the final one.

    <|start|>assistant<|channel|>analysis<|message|>{reasoning}<|end|>
    <|start|>assistant to=functions.{tool}<|channel|>commentary json<|message|>{arguments}<|call|>
    <|start|>functions.{tool} to=assistant<|channel|>commentary<|message|>{observation}<|end|>
    <|start|>assistant<|channel|>final<|message|>{answer}<|return|>

The `renderers` package's own renderer of it is not used: it encodes with a vocabulary that it downloads, past the marks of
`guard.py`, and takes the header of a call, which the policy samples, for template. So the model's chat template renders, and
the package's parser reads, by token ids. Where the template would rewrite history, nothing is rewritten: a final answer keeps
the `<|return|>` that was sampled (the template writes `<|end|>`), and reasoning stays in the context behind it. A turn has
one call at most, as in the template.
"""

from __future__ import annotations

import re

from renderers import ParsedResponse, ToolSpec
from renderers.parsing import parse_gpt_oss

from harness.render.guard import GuardedTokenizer
from harness.render.template import TemplateRenderer, TemplateUnusable

_STOPS = ("<|return|>", "<|call|>")
_END = "<|end|>"
_OTHERS = ("<|start|>", "<|channel|>", "<|message|>", "<|constrain|>")
_TURN_END = re.compile(r"<\|return\|>|<\|call\|>|<\|end\|>(?!<\|start\|>assistant)")


class HarmonyRenderer(TemplateRenderer):
    """`Renderer` for a tokenizer with harmony's control tokens and chat template; raises TemplateUnusable for any other."""

    name = "gpt-oss"

    def __init__(self, tokenizer: GuardedTokenizer) -> None:
        vocabulary, template = tokenizer.get_added_vocab(), tokenizer.chat_template or ""
        missing = [token for token in (*_STOPS, _END, *_OTHERS) if token not in vocabulary]
        if missing:
            raise TemplateUnusable(f"the tokenizer lacks harmony's control tokens {', '.join(missing)}")
        if not all(token in template for token in (*_STOPS, "<|channel|>")):
            raise TemplateUnusable("its chat template does not write harmony")
        self._tokenizer = tokenizer
        self._stops = {text: vocabulary[text] for text in _STOPS}
        self._closings = {**self._stops, _END: vocabulary[_END]}
        self._ids = {text: vocabulary[text] for text in _OTHERS}
        self._header = [vocabulary["<|start|>"], *tokenizer.encode("assistant", add_special_tokens=False)]

    def parse_response(
        self, token_ids: list[int], *, tools: list[ToolSpec] | None = None, prompt_ids: list[int] | None = None
    ) -> ParsedResponse:
        """The prompt ends in `<|start|>assistant`; the rest of the first message's header is sampled."""
        if self._ids["<|message|>"] not in token_ids:
            said = [token for token in token_ids if token not in self._stops.values()]
            return ParsedResponse(content=self._tokenizer.decode(said, skip_special_tokens=False).strip())
        return parse_gpt_oss(
            self._tokenizer,
            [*self._header, *token_ids],
            return_id=self._stops["<|return|>"],
            call_id=self._stops["<|call|>"],
            end_id=self._closings[_END],
            start_id=self._ids["<|start|>"],
            channel_id=self._ids["<|channel|>"],
            message_id=self._ids["<|message|>"],
            constrain_id=self._ids["<|constrain|>"],
        )

    def _turn_end(self, text: str) -> tuple[str, int] | None:
        found = _TURN_END.search(text)
        return (found[0], found.end()) if found else None

    def _as_sampled(self, turn: str) -> str:
        return turn.removesuffix(_END) + "<|return|>" if turn.endswith(_END) else turn
