"""One more turn: from a prompt, what was sampled after it, and the messages that answered, to the next prompt.

Where a renderer cannot go on from the exact generation (a model that ended inside its reasoning, say), the stop token, and
failing that the whole generation, is left out and the template closes the turn. The prompt then no longer starts with what
was sampled, and whoever records the next call must say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from renderers import Message, ToolSpec

from agentgym.errors import InputError
from harness.render.guarded import GuardedRenderer


class RenderError(InputError):
    """No renderer is known for a model, or it cannot render what it was given."""


def extend(
    renderer: GuardedRenderer,
    prompt: list[int],
    sampled: list[int],
    messages: Sequence[dict[str, Any]],
    tools: Sequence[dict[str, Any]],
) -> tuple[list[int], bool]:
    """The prompt after a turn, and whether it starts with `prompt` and all of `sampled`; raises RenderError."""
    new, specs = cast(list[Message], list(messages)), cast(list[ToolSpec], list(tools))
    for kept in (sampled, sampled[:-1], []):
        bridged = renderer.bridge_to_next_turn(prompt, kept, new, tools=specs)
        if bridged is not None:
            return bridged.token_ids, kept is sampled
    raise RenderError(
        f"the renderer {renderer.name!r} cannot extend a conversation with messages of the roles "
        f"{[message['role'] for message in messages]}"
    )
