"""What `image` asks of agentgym itself: a base to build on, a tokenizer without its model, the images of tasks."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

from agentgym.models import pull
from agentgym.sandbox import images
from agentgym.sandbox.kubernetes.config import KubernetesConfig
from agentgym.sandbox.kubernetes.images import resolve
from agentgym.tasks import load_task, shipped_tasks


async def base() -> None:
    print((await images.ensure_base(images.connect(), "python:3.11-slim-bookworm", log=tell))[0])


def tokenizer(target: Path) -> None:
    """Everything of the default model but its weights."""
    shutil.copytree(pull(progress=tell), target, ignore=shutil.ignore_patterns("*.safetensors", "*.gguf"))


async def tasks(names: list[str]) -> None:
    config = KubernetesConfig.load()
    for root in shipped_tasks():
        if root.name in names:
            print((await resolve(load_task(root).image, config)).ref)


def tell(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    if what == "base":
        asyncio.run(base())
    elif what == "tokenizer":
        tokenizer(Path(arguments[0]))
    else:
        asyncio.run(tasks(arguments))
