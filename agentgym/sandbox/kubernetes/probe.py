"""Proves, before anything untrusted runs, that the cluster keeps sandboxes off the network.

A NetworkPolicy is accepted everywhere and enforced only where the cluster's network does so. Two pods are made, alike but for
the label that the policy selects: the *control* finds out what can be reached from this namespace (the API server, its node's
kubelet, the cloud's metadata address), and listens itself; the *subject* must reach none of it, from its first moment on.
Where not even the control reaches anything, nothing is proven.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from agentgym.sandbox.kubernetes.errors import NetworkLeak
from agentgym.sandbox.protocol import Limits, Sandbox

LIMITS = Limits(cpus=0.25, memory_mb=128, pids=64, disk_mb=64, lifetime_s=300.0)
OPEN = replace(LIMITS, network=True)

_PORT = 40404
_LISTEN = f"""
import os, socket
s = socket.create_server(("", {_PORT}))
print(socket.gethostbyname(socket.gethostname()), flush=True)
if os.fork(): os._exit(0)
for n in range(3): os.close(n)
while True: s.accept()[0].close()
"""
_CONNECT = 'import socket, sys; host, port = sys.argv[1].split("/"); socket.create_connection((host, int(port)), 3)'
_TARGETS = "${KUBERNETES_SERVICE_HOST:-192.0.2.1}/${KUBERNETES_SERVICE_PORT:-443} 169.254.169.254/80"


async def prove(control: Sandbox, subject: Sandbox, *, nodes: tuple[str, ...]) -> None:
    """Raises NetworkLeak where the subject reaches anything that the control reaches, or nothing can be proven.

    nodes: the addresses of the pods' nodes; their kubelets are tried.
    """
    listening = await control.exec(f"python3 -c '{_LISTEN}' || hostname -i", timeout=20)
    own = [f"{word}/{_PORT}" for word in listening.text.split()[:1]] if listening.exit_code == 0 else []
    targets = " ".join([_TARGETS, *(f"{node}/10250" for node in nodes), *own])
    reached, leaked = await asyncio.gather(_reach(control, targets), _reach(subject, targets))
    if leaked:
        raise NetworkLeak(
            f"sandboxes on this cluster reach the network although a policy forbids it: {', '.join(sorted(leaked))}",
            hint="use a cluster network that enforces NetworkPolicy (Calico, Cilium, …) and apply k8s/sandboxes; to run "
            "untrusted code all the same, set allow_network_leak = true in kubernetes.toml",
        )
    if not reached:
        raise NetworkLeak(
            "nothing can be proven about this cluster's network: not even a pod that may reach it does",
            hint="look at the namespace's policies; to go on unproven, set allow_network_leak = true in kubernetes.toml",
        )


async def _reach(sandbox: Sandbox, targets: str) -> set[str]:
    """Which `host/port` of these accept a connection."""
    script = f"""
        try() {{
            if command -v bash && command -v timeout; then timeout 3 bash -c 'exec 3<>"/dev/tcp/$0"' "$1"
            else python3 -c '{_CONNECT}' "$1"; fi
        }}
        for t in {targets}; do ( try "$t" >/dev/null 2>&1 && echo "$t" ) & done
        wait
    """
    return set((await sandbox.exec(script, timeout=30)).text.split())
