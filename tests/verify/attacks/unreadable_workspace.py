"""Take the workspace away: unreadable, unmountable, gone."""

SCRIPT = r"""
cd / && rm -rf /testbed 2>/dev/null; chmod 000 /testbed 2>/dev/null; true
"""


async def attack(sandbox):
    await sandbox.exec(SCRIPT, cwd="/testbed")
