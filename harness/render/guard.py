"""Text from outside can never become a control token.

A tokenizer turns the characters `<|im_end|>` into the control token that ends a turn, wherever they stand. A file the
agent reads, or the output of a command, may hold exactly those characters, by accident (a tokenizer's own source) or by
design. So everything that is not template is passed through `guard`, which puts a mark inside each occurrence of an
added token's text; `GuardedTokenizer` encodes the text between marks piece by piece and drops the marks. The policy
reads the same characters, spelled with ordinary tokens, and the template around them keeps its control tokens.
Renderers need not know.

The mark is a Unicode noncharacter, reserved for use inside programs; should outside text hold one, it becomes U+FFFD.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

MARK = "\ufdd0"


def guard(text: str, tokenizer: Any) -> str:
    """`text` with a mark inside every added token's text; encode it with a `GuardedTokenizer` of the same tokenizer."""
    text = text.replace(MARK, "\ufffd")
    pattern = _pattern(tuple(sorted(tokenizer.get_added_vocab(), key=len, reverse=True)))
    if pattern is None:
        return text
    # A token's text may begin inside another's ("<<s>s>"), so look again from the second character of each match.
    pieces: list[str] = []
    start = 0
    while match := pattern.search(text, start):
        pieces.append(text[start : match.start() + 1])
        start = match.start() + 1
    pieces.append(text[start:])
    return MARK.join(pieces)


@lru_cache(maxsize=64)
def _pattern(tokens: Sequence[str]) -> re.Pattern[str] | None:
    # One-character tokens cannot be split; tokenizers use them for ordinary characters, never for control.
    splittable = [re.escape(token) for token in tokens if len(token) > 1]
    return re.compile("|".join(splittable)) if splittable else None


class GuardedTokenizer:
    """A tokenizer that honours the marks of `guard`; everything else is the wrapped tokenizer's."""

    def __init__(self, tokenizer: Any) -> None:
        self.wrapped = tokenizer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped, name)

    def encode(self, text: str, **options: Any) -> list[int]:
        first, *rest = text.split(MARK)
        ids = list(self.wrapped.encode(first, **options))
        options["add_special_tokens"] = False
        for piece in rest:
            ids.extend(self.wrapped.encode(piece, **options))
        return ids

    def decode(self, token_ids: Any, **options: Any) -> str:
        options.setdefault("clean_up_tokenization_spaces", False)
        return self.wrapped.decode(token_ids, **options)

    def __call__(self, text: str, **options: Any) -> Any:
        """Ids, and offsets into the marked text, of one string (what renderers use to attribute tokens)."""
        if MARK not in text:
            return self.wrapped(text, **options)
        ids: list[int] = []
        offsets: list[tuple[int, int]] = []
        base = 0
        for piece in text.split(MARK):
            encoding = self.wrapped(piece, **options)
            ids.extend(encoding["input_ids"])
            offsets.extend((start + base, end + base) for start, end in encoding.get("offset_mapping", ()))
            base += len(piece) + len(MARK)
            options["add_special_tokens"] = False
        return {"input_ids": ids, "offset_mapping": offsets}
