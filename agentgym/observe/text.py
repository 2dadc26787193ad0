"""Make hostile text fit to be sent and seen.

Observations come out of sandboxes: they may hold terminal escapes, NUL, lone surrogates, or characters that reorder
what a reader sees. Escaping HTML is the template engine's work; this file makes the rest harmless without hiding it.
"""

from __future__ import annotations

import math
import re
from typing import Any

_CONTROL_PICTURES = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"} | {0x7F: "␡"}
_REORDERING = (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)
_VISIBLE = _CONTROL_PICTURES | {code: f"⟨U+{code:04X}⟩" for code in (*range(0x80, 0xA0), *_REORDERING)}


_UNSEEN = re.compile(f"[{''.join(map(re.escape, map(chr, _VISIBLE)))}]")


def visible(text: object) -> str:
    """For a page: control and reordering characters become signs a reader can see."""
    shown = encodable(str(text)).replace("\r\n", "\n")
    return _UNSEEN.sub(lambda found: _VISIBLE[ord(found[0])], shown)


def encodable(text: str) -> str:
    r"""Text that fits UTF-8: a lone surrogate becomes its escape, such as `\udc80`."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def json_safe(value: Any) -> Any:
    """A JSON-ready value in which every string fits UTF-8 and every number is finite (else its name as text)."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {encodable(str(key)): json_safe(content) for key, content in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_safe(content) for content in value]
    return value
