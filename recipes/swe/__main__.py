"""The command of this recipe; see the package."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from agentgym.config import parse_config, read_toml
from agentgym.errors import AgentGymError
from recipes.swe.memory import needs, table
from recipes.swe.plan import commands, write_configs
from recipes.swe.settings import SweSettings
from trainer.online.config import OnlineConfig


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m recipes.swe", description=__doc__)
    parser.add_argument("settings", type=Path, help="a TOML file such as recipes/swe/qwen3-8b.toml")
    given = parser.parse_args()
    try:
        settings = parse_config(SweSettings, read_toml(given.settings), origin=str(given.settings))
        plan = commands(settings)
        train = next(command for command in plan if command.name == "train")
        found = needs(settings, OnlineConfig.model_validate(train.config))
        print("memory (an estimate; this recipe was never run):", table(found), "", sep="\n")
        for command in plan:
            print(f"# {command.name}", command.shown(), sep="\n")
        print("", "configs written:", *write_configs(settings), sep="\n")
    except AgentGymError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0 if all(need.fits for need in found) else 1


sys.exit(main())
