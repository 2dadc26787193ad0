"""Which command a run is, and its command line: kinds of run, what names their arguments, and what only the server sets."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from agentgym.server.problem import RequestError

RunKind = Literal["rollout", "eval", "train", "replay", "check", "validate", "import", "build", "reap"]
KINDS: tuple[str, ...] = get_args(RunKind)


@dataclass(frozen=True, slots=True)
class _Command:
    """words: after `agentgym`. arguments: keys of the config that are positional; other keys become options. A command with
    `config_file` takes all of it as TOML instead. selects: whether options choose its trajectories, by run among others, so that
    it needs no arguments. has_store: whether it has `--store`. admin: whose scope starts it."""

    words: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    config_file: bool = False
    selects: bool = False
    has_store: bool = True
    admin: bool = False


_COMMANDS: Mapping[str, _Command] = {
    "rollout": _Command(("rollout",), config_file=True),
    "eval": _Command(("eval",), config_file=True),
    "train": _Command(("train",), config_file=True),
    "replay": _Command(("replay",), ("trajectory",), selects=True),
    "check": _Command(("store", "check"), selects=True),
    "validate": _Command(("tasks", "validate"), ("tasks",)),
    "import": _Command(("tasks", "import"), ("benchmark", "source"), admin=True),
    "build": _Command(("images", "build"), ("tasks",)),
    "reap": _Command(("sandbox", "reap"), has_store=False, admin=True),
}
_OURS = ("store", "output", "run_id", "name", "out", "json")
"""Keys that the server sets. `run_id` has another meaning where no episode is rolled out: whose episodes are read."""


def needs_admin(kind: RunKind) -> bool:
    """Whether a run reads files of the server's disk, or removes what others made."""
    return _COMMANDS[kind].admin


def check(kind: RunKind, config: Mapping[str, Any]) -> None:
    """Raises a 422 problem for a config that no command line can say, or that says what is the server's to say."""
    free = ("run_id",) if reads_stored_episodes(kind, config) else ()
    if refused := [key for key in config if key in _OURS and key not in free]:
        raise RequestError(422, f"config keys {refused} are the server's to set", hint="leave them out")
    if _COMMANDS[kind].config_file:
        json.dumps(config)
    else:
        _arguments(kind, config)


def reads_stored_episodes(kind: RunKind, config: Mapping[str, Any]) -> bool:
    """Whether `run_id` says whose episodes it reads: a run that rolls nothing out names none itself."""
    return _COMMANDS[kind].selects or (kind == "train" and config.get("mode", "offline") == "offline")


def command_line(kind: RunKind, config: Mapping[str, Any], run_id: str, store: str, directory: Path) -> list[str]:
    """What follows `agentgym`; writes the config file of a command that takes one into `directory`."""
    command = _COMMANDS[kind]
    common = [*(["--store", store] if command.has_store else []), "--json"]
    if not command.config_file:
        options, arguments = _arguments(kind, config)
        own = ["--out", str(directory / "tasks")] if kind == "import" else []
        named = ["--", *arguments] if command.arguments else []
        return [*command.words, *options, *own, *common, *named]
    path = directory / "config.toml"
    path.write_text(toml(config), "utf-8")
    own = ["--output", str(directory / "checkpoints"), "--name", run_id] if kind == "train" else []
    if not reads_stored_episodes(kind, config):
        own += ["--run-id", run_id]
    return [*command.words, "--config", str(path), *own, *common]


def _arguments(kind: RunKind, config: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Options, and positional arguments."""
    names = _COMMANDS[kind].arguments
    arguments: list[str] = []
    for name in names:
        if _COMMANDS[kind].selects and name not in config and config:
            continue
        given = config.get(name)
        given = [given] if isinstance(given, str) else given
        if not isinstance(given, list) or not given or not all(isinstance(one, str) and one for one in given):
            raise RequestError(422, f"config: {name} names what to {kind}, as text or a list of texts")
        if len(names) > 1 and len(given) != 1:
            raise RequestError(422, f"config: {name} is one text, not {len(given)}")
        arguments += given
    options: list[str] = []
    for key, value in config.items():
        if key in names:
            continue
        values = value if isinstance(value, list) else [value]
        if not re.fullmatch(r"[a-z][a-z_]*", key) or not all(isinstance(one, (str, int, float)) for one in values):
            raise RequestError(
                422, f"config: {key} = {value!r} is no option of `agentgym {' '.join(_COMMANDS[kind].words)}`"
            )
        option = key.replace("_", "-")
        options += [
            f"--{'' if one else 'no-'}{option}" if isinstance(one, bool) else f"--{option}={one}" for one in values
        ]
    return options, arguments


def toml(config: Mapping[str, Any]) -> str:
    """A JSON object as TOML. JSON's strings, numbers, booleans and lists are TOML's too; null has no TOML and is left out."""
    return "".join(f"{_string(key)} = {_value(value)}\n" for key, value in config.items() if value is not None)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_string(key)} = {_value(one)}" for key, one in value.items() if one is not None)
        return f"{{{inner}}}"
    if isinstance(value, list):
        return f"[{', '.join(_value(one) for one in value if one is not None)}]"
    return _string(value) if isinstance(value, str) else json.dumps(value)


def _string(text: str) -> str:
    return json.dumps(text.encode("utf-8", "replace").decode(), ensure_ascii=False).replace("\x7f", "\\u007f")
