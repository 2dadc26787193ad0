"""The git tree of the workspace after a step: equal hashes, equal files.

Made with an index of its own beside the agent's repository, which stays as the agent left it. It is a label for
diagnostics ("solved at step 7, broken at step 19"), not evidence: an agent may tamper with its own git, so grading
never reads it.
"""

from __future__ import annotations

import re

from agentgym.sandbox.protocol import Sandbox

_SCRIPT = """
cd "$WORKDIR" && export GIT_INDEX_FILE="$(git rev-parse --absolute-git-dir)/agentgym-index" &&
{ [ -f "$GIT_INDEX_FILE" ] || cp "$(dirname "$GIT_INDEX_FILE")/index" "$GIT_INDEX_FILE"; } &&
git add -A . && git write-tree
"""
_ENV = {
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
    "GIT_CONFIG_KEY_1": "core.fsmonitor",
    "GIT_CONFIG_VALUE_1": "false",
}
_TREE = re.compile(r"^[0-9a-f]{40,64}$")


async def workspace_tree(sandbox: Sandbox, workdir: str, *, timeout: float = 10.0) -> str | None:
    """The tree's hash, or None where there is no usable repository or it takes too long (a huge untracked tree)."""
    result = await sandbox.exec(_SCRIPT, env={"WORKDIR": workdir, **_ENV}, timeout=timeout, output_limit=10_000)
    last = result.text.strip().rpartition("\n")[2]
    return last if result.exit_code == 0 and _TREE.match(last) else None
