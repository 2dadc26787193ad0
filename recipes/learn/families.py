"""Which snippets the families come from.

All that imitation or the held-out modules use, but for reinforcement only the modules with the most places for a bug. An hour
has a few hundred episodes: spread over all modules each would be met once or twice, and "new bugs of the modules it trained on"
would measure little but general skill.
"""

from __future__ import annotations

from agentgym.tasks.mutation.bases import Base, snippet_bases
from agentgym.tasks.mutation.mutants import Choice, sites_of
from agentgym.tasks.mutation.sets import share_of


def snippet_sources(rl_modules: int, choice: Choice) -> list[str]:
    """Sources for `agentgym tasks mutate`: "snippets:NAME" of every module to use, in the order of their names."""
    bases = snippet_bases()
    trained = [base for base in bases if _share(base) == "train"]
    kept = {base.name for base in sorted(trained, key=lambda base: (-_places(base, choice), base.name))[:rl_modules]}
    return [f"snippets:{base.name}" for base in bases if base.name in kept or _share(base) != "train"]


def _share(base: Base) -> str:
    return share_of(base, base.modules[0])


def _places(base: Base, choice: Choice) -> int:
    texts = ((path, (base.tree / path).read_text(encoding="utf-8")) for path in base.modules)
    return sum(choice.takes(site) for path, text in texts for site in sites_of(path, text))
