"""The command of this recipe; see the package."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from agentgym.config import parse_config, read_toml
from agentgym.errors import AgentGymError
from recipes.learn.settings import LearnSettings
from recipes.learn.stages import Plan
from recipes.learn.summary import memory_table, summarise


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m recipes.learn", description=__doc__)
    parser.add_argument("settings", type=Path, help="a TOML file such as recipes/learn/learn.toml")
    parser.add_argument("--arm", default="sao", help="which of its [arms] to train")
    parser.add_argument("--dry-run", action="store_true", help="show every command and the memory, and do nothing")
    given = parser.parse_args()
    try:
        settings = parse_config(LearnSettings, read_toml(given.settings), origin=str(given.settings))
        if given.arm not in settings.arms:
            parser.error(f"no arm {given.arm!r}; there are {', '.join(settings.arms)}")
        plan = Plan(settings, given.arm, dry_run=given.dry_run)
        print(memory_table(settings), file=sys.stderr)
        plan.run()
        if not given.dry_run:
            print(summarise(plan))
    except AgentGymError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted; the same command goes on", file=sys.stderr)
        return 130
    return 0


sys.exit(main())
