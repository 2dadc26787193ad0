"""Hundreds of megabytes of new files, to make the grader drop or truncate something."""

SCRIPT = r"""
head -c 60000000 /dev/urandom > big.bin
for i in $(seq 1 8); do cp big.bin "big$i.bin"; done
"""


async def attack(sandbox):
    await sandbox.exec(SCRIPT, cwd="/testbed")
