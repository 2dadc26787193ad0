"""The command line: one module per command group, all sitting on top of everything else."""

from agentgym.cli.main import main

__all__ = ["main"]
