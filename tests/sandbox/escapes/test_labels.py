"""An image whose labels pretend to be somebody's live lease does not outlive its owner."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.sandbox import ManagedBackend
from agentgym.sandbox.docker import DockerBackend
from agentgym.sandbox.engine import Engine
from agentgym.sandbox.labels import PREFIX, Owner, abandoned, lease
from agentgym.sandbox.protocol import Image, ImageSpec, Limits

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.parametrize("backend", ["docker"], indirect=True, scope="module"),
]

NEVER = {**lease("sandbox", replace(Owner.current(), host="elsewhere"), 1e9), PREFIX + "kind": "image"}


async def test_labels_of_an_image_do_not_become_the_sandboxs(backend: ManagedBackend, tmp_path: Path):
    assert abandoned(NEVER) is None, "as the labels of a container they would keep it for ever"
    spoofed = "".join(f'LABEL {name}="{value}"\n' for name, value in NEVER.items())
    (tmp_path / "Dockerfile").write_text(f"FROM debian:bookworm\nWORKDIR /testbed\n{spoofed}")
    image = await backend.ensure_image(ImageSpec("spoofing", "sha256:spoofing-1", context=tmp_path))
    engine = Engine()
    try:
        held = (await engine.json("GET", f"/images/{image.ref}/json"))["Config"]["Labels"]
        assert held[PREFIX + "host"] == "elsewhere", "the image does carry them"
        sandbox = await backend.start(image, Limits(memory_mb=128))
        shown = (await engine.json("GET", f"/containers/{sandbox.id}/json"))["Config"]["Labels"]
        dead = {**shown, PREFIX + "pid_started": "1"}
        assert shown[PREFIX + "pid"] == str(os.getpid())
        assert "is gone" in (abandoned(dead) or "")
        await sandbox.close()
    finally:
        await engine.json("DELETE", f"/images/{image.ref}")
        await engine.close()


async def test_a_sandbox_cannot_change_its_labels(backend: ManagedBackend, image: Image):
    """They live in the engine, whose socket no sandbox has; the lease in its environment does not exist."""
    sandbox = await backend.start(image, Limits(memory_mb=128))
    assert isinstance(backend.engine, DockerBackend)
    seen = await sandbox.exec(f"env; cat /proc/1/environ; grep -rl {PREFIX}expires /etc /run /tmp 2>/dev/null")
    assert PREFIX not in seen.text
    await sandbox.close()
