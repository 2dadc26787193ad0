"""Sandboxes as pods of a Kubernetes cluster, from 1.20 on, in-cluster or with a kubeconfig.

    backend     start = create (waits for quota) → scheduled, pulled, running → channel open; proves the network closed first
    template    the pod                      verdict     what its status means, as typed errors (`errors`)
    cluster     one owner in one namespace   pods        one watch for all of them      api     the official client, in JSON
    stream      a process over a websocket   sandbox     commands, files, snapshots (`snapshot`)
    ownership   leases and heartbeats        reaper      what the dead have left        probe   is the network really closed?

Nothing is imported here: `config` is read also where the client (extra `kubernetes`) is not installed.
"""
