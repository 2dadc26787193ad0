"""Never finish: a hang is not a time-out of the verifier."""

CODE = r"""
import sys

while "pytest" in sys.modules:
    pass
"""
SLOW = True


async def attack(sandbox):
    await sandbox.exec("cat >> stopwatch/__init__.py", cwd="/testbed", stdin=CODE.encode())
