"""PID 1 of a sandbox that a container engine runs: a shell loop of ours, not the engine's own init.

It reaps orphans, cannot be signalled from inside, and ends the sandbox at its lifetime even when owner and reaper are gone.
Needs stdin kept open: where the image has no `sleep`, it waits there.
"""

from __future__ import annotations

_LOOP = r"""
trap '' HUP INT QUIT TERM USR1 USR2 PIPE ALRM
exec 3<&0
now() { read -r agym_up agym_x </proc/uptime; agym_up=${agym_up%.*}; }
now; agym_end=$((agym_up + $1))
while now; [ "$agym_up" -lt "$agym_end" ]; do
    ( sleep $((agym_end - agym_up)) || read -r agym_x <&3 ) 2>/dev/null &
    wait
done
"""


def pid1(lifetime_s: float) -> list[str]:
    """The command that a container starts with."""
    return ["/bin/sh", "-c", _LOOP, "agentgym-init", str(int(lifetime_s))]
