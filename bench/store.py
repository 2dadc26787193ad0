"""What a trajectory costs: bytes, writing, reading, checking; ours against per-call JSONL and verifiers' trace format.

Trajectories of 100 turns and about 64k distinct tokens, from a real tokenizer (SmolLM2) over real text: observations are
test logs and assistant turns are agents' own (`$AGENTGYM_SHARED`, else Python's standard library stands in for both).
Logprobs come from a float32 softmax. All formats hold the same: every call's token ids, logprobs, versions, settings and
times, and no text. Throughput counts each distinct token once, in one thread, through `Store` on an SQLite file; `_per_s` by
wall time, `_per_cpu_s` by the process's own CPU time, which says the same on an idle machine and more on a busy one.

`ours` and `anchor` are bytes per trajectory, theirs as verifiers writes it with every digit kept; by default it rounds
logprobs to four decimals (`anchor_rounded_bytes`), which no longer is what was sampled.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import zstandard
from anchors import Anchor, environment
from rich.console import Console
from rich.table import Table
from transformers import AutoTokenizer

from agentgym import models
from agentgym.store import Store, Trajectory
from agentgym.store.check import CheckReport, check_store
from agentgym.store.codec import encode_calls
from agentgym.store.layout import layout_of
from agentgym.store.records import FinishReason, Int32Array, ModelCall, PolicyKind, Sampling, Termination, VersionSpan

TRAJECTORIES = 16
TURNS = 100
ROUNDS = 8

VERIFIERS = """
import numpy as np
from verifiers.v1.graph import MessageNode
from verifiers.v1.types import AssistantMessage, ToolMessage
from pydantic import BaseModel, TypeAdapter

class Record(BaseModel):
    nodes: list[MessageNode]

def load(path):
    arrays = np.load(path)
    nodes, at, logprob_at = [], 0, 0
    logprobs = arrays["logprobs"].tolist()
    for suffix, generated in zip(arrays["suffix"].tolist(), arrays["generated"].tolist()):
        stream = arrays["stream"][at:at + suffix + generated].tolist()
        at += suffix + generated
        parent = len(nodes) - 1 if nodes else None
        nodes.append(MessageNode(parent=parent, message=ToolMessage(content="", tool_call_id="c"),
                                 token_ids=stream[:suffix], mask=[False] * suffix))
        nodes.append(MessageNode(parent=len(nodes) - 1, message=AssistantMessage(content=""), sampled=True,
                                 token_ids=stream[suffix:], mask=[True] * generated,
                                 logprobs=logprobs[logprob_at:logprob_at + generated]))
        logprob_at += generated
    return Record(nodes=nodes)

adapter = TypeAdapter(Record)
answer("ready")
for request in requests():
    record = load(request["arrays"])
    began = time.perf_counter()
    exact = adapter.dump_json(record, exclude_none=True, context={"float_decimals": None})
    with open(request["output"], "wb") as output:
        output.write(exact)
    written = time.perf_counter()
    with open(request["output"], "rb") as saved:
        again = adapter.validate_python(json.loads(saved.read()))
    token_ids, mask, logprobs = [], [], []
    for node in again.nodes:
        token_ids.extend(node.token_ids)
        mask.extend(node.mask)
        logprobs.extend(node.logprobs if node.sampled else [0.0] * len(node.token_ids))
    sequence = np.array(token_ids, np.int32), np.array(mask), np.array(logprobs, np.float32)
    read = time.perf_counter()
    rounded = len(adapter.dump_json(record, exclude_none=True))
    answer({"bytes": len(exact), "rounded": rounded, "write": written - began, "read": read - written})
"""


def corpus() -> tuple[str, list[str], list[str]]:
    """Its name, the texts of observations and those of assistant turns."""
    shared = Path(os.environ.get("AGENTGYM_SHARED", Path(__file__).resolve().parents[2] / "shared")) / "data"
    logs = sorted((shared / "logs").rglob("*.txt"))
    agents = sorted((shared / "trajectories").rglob("*.traj*"))
    if logs and agents:
        turns = [text for path in agents for text in assistant_texts(json.loads(path.read_text()))]
        return "test logs and agents' turns", [path.read_text(errors="replace") for path in logs], turns
    library = sorted(Path(os.__file__).parent.glob("*.py"))
    sources = [path.read_text(errors="replace") for path in library]
    return "Python's standard library", sources[::2], sources[1::8]


def assistant_texts(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        if document.get("role") == "assistant" and isinstance(document.get("content"), str):
            yield document["content"]
        for value in document.values():
            yield from assistant_texts(value)
    elif isinstance(document, list):
        for value in document:
            yield from assistant_texts(value)


def logprobs(count: int, chance: np.random.Generator) -> np.ndarray:
    """Of tokens sampled from random peaked distributions over 128 tokens, in float32 as a policy computes them."""
    logits = chance.normal(0, chance.uniform(1, 12, (count, 1)), (count, 128)).astype(np.float32)
    normal = logits - logits.max(1, keepdims=True)
    normal -= np.log(np.exp(normal).sum(1, keepdims=True))
    sampled = (normal + chance.gumbel(size=normal.shape)).argmax(1)
    return normal[np.arange(count), sampled]


def trajectory(observations: Int32Array, actions: Int32Array, seed: int) -> Trajectory:
    chance = np.random.default_rng(seed)
    place, act = chance.integers(len(observations)), chance.integers(len(actions))
    calls: list[ModelCall] = []
    context = np.zeros(0, np.int32)
    for turn in range(TURNS):
        seen, said = int(chance.integers(100, 860)), int(chance.integers(60, 260))
        prompt = np.concatenate([context, observations.take(range(place, place + seen), mode="wrap")])
        generation = actions.take(range(act, act + said), mode="wrap")
        calls.append(
            ModelCall(
                prompt,
                generation,
                logprobs(said, chance),
                Sampling(seed=turn),
                (VersionSpan(turn // 30, 0, said),),
                FinishReason.STOP,
                started_at=1.8e9 + chance.random() * 1e4,
                duration=chance.random(),
            )
        )
        context = np.concatenate([prompt, generation])
        place, act = place + seen, act + said
    return Trajectory(
        task_id="bench",
        task_digest="sha256:task",
        harness_digest="sha256:harness",
        backend="local",
        image_digest="sha256:image",
        policy="bench",
        policy_kind=PolicyKind.MODEL,
        calls=tuple(calls),
        steps=(),
        termination=Termination.SUBMITTED,
        reward=1.0,
    )


def per_call_jsonl(one: Trajectory) -> bytes:
    """What a request log holds: each call with its whole prompt."""
    lines = [
        {
            "prompt_token_ids": call.prompt_token_ids.tolist(),
            "generation_token_ids": call.generation_token_ids.tolist(),
            "logprobs": call.logprobs.tolist(),
            "policy_versions": [asdict(span) for span in call.policy_versions],
            "sampling": asdict(call.sampling),
            "finish_reason": call.finish_reason,
            "context_event": call.context_event,
            "started_at": call.started_at,
            "duration": call.duration,
        }
        for call in one.calls
    ]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


Seconds = tuple[float, float]
"""Of wall time, and of this process's CPU time: what else a busy machine does is in the first and not in the second."""


def times(items: Iterable[Any]) -> list[Seconds]:
    """What each item took to come."""
    found, began = [], (time.perf_counter(), time.process_time())
    for _ in items:
        found.append((time.perf_counter() - began[0], time.process_time() - began[1]))
        began = (time.perf_counter(), time.process_time())
    return found


def best(rounds: list[list[Seconds]]) -> Seconds:
    """A whole round in which each item takes the least of its times."""
    columns = [list(zip(*column, strict=True)) for column in zip(*rounds, strict=True)]
    return sum(min(wall) for wall, _ in columns), sum(min(cpu) for _, cpu in columns)


def speeds(name: str, amount: float, rounds: list[list[Seconds]]) -> dict[str, float]:
    wall, cpu = best(rounds)
    return {f"{name}_per_s": round(amount / wall, 1), f"{name}_per_cpu_s": round(amount / cpu, 1)}


def theirs(trajectories: list[Trajectory], scratch: Path) -> dict[str, float]:
    """Totals over all trajectories of verifiers' record: bytes exact and rounded, seconds to write and to read."""
    python = environment("verifiers", ["verifiers>=0.4,<0.5"], without_dependencies=["verifiers>=0.4,<0.5"])
    total = {"bytes": 0.0, "rounded": 0.0, "write": 0.0, "read": 0.0}
    with Anchor(python, VERIFIERS) as anchor:
        for one in trajectories:
            layout = layout_of(one.calls)
            parts = {name: getattr(layout, name) for name in ("suffix", "generated", "stream", "logprobs")}
            np.savez(scratch / "arrays.npz", **parts)
            answer = anchor.ask({"arrays": str(scratch / "arrays.npz"), "output": str(scratch / "trace.json")})
            total = {name: total[name] + answer[name] for name in total}
    return total


def main() -> int:
    name, observations, turns = corpus()
    tokenizer = AutoTokenizer.from_pretrained(models.pull())
    encoded = [
        np.concatenate([np.array(ids, np.int32) for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]])
        for texts in (observations, turns)
    ]
    trajectories = [trajectory(*encoded, seed) for seed in range(TRAJECTORIES)]
    blobs = [encode_calls(one.calls) for one in trajectories]
    tokens = sum(blob.tokens for blob in blobs)
    ours = sum(len(blob.blob) for blob in blobs)
    lines = [per_call_jsonl(one) for one in trajectories]
    jsonl, packed = sum(map(len, lines)), sum(len(zstandard.compress(line)) for line in lines)
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        ingest, read, check = [], [], []
        for attempt in range(ROUNDS):
            with Store.open(scratch / f"{attempt}.db") as store:
                ingest.append(times(map(store.add, trajectories)))
                read.append(times(store.iter_sequences()))
                reports: list[CheckReport] = []
                check.append(times(reports.append(check_store(store)) for _ in range(1)))
                assert reports[0].ok, reports[0].faults
        file_bytes = (scratch / "0.db").stat().st_size
        anchor = theirs(trajectories, scratch)
    result = {
        "bench": "store",
        "ours": ours // TRAJECTORIES,
        "anchor": int(anchor["bytes"] / TRAJECTORIES),
        "anchor_name": "verifiers trace record",
        "unit": "bytes per trajectory",
        "ratio": round(anchor["bytes"] / ours, 2),
        "size_ratio_jsonl": round(jsonl / ours, 1),
        "size_ratio_jsonl_zstd": round(packed / ours, 2),
        **speeds("ingest_tokens", tokens, ingest),
        **speeds("read_tokens", tokens, read),
        **speeds("check_mb", 4 * tokens / 1e6, check),
        "anchor_ingest_tokens_per_s": int(tokens / anchor["write"]),
        "anchor_read_tokens_per_s": int(tokens / anchor["read"]),
        "anchor_rounded_bytes": int(anchor["rounded"] / TRAJECTORIES),
        "database_bytes": file_bytes // TRAJECTORIES,
        "tokens_per_trajectory": tokens // TRAJECTORIES,
        "corpus": name,
    }
    table = Table(title=f"{TRAJECTORIES} trajectories of {TURNS} turns, {tokens // TRAJECTORIES} tokens: {name}")
    for column in ("", "bytes each", "written tokens/s", "read tokens/s"):
        table.add_column(column, justify="right" if column else "left")
    rows = {
        "agentgym": (ours, result["ingest_tokens_per_s"], result["read_tokens_per_s"]),
        "agentgym, by CPU time": (ours, result["ingest_tokens_per_cpu_s"], result["read_tokens_per_cpu_s"]),
        "verifiers trace record": (
            anchor["bytes"],
            result["anchor_ingest_tokens_per_s"],
            result["anchor_read_tokens_per_s"],
        ),
    }
    for label, (size, written, got) in rows.items():
        table.add_row(label, f"{size / TRAJECTORIES:,.0f}", f"{written:,.0f}", f"{got:,.0f}")
    for label, size in {"per-call JSONL": jsonl, "per-call JSONL, zstd": packed}.items():
        table.add_row(label, f"{size / TRAJECTORIES:,.0f}", "", "")
    Console(stderr=True).print(table)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
