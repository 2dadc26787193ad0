"""Given what an agent did to its workspace, when its work is extracted, then the patch says exactly that."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from agentgym.sandbox.protocol import Image, Sandbox, SandboxBackend
from agentgym.tasks import Task
from agentgym.verify import Patch, capture_pristine, extract_patch, grade

pytestmark = pytest.mark.asyncio(loop_scope="session")


@contextlib.asynccontextmanager
async def acted(backend: SandboxBackend, image: Image, script: str) -> AsyncIterator[Sandbox]:
    sandbox = await backend.start(image)
    try:
        await capture_pristine(sandbox)
        result = await sandbox.exec(script, cwd="/testbed")
        assert result.exit_code == 0, result.text
        yield sandbox
    finally:
        await sandbox.close()


async def extracted(backend: SandboxBackend, image: Image, task: Task, script: str) -> Patch:
    async with acted(backend, image, script) as sandbox:
        return await extract_patch(sandbox, task)


async def test_nothing_done_is_an_empty_patch(tutorial: Task, backend: SandboxBackend, image: Image) -> None:
    patch = await extracted(backend, image, tutorial, "true")

    assert patch.diff == b""
    assert patch.tree_hash is not None
    assert not patch.truncated


async def test_edits_new_files_links_modes_and_bytes_are_kept(
    tutorial: Task, backend: SandboxBackend, image: Image
) -> None:
    script = r"""
    printf '\000\001' > 'name ü.bin'
    sed -i s/60/61/ stopwatch/format.py && printf '\000\377\r\n' > data.bin && ln -s stopwatch/laps.py link
    printf 'no newline' > tail.txt && rm README.md && printf '#!/bin/sh\r\n' > run.sh && chmod +x run.sh
    """
    patch = await extracted(backend, image, tutorial, script)

    names = {re.split(rb' "?b/', line)[-1] for line in patch.diff.splitlines() if line.startswith(b"diff --git")}
    names = {name.strip(b'"') for name in names}
    assert names == {
        b"name \\303\\274.bin",
        b"stopwatch/format.py",
        b"data.bin",
        b"link",
        b"tail.txt",
        b"README.md",
        b"run.sh",
    }
    assert b"new file mode 120000" in patch.diff
    assert b"new file mode 100755" in patch.diff
    assert b"GIT binary patch" in patch.diff
    result = await grade(tutorial, patch, backend, image=image)
    assert result.verdicts["tests/test_laps.py::test_best_lap"] == "passed"


@pytest.mark.parametrize(
    "script",
    [
        "git add -A && git commit -qm mine",
        "rm -rf .git",
        "git stash -q -u && git stash pop -q && git rm -rq --cached .",
        "mkdir -p .git/info && printf '*\\n' > .git/info/exclude && git config core.autocrlf true",
    ],
)
async def test_what_the_agent_does_to_git_changes_nothing(
    tutorial: Task, backend: SandboxBackend, image: Image, script: str
) -> None:
    plain = await extracted(backend, image, tutorial, "echo x > new.txt")
    patch = await extracted(backend, image, tutorial, f"echo x > new.txt && {script}")

    assert patch == plain


async def test_caches_tests_and_nested_repositories_git_are_left_out(
    tutorial: Task, backend: SandboxBackend, image: Image
) -> None:
    script = """
    python3 -B -c pass; mkdir -p stopwatch/__pycache__ .pytest_cache sub && : > stopwatch/__pycache__/x.cpython-311.pyc
    : > .pytest_cache/README && echo '# edited' >> tests/test_laps.py && : > tests/new_helper.py && : > conftest.py
    (cd sub && git init -q . && echo kept > file.txt)
    """
    patch = await extracted(backend, image, tutorial, script)

    names = {line.split(b" b/")[-1] for line in patch.diff.splitlines() if line.startswith(b"diff --git")}
    assert names == {b"sub/file.txt"}


async def test_without_a_known_pristine_tree_the_sandboxes_root_commit_is_used(
    tutorial: Task, backend: SandboxBackend, image: Image
) -> None:
    unknown = replace(image, digest=image.digest + "-never-captured")
    sandbox = await backend.start(unknown)
    try:
        await sandbox.exec("echo x > new.txt && git add -A && git commit -qm mine", cwd="/testbed")
        patch = await extract_patch(sandbox, tutorial)
    finally:
        await sandbox.close()

    assert patch.diff == (await extracted(backend, image, tutorial, "echo x > new.txt")).diff


async def test_over_its_cap_a_patch_is_truncated_and_graded_as_no_solution(
    tutorial: Task, backend: SandboxBackend, image: Image
) -> None:
    async with acted(backend, image, "head -c 100000 /dev/urandom > big.bin") as sandbox:
        patch = await extract_patch(sandbox, tutorial, max_bytes=50_000)

    assert patch.truncated
    assert (await grade(tutorial, patch, backend, image=image)).reward == 0.0
