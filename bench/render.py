"""What a new turn costs to render, ours against rendering the conversation again, as chat-completions harnesses do.

A conversation of 128 turns with the default model's tokenizer: real commands, observations of a few hundred tokens. Ours
extends the last prompt by what is new; the anchor renders all messages. The work is counted (tokens that pass the tokenizer)
and timed. `ratio` is their work over ours, at the last turn.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

import numpy as np
from rich.console import Console
from rich.table import Table
from transformers import AutoTokenizer

from agentgym.models import pull
from harness.context import Context
from harness.profile import load_profile
from harness.render import assistant_turn, load_renderer

TURNS = 128
OBSERVATION = "\n".join(f"src/module_{i}.py:{17 * i}:    return compute(value, limit={i})" for i in range(14))


def main() -> None:
    renderer = load_renderer(AutoTokenizer.from_pretrained(pull()))
    profile = load_profile("default")
    first = profile.first_messages(instruction="Mend the limit.", workdir="/testbed", task_id="bench")
    context = Context(renderer, profile.tool_specs)
    context.begin(first)
    messages: list[dict] = list(first)
    ours_tokens, ours_seconds = [], []
    for turn in range(TURNS):
        call = ("search", {"pattern": f"limit={turn}", "path": "src"})
        sampled = np.asarray(assistant_turn(renderer, "I look where the limit is used.", [call]), np.int32)
        seen = {
            "role": "tool",
            "content": f"{turn}\n{OBSERVATION}",
            "name": "search",
            "tool_call_id": f"call{turn:05d}",
        }
        before = len(context) + len(sampled)
        began = time.perf_counter()
        context.extend(sampled, [seen])
        ours_seconds.append(time.perf_counter() - began)
        ours_tokens.append(len(context) - before)
        function = {"name": call[0], "arguments": call[1]}
        reply = {"role": "assistant", "content": "I look where the limit is used."}
        messages += [reply | {"tool_calls": [{"type": "function", "id": "c", "function": function}]}, seen]
    began = time.perf_counter()
    again = renderer.render_ids(messages, tools=profile.tool_specs, add_generation_prompt=True)
    theirs_seconds = time.perf_counter() - began
    assert again == context.prompt.tolist(), "the extended prompt is not the prompt of the conversation"

    ours, theirs = ours_tokens[-1], len(again)
    table = Table(title=f"Rendering turn {TURNS}")
    for column in ("", "tokens", "milliseconds"):
        table.add_column(column, justify="right" if column else "left")
    milliseconds = statistics.median(ours_seconds[-16:]) * 1e3
    table.add_row("extend the prompt (ours)", str(ours), f"{milliseconds:.2f}")
    table.add_row("render the conversation again", str(theirs), f"{theirs_seconds * 1e3:.2f}")
    Console(stderr=True).print(table)
    document = {
        "bench": "render",
        "ours": ours,
        "anchor": theirs,
        "anchor_name": "render the whole conversation",
        "unit": "tokens per turn",
        "ratio": theirs / ours,
        "ours_ms": milliseconds,
        "anchor_ms": theirs_seconds * 1e3,
        "turns": TURNS,
    }
    json.dump(document, sys.stdout)
    print()


if __name__ == "__main__":
    main()
