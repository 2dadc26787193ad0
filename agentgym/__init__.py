"""agentgym: train coding agents by reinforcement learning, and trust the update.

Rooms (arrows point one way; `make check` enforces them):

    tasks    which problems exist            sandbox  where actions happen
    verify   what counts as solved           store    what happened
    server   REST API and web pages          cli      the command line, on top of it all

`harness` (how a policy acts) and `trainer` (how evidence becomes an update) are packages of their own;
the store is the only road between them.
"""

import os

__version__ = "0.1.0"

# Inference shares its cores with the sandboxes. Threads of torch that spin while they wait for each other then stand
# still for whole scheduler turns (measured: 10 times slower on two busy cores); must be set before torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
