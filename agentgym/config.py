"""Configuration: one pydantic model per job, filled from TOML files and overridden by command-line options.

A job's config class lists every knob with a one-line description. The CLI derives an option from each field
(`agentgym.cli.options`), so an option and a TOML key are the same thing under the same name: `--sampling.temperature 0.7`
is `[sampling] temperature = 0.7`. Unknown keys are errors that name the nearest valid key.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from agentgym.errors import InputError

STORE_VARIABLE = "AGENTGYM_STORE"
"""Names the store where no option and no file does."""


class Config(BaseModel):
    """Base of every config: unknown keys are refused, instances are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


class ConfigError(InputError):
    """A config file or option cannot be used; the message lists every fault with its key."""


ConfigT = TypeVar("ConfigT", bound=BaseModel)


def load_config(cls: type[ConfigT], files: Sequence[Path] = (), overrides: Mapping[str, Any] | None = None) -> ConfigT:
    """Build `cls` from TOML `files` (later ones win) and `overrides` (dotted keys win over all files).

    Raises ConfigError naming the file, the key, what was wrong and the nearest valid key.
    """
    values = merged(files, overrides or {})
    return parse_config(cls, values, origin=", ".join(map(str, files)) or "options")


def merged(files: Sequence[Path], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """What was said, unchecked: TOML `files` (later ones win) and `overrides` (dotted keys win over all files)."""
    values: dict[str, Any] = {}
    for file in files:
        _merge(values, read_toml(file))
    for key, value in overrides.items():
        *parents, leaf = key.split(".")
        table = values
        for parent in parents:
            table = table.setdefault(parent, {})
            if not isinstance(table, dict):
                raise ConfigError(f"{parent}: a table of keys is needed there (got {table!r})")
        table[leaf] = value
    return values


def parse_config(cls: type[ConfigT], values: Mapping[str, Any], *, origin: str) -> ConfigT:
    """Validate `values` as `cls`; raises ConfigError that lists every fault of `origin`."""
    try:
        return cls.model_validate(values)
    except ValidationError as error:
        faults = "\n".join(f"  {_fault(cls, details)}" for details in error.errors())
        raise ConfigError(f"{origin}: not a valid {cls.__name__}\n{faults}") from None


def read_toml(file: Path) -> dict[str, Any]:
    """Parse a TOML file; raises ConfigError with file and line."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{file}: no such file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{file}: not valid TOML: {error}") from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None


def nearest(name: str, valid: Sequence[str]) -> str:
    """` (did you mean "x"?)` for a misspelt name, or the list of what is valid."""
    close = difflib.get_close_matches(name, valid, n=1, cutoff=0.6)
    return f' — did you mean "{close[0]}"?' if close else f" — valid are: {', '.join(sorted(valid))}"


def _merge(into: dict[str, Any], values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def _fault(cls: type[BaseModel], details: ErrorDetails) -> str:
    path = [str(part) for part in details["loc"]]
    key = ".".join(path)
    if details["type"] == "extra_forbidden":
        owner = _model_at(cls, path[:-1])
        return f"{key}: unknown key{nearest(path[-1], list(owner.model_fields)) if owner else ''}"
    if details["type"] == "missing":
        return f"{key}: must be given"
    return f"{key}: {details['msg']} (got {details['input']!r})"


def _model_at(cls: type[BaseModel], path: Sequence[str]) -> type[BaseModel] | None:
    for part in path:
        field = cls.model_fields.get(part)
        if field is None or not (isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)):
            return None
        cls = field.annotation
    return cls
