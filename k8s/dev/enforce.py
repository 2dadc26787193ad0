"""Enforces NetworkPolicy on the development cluster, whose plain bridge network does not. Standard library only.

Everything from and to a pod is dropped until the API says what that pod is; then, by direction, it is let through unless a
policy selects it and no policy that selects it has a rule for that direction. So "deny all" holds from a pod's first packet on;
a policy with rules allows everything in that direction, which is coarser than the standard. The rules lie in the mangle table,
where neither kube-proxy nor the network plugin can accept a packet before them.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import queue
import ssl
import subprocess
import tempfile
import threading
import time
from typing import Any

Thing = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("kubeconfig", "kubectl", "bridge"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    hook(options.bridge)
    server, context = connection(options.kubeconfig, options.kubectl)
    changes: queue.Queue[tuple[str, dict[str, Thing]]] = queue.Queue()
    sources = {"pods": "/api/v1/pods", "policies": "/apis/networking.k8s.io/v1/networkpolicies"}
    for name, path in sources.items():
        threading.Thread(target=follow, args=(server, context, name, path, changes), daemon=True).start()
    known: dict[str, dict[str, Thing]] = {}
    applied: tuple[frozenset[str], ...] = ()
    while True:
        name, things = changes.get()
        known[name] = things
        if len(known) < len(sources):
            continue
        wanted = tuple(open_addresses(known["pods"], known["policies"], way) for way in ("Egress", "Ingress"))
        if wanted != applied:
            apply(*wanted)
            applied = wanted


def connection(kubeconfig: str, kubectl: str) -> tuple[str, ssl.SSLContext]:
    """Where the API server is, and how to speak with it."""
    command = [kubectl, "--kubeconfig", kubeconfig, "config", "view", "--raw", "-o", "json"]
    config = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    with tempfile.NamedTemporaryFile() as pem:
        for part in ("client-certificate-data", "client-key-data"):
            pem.write(base64.b64decode(user[part]))
        pem.flush()
        context.load_cert_chain(pem.name)
    return cluster["server"].removeprefix("https://"), context


def follow(server: str, context: ssl.SSLContext, name: str, path: str, changes: queue.Queue) -> None:
    """Lists, then watches; hands on all there is after every change; begins again when the stream ends."""
    while True:
        try:
            link = http.client.HTTPSConnection(server, context=context, timeout=330)
            link.request("GET", path)
            listed = json.loads(link.getresponse().read())
            things = {thing["metadata"]["uid"]: thing for thing in listed["items"]}
            changes.put((name, dict(things)))
            version = listed["metadata"]["resourceVersion"]
            link.request("GET", f"{path}?watch=1&timeoutSeconds=300&resourceVersion={version}")
            for line in link.getresponse():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    break
                if event["type"] == "DELETED":
                    things.pop(event["object"]["metadata"]["uid"], None)
                else:
                    things[event["object"]["metadata"]["uid"]] = event["object"]
                changes.put((name, dict(things)))
        except (OSError, http.client.HTTPException, KeyError, ValueError) as error:
            print(f"{name}: {error!r}", flush=True)
            time.sleep(0.5)


def open_addresses(pods: dict[str, Thing], policies: dict[str, Thing], way: str) -> frozenset[str]:
    """The addresses of the pods that may send ("Egress") or be reached ("Ingress")."""
    found = set()
    for pod in pods.values():
        address, ended = pod["status"].get("podIP"), pod["status"].get("phase") in ("Succeeded", "Failed")
        if not address or ended or pod["spec"].get("hostNetwork"):
            continue
        selecting = [
            policy["spec"] for policy in policies.values() if selects(policy, pod) and way in ways(policy["spec"])
        ]
        if not selecting or any(spec.get(way.lower()) for spec in selecting):
            found.add(address)
    return frozenset(found)


def ways(spec: Thing) -> list[str]:
    return spec.get("policyTypes") or ["Ingress", *(["Egress"] if "egress" in spec else [])]


def selects(policy: Thing, pod: Thing) -> bool:
    if policy["metadata"]["namespace"] != pod["metadata"]["namespace"]:
        return False
    labels, selector = pod["metadata"].get("labels") or {}, policy["spec"].get("podSelector") or {}
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    for rule in selector.get("matchExpressions") or []:
        key, values = rule["key"], rule.get("values") or []
        holds = {
            "In": labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }[rule["operator"]]
        if not holds:
            return False
    return True


def hook(bridge: str) -> None:
    """Sends the bridge's packets through our chains, which drop all of them for now."""
    apply(frozenset(), frozenset())
    jumps = [
        ("FORWARD", "-i", bridge, "-j", "AGENTGYM-FROM"),
        ("INPUT", "-i", bridge, "-j", "AGENTGYM-FROM"),
        ("FORWARD", "-o", bridge, "-j", "AGENTGYM-TO"),
    ]
    for jump in jumps:
        if subprocess.run(["iptables", "-w", "-t", "mangle", "-C", *jump], capture_output=True).returncode:
            subprocess.run(["iptables", "-w", "-t", "mangle", "-A", *jump], check=True)
    for chain in ("FORWARD", "INPUT"):  # pods have link-local addresses of version 6, and nothing to do with them
        subprocess.run(["ip6tables", "-w", "-t", "mangle", "-A", chain, "-i", bridge, "-m", "comment", "--comment",
                        "AGENTGYM-V6", "-j", "DROP"], capture_output=True)  # fmt: skip


def apply(may_send: frozenset[str], may_be_reached: frozenset[str]) -> None:
    """Replaces both chains in one step."""
    lines = ["*mangle", ":AGENTGYM-FROM - [0:0]", ":AGENTGYM-TO - [0:0]"]
    for chain, flag, addresses in (("AGENTGYM-FROM", "-s", may_send), ("AGENTGYM-TO", "-d", may_be_reached)):
        lines.append(f"-A {chain} -m conntrack --ctstate RELATED,ESTABLISHED -j RETURN")
        lines += [f"-A {chain} {flag} {address} -j RETURN" for address in sorted(addresses)]
        lines.append(f"-A {chain} -j DROP")
    text = "\n".join([*lines, "COMMIT", ""])
    subprocess.run(["iptables-restore", "-w", "--noflush"], input=text.encode(), check=True)


if __name__ == "__main__":
    main()
