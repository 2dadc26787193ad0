"""What the ways out have in common; lies beside them in the sandbox.

HOST: what the test has put up outside (a file, processes, listeners), and what they answer. `escaped` ends a way that led out,
`absent` one whose door this kernel does not even have.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys

HOST = json.loads(os.environ["AGENTGYM_HOST"])
NUMBERS = {"x86_64": 0, "aarch64": 1}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)


def escaped(how: str) -> None:
    print("ESCAPED:", how)
    sys.exit(0)


def absent(what: str) -> None:
    print("ABSENT:", what)
    sys.exit(0)


def syscall(numbers: tuple[int, int], *arguments: object) -> int:
    """The result, or minus errno. numbers: on x86-64 and on arm64."""
    result = libc.syscall(ctypes.c_long(numbers[NUMBERS]), *arguments)
    return result if result >= 0 else -ctypes.get_errno()


def writable(paths: list[str]) -> None:
    """Escapes through the first of these files that opens for writing; nothing is written."""
    there = [path for path in paths if os.path.exists(path)]
    if not there:
        absent(f"none of {paths}")
    for path in there:
        try:
            os.close(os.open(path, os.O_WRONLY))
        except OSError as error:
            print(f"{path}: {error.strerror}")
        else:
            escaped(f"{path} can be written")


def answers(connection) -> None:
    """Escapes if what is connected speaks the word that only the host knows."""
    connection.settimeout(3)
    if HOST["word"].encode() in connection.recv(200):
        escaped(f"reached {connection.getpeername()}")
