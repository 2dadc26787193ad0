"""Leave with exit code 0 as soon as the solution is imported."""

TASK = "node"
CODE = r"""
process.exit(0);
"""


async def attack(sandbox):
    await sandbox.exec("cat >> duration.mjs", cwd="/testbed", stdin=CODE.encode())
