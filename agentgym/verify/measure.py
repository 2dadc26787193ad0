"""What a grading took: the highest memory use of its sandbox, as the kernel counted it.

Read from the sandbox's own control group, where both backends show it (version 2: `memory.peak`, 1:
`memory.max_usage_in_bytes`); page cache counts, as it does towards the limit. The tested code may have run there, so this
is a measurement for choosing limits and never part of a verdict.
"""

from __future__ import annotations

from agentgym.sandbox.protocol import Sandbox, SandboxError

_FILES = "/sys/fs/cgroup/memory.peak /sys/fs/cgroup/memory/memory.max_usage_in_bytes"


async def peak_memory_mb(sandbox: Sandbox) -> float | None:
    """MiB, or None where nothing says: no control group, an older kernel, a sandbox that is gone."""
    try:
        result = await sandbox.exec(f"cat {_FILES} 2>/dev/null", timeout=10.0, cwd="/")
    except SandboxError:
        return None
    words = result.output.split()
    return int(words[0]) / 2**20 if words and words[0].isdigit() else None
