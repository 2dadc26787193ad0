"""An overlay gives the sandbox that the whole Dockerfile would give, from an image that many tasks share."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agentgym.sandbox import overlay
from agentgym.sandbox.protocol import ImageError, ImageSpec, Overlay, Sandbox, SandboxBackend
from agentgym.tasks.digest import tree_digest

pytestmark = pytest.mark.asyncio(loop_scope="module")

IMAGE = Path(__file__).parent / "image"


@pytest.fixture
def spec(tmp_path: Path) -> Callable[[str], ImageSpec]:
    """A spec whose overlay replaces hello.txt by the given text and adds a file."""

    def make(text: str) -> ImageSpec:
        context = tmp_path / text
        shutil.copytree(IMAGE, context)
        dockerfile = context / "Dockerfile"
        dockerfile.write_text(dockerfile.read_text().rstrip() + "\nCOPY over/ /testbed/\n")
        (context / "over/deep").mkdir(parents=True)
        (context / "over/hello.txt").write_text(text)
        (context / "over/deep/new.sh").write_text("#!/bin/sh\n")
        (context / "over/deep/new.sh").chmod(0o755)
        below = tree_digest(context, without="over")
        return ImageSpec("overlaid", tree_digest(context), context, overlay=Overlay("over", below))

    return make


async def test_two_overlays_share_an_image_and_are_told_apart(backend: SandboxBackend, spec):
    one, two = await backend.ensure_image(spec("one")), await backend.ensure_image(spec("two"))

    assert one.ref == two.ref
    assert one.digest != two.digest


async def test_the_files_are_there_and_what_they_replaced_is_nowhere(backend: SandboxBackend, spec, start):
    sandbox: Sandbox = await start(await backend.ensure_image(spec("other")))

    shown = await sandbox.exec(
        "cat hello.txt; test -x deep/new.sh && echo; git status --porcelain; git rev-list --all --count"
    )
    assert shown.text == "other\n1\n"
    objects = await sandbox.exec("git cat-file --batch-all-objects --batch | grep -a hello; ls .git/logs 2>/dev/null")
    assert "hello\n" not in objects.text.replace("hello.txt", "")


async def test_it_is_what_the_whole_dockerfile_builds(backend: SandboxBackend, spec, start):
    overlaid = spec("same")
    whole = ImageSpec("whole", overlaid.digest, overlaid.context)

    commits = []
    for image in (await backend.ensure_image(overlaid), await backend.ensure_image(whole)):
        sandbox: Sandbox = await start(image)
        commits.append((await sandbox.exec("git rev-parse HEAD && ls -ln . deep | awk '{print $1, $3, $NF}'")).text)
    assert commits[0] == commits[1]


async def test_a_snapshot_keeps_what_was_done_to_the_files(backend: SandboxBackend, spec, start):
    sandbox: Sandbox = await start(await backend.ensure_image(spec("before")))
    await sandbox.exec("echo after > hello.txt")

    again: Sandbox = await start(await sandbox.snapshot())

    assert (await again.exec("cat hello.txt")).text == "after\n"


async def test_a_dockerfile_that_does_not_end_with_the_overlay_is_refused(backend: SandboxBackend, spec):
    wrong: ImageSpec = spec("wrong")
    assert wrong.context
    (wrong.context / "Dockerfile").write_text("FROM debian:bookworm\nRUN true\n")

    with pytest.raises(ImageError, match="not with a COPY"):
        overlay.below(
            ImageSpec("wrong", "sha256:1", wrong.context, overlay=Overlay("over", tree_digest(wrong.context)))
        )
