"""agentgym: train coding agents by reinforcement learning, and trust the update.

Rooms (arrows point one way; `make check` enforces them):

    tasks    which problems exist            sandbox  where actions happen
    verify   what counts as solved           store    what happened
    server   REST API and web pages          cli      the command line, on top of it all

`harness` (how a policy acts) and `trainer` (how evidence becomes an update) are packages of their own;
the store is the only road between them.
"""

__version__ = "0.1.0"
