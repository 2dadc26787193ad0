"""Does the built image give the answer away? Looked for where an agent could look: in a live sandbox, as its user.

    git     anything beyond the one base commit: other commits, refs, reflogs, stashes, unreachable objects, remotes
    newer   another release of the package: installed, as a wheel or archive, or left in a package cache
    gold    text of the gold patch's added lines anywhere on disk
    tests   text of the hidden tests, or byte code compiled from them, anywhere on disk

Text is searched by *probes*: lines of the answer that the workdir does not hold already. One line may occur elsewhere
by chance, so a file is a leak when it holds two probes or more with a good deal of text, or all of them.
"""

from __future__ import annotations

import re
import shlex
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from agentgym.sandbox.protocol import Sandbox
from agentgym.tasks.digest import content_files
from agentgym.tasks.model import Task

MIN_PROBE_LENGTH = 24
MAX_PROBES = 500
SUSPICIOUS_BYTES = 120
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
    if task.source.get("kind") == "pypi":
        leaks += await _other_releases(sandbox, task.source["package"], task.source["old"], task.workdir)
    with tempfile.TemporaryDirectory(prefix="agentgym-leaks-") as scratch:
        tree = Path(scratch, "workdir")
        await sandbox.download(task.workdir, tree)
        known = {line for path in content_files(tree) if not path.is_symlink() for line in _lines(path.read_bytes())}
        hidden = task.material.hidden_tests()
        tests = [path for path in content_files(hidden) if not path.is_symlink()]
        fresh = [path for path in tests if not _same(path, tree / path.relative_to(hidden))]
    gold_lines = (line[1:] for line in task.material.gold_patch().splitlines() if re.match(rb"\+(?!\+\+ )", line))
    gold = _probes((line for raw in gold_lines for line in _lines(raw)), known)
    text = _probes((line for path in fresh for line in _lines(path.read_bytes())), known)
    leaks += [f"gold: {found}" for found in await _search(sandbox, gold)]
    leaks += [f"tests: {found}" for found in await _search(sandbox, text)]
    new = [path.relative_to(hidden).as_posix() for path in fresh if not (tree / path.relative_to(hidden)).exists()]
    leaks += [f"tests: byte code {found}" for found in await _byte_code(sandbox, new)]
    return leaks


def _same(one: Path, other: Path) -> bool:
    return other.is_file() and one.read_bytes() == other.read_bytes()


def _lines(data: bytes) -> Iterable[bytes]:
    return (line.strip() for line in data.splitlines())


def _probes(lines: Iterable[bytes], known: set[bytes]) -> list[bytes]:
    found = {line for line in lines if len(line) >= MIN_PROBE_LENGTH and line not in known and b"\0" not in line}
    return sorted(found, key=len, reverse=True)[:MAX_PROBES]


async def _search(sandbox: Sandbox, probes: list[bytes]) -> list[str]:
    """Files that hold the probes."""
    if not probes:
        return []
    command = f"LC_ALL=C grep -raFoH {_SKIP} -f - / 2>/dev/null | sort -u | head -n 20000"
    result = await sandbox.exec(command, timeout=300.0, stdin=b"\n".join(probes) + b"\n", output_limit=16_000_000)
    hits: dict[str, set[bytes]] = defaultdict(set)
    for line in result.output.splitlines():
        path, _, probe = line.partition(b":")
        hits[path.decode(errors="replace")].add(probe)
    return [
        f"{path} holds {len(lines)} of {len(probes)} lines"
        for path, lines in sorted(hits.items())
        if len(lines) == len(probes) or (len(lines) > 1 and sum(map(len, lines)) >= SUSPICIOUS_BYTES)
    ]


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
