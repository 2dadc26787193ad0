"""Which renderer speaks for a tokenizer.

A model id the `renderers` package knows gets the package's renderer, or ours of the same name. A local directory or a
fine-tune has no such name, so its own chat template decides: the first package renderer that gives the template's exact ids
for a probe conversation with a tool call is the right one, then harmony's, then the one made of the template itself. What
remains and has ChatML's control tokens gets ours. Nothing is guessed beyond that.
"""

from __future__ import annotations

from typing import Any

from renderers import Message, ToolSpec, create_renderer
from renderers.base import MODEL_RENDERER_MAP
from renderers.configs import config_from_name

from harness.render.chatml import ChatMLRenderer
from harness.render.extend import RenderError
from harness.render.guard import GuardedTokenizer
from harness.render.guarded import GuardedRenderer
from harness.render.harmony import HarmonyRenderer
from harness.render.template import TemplateRenderer
from harness.render.turns import assistant_turn

CHATML = ChatMLRenderer.name
_OF_TEMPLATES = {renderer.name: renderer for renderer in (HarmonyRenderer, TemplateRenderer)}
_PACKAGE = [name for name in dict.fromkeys(MODEL_RENDERER_MAP.values()) if name not in _OF_TEMPLATES]


def load_renderer(tokenizer: Any, name: str = "auto") -> GuardedRenderer:
    """The renderer for a transformers tokenizer. name: "auto", "template", "chatml-hermes", or one of the package's."""
    guarded = tokenizer if isinstance(tokenizer, GuardedTokenizer) else GuardedTokenizer(tokenizer)
    if name == "auto":
        name = _recognise(guarded)
    if name == CHATML:
        return GuardedRenderer(ChatMLRenderer(guarded), guarded, name)
    try:
        if name in _OF_TEMPLATES:
            return GuardedRenderer(_OF_TEMPLATES[name](guarded), guarded, name)
        return GuardedRenderer(create_renderer(guarded, _config(name)), guarded, name)
    except Exception as error:  # a renderer raises what it likes on a vocabulary that is not its own
        raise RenderError(f"the renderer {name!r} does not fit this tokenizer: {error}") from error


def _recognise(tokenizer: GuardedTokenizer) -> str:
    model = str(getattr(tokenizer, "name_or_path", ""))
    if known := MODEL_RENDERER_MAP.get(model):
        return known
    if getattr(tokenizer, "chat_template", None):
        if matching := _by_template(tokenizer):
            return matching
        for name in _OF_TEMPLATES:
            if _template_works(name, tokenizer):
                return name
    if {"<|im_start|>", "<|im_end|>"} <= set(tokenizer.get_added_vocab()):
        return CHATML
    raise RenderError(
        f"no renderer is known for {model!r}: its id is not in the renderers package, no package renderer gives its "
        "chat template's ids, the template itself cannot be used for tool calls, and it has no ChatML tokens",
        hint=f"name one: {', '.join([CHATML, *_OF_TEMPLATES, *sorted(_PACKAGE)])}",
    )


_PROBE_TOOLS: list[ToolSpec] = [
    {
        "type": "function",
        "function": {
            "name": "look",
            "description": "Look.",
            "parameters": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
        },
    }  # type: ignore[list-item]  # the OpenAI envelope: what chat templates are written for
]
_PROBE: list[Message] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Look here."},
    {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [{"type": "function", "id": "call00000", "function": {"name": "look", "arguments": {"at": "x"}}}],
    },
    {"role": "tool", "content": "Seen.", "tool_call_id": "call00000", "name": "look"},
]


def _by_template(tokenizer: GuardedTokenizer) -> str | None:
    """The first package renderer whose ids are exactly the chat template's on the probe, or None."""
    try:
        expected = list(
            tokenizer.wrapped.apply_chat_template(
                _PROBE, tools=_PROBE_TOOLS, add_generation_prompt=True, tokenize=True, return_dict=False
            )
        )
    except Exception:  # a template raises what it likes on a role it does not know: then it is not this kind
        return None
    for name in _PACKAGE:
        try:
            ids = create_renderer(tokenizer, _config(name)).render_ids(
                _PROBE, tools=_PROBE_TOOLS, add_generation_prompt=True
            )
        except Exception:  # a renderer whose control tokens this vocabulary lacks is not the one
            continue
        if ids == expected:
            return name
    return None


def _template_works(name: str, tokenizer: GuardedTokenizer) -> bool:
    """Does the template show tools, and is a call it writes read back, and a turn it ends extended?"""
    try:
        renderer = _OF_TEMPLATES[name](tokenizer)
        prompt = renderer.render_ids(_PROBE[:2], tools=_PROBE_TOOLS, add_generation_prompt=True)
        (call,) = renderer.parse_response(
            assistant_turn(renderer, "", [("look", {"at": "x"})]), tools=_PROBE_TOOLS
        ).tool_calls
        bridged = renderer.bridge_to_next_turn(prompt, [], _PROBE[3:], tools=_PROBE_TOOLS)
    except Exception:  # a template raises what it likes
        return False
    return "look" in tokenizer.decode(prompt) and call.arguments == {"at": "x"} and bridged is not None


def _config(name: str) -> Any:  # a member of the package's config union, which has no common public base
    """Thinking is kept in the context wherever the renderer can: dropping it would rewrite what the policy saw."""
    config = config_from_name(name)
    try:
        return type(config)(thinking_retention="all") if config is not None else None
    except ValueError:
        return config
