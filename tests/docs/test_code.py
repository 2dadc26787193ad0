"""The code in the documentation runs: every block is run by some test, TOML is what its command takes, command lines parse."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from documents import PAGES, ROOT, blocks, run_block
from pydantic import BaseModel
from serving import serving
from typer._click.exceptions import MissingParameter, NoArgsIsHelpError

from agentgym.cli import remote
from agentgym.cli.evaluate import EvalConfig
from agentgym.cli.gateway import GatewayConfig
from agentgym.cli.main import app
from agentgym.cli.options import expand_at_files
from agentgym.cli.quickstart import QuickstartConfig
from agentgym.cli.rollout import RolloutConfig
from agentgym.config import ConfigError, load_config
from agentgym.tasks.manifest import AgentGymTable
from harness.profile import Profile
from trainer.objectives import OBJECTIVES
from trainer.online.config import OnlineConfig

RUN_BY = {
    ("algorithms.md", 0): "tests/docs/test_code.py",
    ("harness.md", 0): "tests/harness/test_docs.py",
    ("harness.md", 1): "tests/harness/test_docs.py",
    ("replay.md", 0): "tests/harness/replay/test_docs.py",
    ("sandboxes.md", 0): "tests/harness/test_docs.py",
    ("server.md", 0): "tests/docs/test_code.py",
    ("store.md", 0): "tests/store/test_docs.py",
    ("store.md", 1): "tests/store/test_docs.py",
    ("tasks.md", 0): "tests/harness/test_docs.py",
    ("training.md", 0): "tests/trainer/test_docs.py",
}
"""Which test runs each Python block; a block of your own needs one."""

TAKEN_BY: dict[tuple[str, int], Callable[[dict[str, Any]], object]] = {
    ("configuration.md", 0): RolloutConfig.model_validate,
    ("harness.md", 0): Profile.model_validate,
    ("tasks.md", 0): lambda document: AgentGymTable.model_validate(document["agentgym"]),
    ("tasks.md", 1): lambda document: AgentGymTable.model_validate(document["agentgym"] | {"fail_to_pass": ["t"]}),
    ("training.md", 0): OnlineConfig.model_validate,
}
"""What reads each TOML block."""

CONFIGS: dict[str, type[BaseModel]] = {
    "quickstart": QuickstartConfig,
    "rollout": RolloutConfig,
    "eval": EvalConfig,
    "gateway": GatewayConfig,
    "train": OnlineConfig,
}


def places(language: str) -> set[tuple[str, int]]:
    names = [str(page.relative_to(ROOT / "docs" if page.is_relative_to(ROOT / "docs") else ROOT)) for page in PAGES]
    return {(name, number) for name in names for number, _ in enumerate(blocks(name, language))}


def test_every_python_block_is_run_by_a_test() -> None:
    assert places("python") == set(RUN_BY)
    for (page, _), file in RUN_BY.items():
        assert page in (ROOT / file).read_text(), f"{file} runs nothing of {page}"


@pytest.mark.parametrize("place", sorted(places("toml")), ids=lambda place: f"{place[0]}:{place[1]}")
def test_every_toml_block_is_what_its_reader_takes(place: tuple[str, int]) -> None:
    TAKEN_BY[place](tomllib.loads(blocks(place[0], "toml")[place[1]]))


async def test_a_server_is_asked_as_its_page_says(tmp_path, monkeypatch, capsys) -> None:
    """The run ends at once, since nothing has validated its task here; launching, watching and reading are all real."""
    with serving(tmp_path / "store.db") as server:
        await run_block("server.md", 0, **{"http://127.0.0.1:8000": server.url})
    assert "0 None" in capsys.readouterr().out


async def test_an_objective_is_registered_as_its_page_says() -> None:
    class MyOptions(BaseModel):
        pass

    try:
        namespace = await run_block("algorithms.md", 0, names={"OBJECTIVES": OBJECTIVES, "MyOptions": MyOptions})
        assert "mine" in OBJECTIVES.names()
        assert OBJECTIVES._entries["mine"][0] is namespace["Mine"]
    finally:
        OBJECTIVES._entries.pop("mine", None)


def command_lines() -> Iterator[tuple[str, str, bool]]:
    """Where, the words, and whether it stands alone, as something to type, and not in a sentence."""
    for page in PAGES:
        lines = re.sub(r"\\\n\s*", " ", page.read_text()).splitlines()
        for number, (line, after) in enumerate(zip(lines, [*lines[1:], ""], strict=True), 1):
            alone = re.match(r"(?:\$ |    (?:\$ )?)(?:[A-Z_]+=\S+ )*(agentgym .*)", line)
            found = [alone[1]] if alone else re.findall(r"`(agentgym [^`]+)`", line)
            if not after.strip().startswith("error:"):  # one that is shown to fail
                yield from ((f"{page.name}:{number}", one, bool(alone)) for one in found)


def write_configs(page: str) -> None:
    """The files that a page's blocks say they are; where it has none of that name, those of docs/configuration.md."""
    for name, number in sorted(places("toml"), key=lambda place: (place[0] == page, place[0] == "configuration.md")):
        block = blocks(name, "toml")[number]
        if named := re.match(r"# (\S+\.toml)", block):
            Path(named[1]).write_text(block)


@pytest.mark.parametrize(
    ("place", "line", "alone"), [pytest.param(*one, id=f"{one[0]} {one[1]}") for one in command_lines()]
)
def test_every_command_line_is_one(place: str, line: str, alone: bool, tmp_path, monkeypatch) -> None:
    """Parsed as the command would parse it, files included, without running it. In a sentence it may lack something."""
    monkeypatch.chdir(tmp_path)
    write_configs(place.partition(":")[0])
    line = re.sub(r"(?<=TASK)\.\.\.|[|&;].*", "", line)
    words = [re.sub(r"^[NVK]$", "1", word) for word in shlex.split(line, comments=True)[1:]]
    if "COMMAND" in words or any("…" in word for word in words):
        return
    config: list[tuple[str, dict]] = []
    lacking: Exception | None = None
    monkeypatch.setattr(remote, "asked", lambda: True)
    monkeypatch.setattr(remote, "launch", lambda kind, given, as_json: config.append((kind, given)))
    try:
        understood(typer.main.get_command(app), "agentgym", expand_at_files(words), None)
        for kind, given in config:
            load_config(CONFIGS[kind], [], given)
    except (MissingParameter, NoArgsIsHelpError) as error:
        lacking = error
    except ConfigError as error:
        if not all("must be given" in fault for fault in str(error).splitlines()[1:]):
            raise
        lacking = error
    assert lacking is None or not alone, f"{line!r} lacks something: {lacking}"


def understood(command: Any, name: str, words: list[str], parent: Any) -> None:
    """Parse the words; of a command with a config, the values too. Raises UsageError for what it does not take."""
    try:
        context = command.make_context(name, list(words), parent=parent)
    except typer.Exit:  # --help
        return
    rest = [*context._protected_args, *context.args] if hasattr(command, "commands") else []
    if rest:
        sub, found, left = command.resolve_command(context, rest)
        understood(found, sub or "", left, context)
    elif name in CONFIGS:
        context.invoke(command.callback, **context.params)
