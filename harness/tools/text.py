"""Bytes a terminal would show -> text a model should read, within a cap that keeps head and tail."""

from __future__ import annotations

import re

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_OVERWRITTEN = re.compile(r"[^\n]*\r(?=[^\r\n])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def readable(output: bytes) -> str:
    """Decode, drop colours and cursor movements, keep what a progress bar showed last, spell control bytes U+FFFD."""
    text = output.decode("utf-8", errors="replace")
    text = _ESCAPES.sub("", text).replace("\r\n", "\n")
    return _CONTROL.sub("\ufffd", _OVERWRITTEN.sub("", text)).replace("\r", "\n")


def shorten(text: str, max_chars: int, *, already_omitted: int = 0, advice: str = "") -> tuple[str, bool]:
    """`text` within max_chars, head and tail kept at line ends where possible; says in text how much is missing."""
    if len(text) <= max_chars and not already_omitted:
        return text, False
    half = max_chars // 2 if len(text) > max_chars else len(text) // 2
    head, tail = text[:half], text[len(text) - half :]
    if (end := head.rfind("\n")) > half // 2:
        head = head[: end + 1]
    if 0 <= (start := tail.find("\n")) < half // 2:
        tail = tail[start + 1 :]
    missing = len(text) - len(head) - len(tail) + already_omitted
    note = f"[... about {missing} characters left out here{'; ' + advice if advice else ''} ...]"
    return f"{head.rstrip(chr(10))}\n{note}\n{tail}", True
