"""The assistant turn that a scripted policy "samples": text and calls to the exact ids the template would end a turn
with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from renderers import Message, Renderer


def assistant_turn(
    renderer: Renderer, content: str = "", calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
) -> list[int]:
    """Token ids a policy would sample to say `content` and make `calls` [(tool, arguments)], stop token included."""
    message: Message = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [
            {"type": "function", "id": f"call_{i}", "function": {"name": name, "arguments": dict(arguments)}}
            for i, (name, arguments) in enumerate(calls)
        ]
    rendered = renderer.render([{"role": "user", "content": "."}, message])
    mine = [k for k, index in enumerate(rendered.message_indices) if index == 1 and rendered.sampled_mask[k]]
    return [rendered.token_ids[k] for k in mine]
