"""Token-in/token-out rendering: messages become token ids once, and sampled ids are never made again from text.

The interface is the `renderers` package's `Renderer` (`render_ids`, `parse_response`, `bridge_to_next_turn`):

    load.py    picks the renderer of a tokenizer: the package's where it has a real one, else one of ours
    chatml.py  ChatML with Hermes tool calls (SmolLM2 and relatives), the package has none for it
    template.py a model's own chat template as a renderer; dialects.py reads the calls it writes
    harmony.py gpt-oss: likewise, with its channels
    hermes.py  `<tool_call>{json}</tool_call>` in sampled text -> calls
    guard.py   text from outside can never become a control token
    guarded.py what load.py returns: any renderer, guarded, and its bridge checked
    turns.py   the assistant turn a scripted policy "samples"
    extend.py  one more turn of a conversation, by the bridge

The first prompt comes from `render_ids`; every later one from `bridge_to_next_turn`, which starts with the previous
prompt and the exact generation (`extend`). `harness.context` does both for our own episodes, `harness.gateway.conversation`
for those of other harnesses.
"""

from renderers import Message, ParsedResponse, ParsedToolCall, Renderer, ToolCallParseStatus, ToolSpec

from harness.render.chatml import ChatMLRenderer
from harness.render.extend import RenderError, extend
from harness.render.guard import GuardedTokenizer
from harness.render.guarded import GuardedRenderer
from harness.render.load import load_renderer
from harness.render.turns import assistant_turn

__all__ = [
    "ChatMLRenderer",
    "GuardedRenderer",
    "GuardedTokenizer",
    "Message",
    "ParsedResponse",
    "ParsedToolCall",
    "RenderError",
    "Renderer",
    "ToolCallParseStatus",
    "ToolSpec",
    "assistant_turn",
    "extend",
    "load_renderer",
]
