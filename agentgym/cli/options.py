"""From a config class to command-line options, and back.

`config_command(app, cls)` registers a function that takes one config as a command with an option per field of the config;
nested configs become dotted options. `agentgym rollout @ run.toml --concurrency 8` reads the file first, then the options.
Options not given stay out of the way (None), so a file's value is never overwritten by a default. A field named `store`
may also come from AGENTGYM_STORE, as `--store` does everywhere: the variable replaces the default, so files and options win.
"""

from __future__ import annotations

import functools
import inspect
import os
import types
import typing
from collections.abc import Callable, Container, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from agentgym.cli import remote
from agentgym.config import STORE_VARIABLE, load_config, merged, read_toml

CONFIG_FILES = Annotated[
    list[Path],
    typer.Option("--config", metavar="FILE", help='TOML file with any of the options below; "@ FILE" is the same.'),
]
JSON = Annotated[bool, typer.Option("--json", help="One JSON document on stdout instead of a table.")]


def expand_at_files(arguments: list[str]) -> list[str]:
    """Rewrite `@ FILE` and `@FILE` as `--config FILE`."""
    expanded: list[str] = []
    pending = iter(arguments)
    for argument in pending:
        if argument == "--":
            return [*expanded, argument, *pending]
        if argument == "@":
            expanded += ["--config", next(pending, "")]
        elif argument.startswith("@") and len(argument) > 1:
            expanded += ["--config", argument[1:]]
        else:
            expanded.append(argument)
    return expanded


def config_command(
    app: typer.Typer, cls: type[BaseModel], name: str, *, positional: str | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register `function(config, as_json=...)` as command `name`; `positional` names a list field given as arguments."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        fields = dict(_leaves(cls))

        @functools.wraps(function)
        def command(**given: Any) -> None:
            files = given.pop("config_files") or []
            as_json = given.pop("as_json")
            overrides = {
                key: given[_parameter(key)]
                for key in fields
                if given.get(_parameter(key)) is not None and given[_parameter(key)] != []
            }
            if remote.asked():
                remote.launch(name, merged(files, overrides), as_json=as_json)
                return
            function(load_config(cls, files, _environment(fields, files, overrides) | overrides), as_json=as_json)

        parameters = [
            inspect.Parameter(
                _parameter(key),
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=_annotation(key, field, argument=key == positional),
            )
            for key, field in fields.items()
        ]
        parameters += [
            inspect.Parameter("config_files", inspect.Parameter.KEYWORD_ONLY, default=[], annotation=CONFIG_FILES),
            inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=JSON),
        ]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        app.command(name, help=inspect.getdoc(function))(command)
        return function

    return register


def _environment(fields: Container[str], files: Sequence[Path], overrides: Container[str]) -> dict[str, str]:
    """What the environment says in place of defaults: the store, where neither a file nor an option names one."""
    store = os.environ.get(STORE_VARIABLE)
    if not store or "store" not in fields or "store" in overrides or any("store" in read_toml(f) for f in files):
        return {}
    return {"store": store}


def _parameter(key: str) -> str:
    return key.replace(".", "__")


def _leaves(cls: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    for name, field in cls.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _leaves(field.annotation, f"{prefix}{name}.")
        else:
            yield prefix + name, field


def _annotation(key: str, field: FieldInfo, *, argument: bool) -> Any:
    kind = _option_type(field.annotation)
    text = " ".join(filter(None, (field.description, *_notes(key, kind, field, argument=argument))))
    if argument:
        name = key.upper().removesuffix("S")
        return Annotated[kind | None, typer.Argument(help=text, show_default=False, metavar=name)]
    flag = "--" + key.replace("_", "-")
    if kind is bool:
        flag = f"{flag}/--no-{flag[2:]}"
    choices = "|".join(map(str, get_args(field.annotation))) if get_origin(field.annotation) is Literal else None
    return Annotated[kind | None, typer.Option(flag, help=text, show_default=False, metavar=choices)]


def _notes(key: str, kind: Any, field: FieldInfo, *, argument: bool) -> Iterator[str]:
    """What help says after the description: repetition, environment variable, default ("off" needs no word)."""
    if kind == list[str] and not argument:
        yield "May be repeated."
    if key == "store":
        yield f"(env var: {STORE_VARIABLE})"
    default = field.get_default(call_default_factory=True)
    if isinstance(default, (list, tuple)):
        default = " ".join(map(str, default))
    if default is not False and default not in (None, PydanticUndefined, "", {}):
        yield f"(default: {'on' if default is True else default})"


def _option_type(annotation: Any) -> Any:
    """The type typer parses: unions lose None, sequences become lists, literals stay strings for pydantic to check."""
    origin = get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        members = [member for member in get_args(annotation) if member is not type(None)]
        return _option_type(members[0]) if len(members) == 1 else str
    if origin is tuple and Ellipsis not in get_args(annotation):
        return tuple[*(_option_type(member) for member in get_args(annotation))]
    if origin in (list, tuple, set, frozenset):
        return list[str]
    if origin is Literal:
        return str
    if isinstance(annotation, type) and annotation in (bool, int, float, str, Path):
        return annotation
    return str
