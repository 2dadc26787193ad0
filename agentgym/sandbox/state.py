"""What stateful calls hand on: the directory and the exported variables, as shell text kept on the host.

Kept here and not in a file of the sandbox: a full disk or a hostile command cannot damage it, and a snapshot does not
carry it by accident. Only the difference to the environment every command starts with is sent along.
"""

from __future__ import annotations

import re

_DECLARATION = re.compile(r"^(?=(?:declare -x|export) )", re.MULTILINE)
_NAME = re.compile(r"^(?:declare -x|export) (\w+)")
_VOLATILE = {"AGENTGYM_CALL", "_", "SHLVL", "PWD", "OLDPWD"}


class ShellState:
    """cwd: where the next call starts. exports: shell text that makes its environment from the initial one."""

    def __init__(self, cwd: str, initial: str) -> None:
        self.cwd = cwd
        self.exports = ""
        self._initial = _parse(initial)

    def update(self, report: str) -> None:
        """Takes a report: the directory on one line, then the output of `export -p`."""
        cwd, _, exports = report.partition("\n")
        current = _parse(exports)
        changed = [text for name, text in current.items() if self._initial.get(name) != text]
        unset = [f"unset {name}" for name in self._initial if name not in current]
        self.cwd, self.exports = cwd or self.cwd, "\n".join(changed + unset)


def _parse(exports: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in _DECLARATION.split(exports):
        match = _NAME.match(text)
        if match and match[1] not in _VOLATILE:
            found[match[1]] = text.rstrip("\n")
    return found
