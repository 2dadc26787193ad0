"""Does the built image give the answer away? Looked for where an agent could look: in a live sandbox, as its user.

    git     anything beyond the one base commit: other commits, refs, reflogs, stashes, unreachable objects, remotes
    newer   another release of the package: installed, as a wheel or archive, or left in a package cache
    gold    text of the gold patch's added lines anywhere on disk
    tests   text of the hidden tests, or byte code compiled from them, anywhere on disk

Text is searched by the lines that only the answer holds (`probes`).
"""

from __future__ import annotations

import re
import shlex
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from agentgym.sandbox.protocol import Sandbox
from agentgym.tasks.digest import content_files
from agentgym.tasks.model import Task
from agentgym.tasks.probes import base_text, given_away, gold_probes, hidden_probes
from agentgym.tasks.pypi import PypiMaterial
from agentgym.tasks.sources import BenchmarkMaterial, ScriptMaterial

_SKIP = "--exclude-dir=proc --exclude-dir=sys --exclude-dir=dev"
_GIT_CHECK = r"""
git rev-parse --git-dir >/dev/null 2>&1 || { echo "no repository"; exit 0; }
test "$(git rev-list --all --reflog --count)" = 1 || echo "more than one commit is reachable"
test "$(git for-each-ref | wc -l)" -le 1 || echo "more than one ref"
test -z "$(git remote)" || echo "a remote"
test -z "$(git stash list 2>/dev/null)" || echo "a stash"
test -z "$(git fsck --unreachable --no-reflogs --no-progress 2>/dev/null)" || echo "unreachable objects"
test -z "$(find "$(git rev-parse --git-dir)/logs" -type f 2>/dev/null)" || echo "a reflog"
"""


async def find_leaks(sandbox: Sandbox, task: Task) -> list[str]:
    """What gives the answer away, one line each. `sandbox`: a fresh one of the task's image."""
    workdir = shlex.quote(task.workdir)
    git = await sandbox.exec(f"cd {workdir} && {{ {_GIT_CHECK} }}", timeout=120.0)
    leaks = [f"git: {line}" for line in git.text.splitlines()]
    if isinstance(task.material, PypiMaterial):
        source = task.material.source
        leaks += await _other_releases(sandbox, source.package, source.old, task.workdir)
    if isinstance(task.material, ScriptMaterial):
        return leaks  # no diff and no hidden tree whose text could be looked for
    if isinstance(task.material, BenchmarkMaterial):
        patch = task.material.test_patch()
        base = await _workdir_text(sandbox, task)
        text, new = gold_probes(patch, base), _added_files(patch)
    else:
        base, tests, new = await _material(sandbox, task)
        text = hidden_probes(tests, base)
    gold = gold_probes(task.material.gold_patch(), base)
    hits = await _search(sandbox, {probe for groups in (gold, text) for probes in groups.values() for probe in probes})
    leaks += [f"gold: {found}" for found in given_away(gold, hits)]
    leaks += [f"tests: {found}" for found in given_away(text, hits)]
    leaks += [f"tests: byte code {found}" for found in await _byte_code(sandbox, new)]
    return leaks


async def _material(sandbox: Sandbox, task: Task) -> tuple[bytes, dict[str, bytes], list[str]]:
    """(text of the problem, hidden test files that differ from its own, those of them that it has none of).

    The problem is the pinned older release where there is one, else what the workdir holds: then an answer that lies in
    the workdir itself cannot be told from it.
    """
    hidden = task.material.hidden_tests()
    with tempfile.TemporaryDirectory(prefix="agentgym-leaks-") as scratch:
        tree = Path(scratch, "workdir")
        if isinstance(task.material, PypiMaterial):
            tree = task.material.old_tree()
        else:
            await sandbox.download(task.workdir, tree)
        base = base_text(content_files(tree))
        tests = {
            path.relative_to(hidden).as_posix(): path.read_bytes()
            for path in content_files(hidden)
            if not path.is_symlink() and not _same(path, tree / path.relative_to(hidden))
        }
        new = [name for name in tests if not (tree / name).exists()]
    return base, tests, new


async def _workdir_text(sandbox: Sandbox, task: Task) -> bytes:
    with tempfile.TemporaryDirectory(prefix="agentgym-leaks-") as scratch:
        await sandbox.download(task.workdir, Path(scratch, "workdir"))
        return base_text(content_files(Path(scratch, "workdir")))


def _added_files(patch: bytes) -> list[str]:
    """Files that the diff makes."""
    return re.findall(r"^--- /dev/null\r?\n\+\+\+ b/(.+?)\r?$", patch.decode("utf-8", "replace"), re.MULTILINE)


def _same(one: Path, other: Path) -> bool:
    return other.is_file() and one.read_bytes() == other.read_bytes()


async def _search(sandbox: Sandbox, probes: set[bytes]) -> Mapping[str, set[bytes]]:
    """path → the probes that the file holds, for every file on disk that holds any."""
    hits: dict[str, set[bytes]] = defaultdict(set)
    if probes:
        command = f"LC_ALL=C grep -raFoH {_SKIP} -f - / 2>/dev/null | sort -u | head -n 20000"
        text = b"\n".join(sorted(probes)) + b"\n"
        result = await sandbox.exec(command, timeout=300.0, stdin=text, output_limit=16_000_000)
        for line in result.output.splitlines():
            path, _, probe = line.partition(b":")
            hits[path.decode(errors="replace")].add(probe)
    return hits


async def _byte_code(sandbox: Sandbox, files: list[str]) -> list[str]:
    """Byte code that was compiled from one of the files: it names the file it came from."""
    modules = [file for file in files if re.search(r"(^|/)(test_[^/]+|[^/]+_test)\.py$", file)]
    if not modules:
        return []
    command = (
        "find / -xdev -name '*.pyc' -print0 2>/dev/null | LC_ALL=C xargs -0r grep -laF -f /tmp/modules | head -n 20"
    )
    patterns = "\n".join(f"/{module}" for module in modules) + "\n"
    result = await sandbox.exec(
        f"cat > /tmp/modules; {command}; rm /tmp/modules", timeout=120.0, stdin=patterns.encode()
    )
    return result.text.splitlines()


async def _other_releases(sandbox: Sandbox, package: str, old: str, workdir: str) -> list[str]:
    """Installed metadata, archives and caches of the package in any version but `old`."""
    name = re.sub(r"[-_.]+", "[-_.]", package)
    patterns = " -o ".join(
        f"-iname '{name}-*{suffix}'" for suffix in (".dist-info", ".egg-info", ".whl", ".tar.gz", ".zip")
    )
    caches = "-path '*/.cache/pip/*' -o -path '*/.cache/uv/*' -o -path '*/_npx/*' -o -path '*/.npm/_cacache/*'"
    command = (
        f"find / -xdev \\( {patterns} \\) -not -path {shlex.quote(workdir + '/*')} 2>/dev/null | head -n 50;"
        f" find / -xdev -type f \\( {caches} \\) 2>/dev/null | head -n 5"
    )
    result = await sandbox.exec(command, timeout=120.0)
    version = re.compile(rf"{name}-{re.escape(old)}(?:[-.]|$)", re.IGNORECASE)
    return [f"newer: {line}" for line in result.text.splitlines() if not version.search(line.rsplit("/", 1)[-1])]
