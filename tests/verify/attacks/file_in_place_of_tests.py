"""Put a plain file where the tests directory has to be."""

SCRIPT = r"""
rm -rf tests && echo 'nothing here' > tests
"""


async def attack(sandbox):
    await sandbox.exec(SCRIPT, cwd="/testbed")
