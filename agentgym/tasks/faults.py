"""Faults of a manifest, all at once: each names its key, what is wrong with it, and the nearest valid key."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from agentgym.tasks.manifest import HarborTable, Manifest


def nearest(key: str, valid: Mapping[str, Any] | list[str]) -> str:
    """ " (did you mean 'x'?)" or nothing."""
    close = difflib.get_close_matches(key, list(valid), n=1, cutoff=0.6)
    return f" (did you mean '{close[0]}'?)" if close else ""


def _model_at(path: tuple[int | str, ...]) -> type[BaseModel] | None:
    """The manifest model that holds the key at `path`, following nested tables and tagged unions."""
    models: list[type[BaseModel]] = [Manifest]
    for part in path[:-1]:
        deeper: list[type[BaseModel]] = []
        for model in models:
            info = model.model_fields.get(str(part))
            deeper.extend(_models_in(info.annotation) if info else [])
        tagged = [model for model in models if "kind" in model.model_fields and _kind(model) == part]
        models = tagged or deeper
    return models[0] if models else None


def _kind(model: type[BaseModel]) -> str:
    return (get_args(model.model_fields["kind"].annotation) or ("",))[0]


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in _models_in(inner)]


def validation_faults(error: ValidationError) -> Iterator[str]:
    """One line per fault that pydantic found."""
    for entry in error.errors():
        path = entry["loc"]
        key = ".".join(str(part) for part in path) or "task.toml"
        if entry["type"] == "extra_forbidden":
            model = _model_at(path)
            yield f"{key}: unknown key{nearest(str(path[-1]), list(model.model_fields) if model else [])}"
        elif entry["type"] == "missing":
            yield f"{key}: missing"
        else:
            yield f"{key}: {entry['msg'].removeprefix('Value error, ')} (got {str(entry['input'])[:80]!r})"


def missing_faults(document: Mapping[str, Any]) -> Iterator[str]:
    """Keys that only some kinds of source can do without, judged on the raw document so that no other fault hides them."""
    table = document.get("agentgym")
    source = table.get("source", {}) if isinstance(table, Mapping) else {}
    kind = source.get("kind") if isinstance(source, Mapping) else None
    if isinstance(table, Mapping) and kind != "script" and not table.get("test_paths"):
        yield "agentgym.test_paths: missing; it names the files that the tests own"


def typo_faults(table: HarborTable, prefix: str = "") -> Iterator[str]:
    """Keys of Harbor's tables that we do not know but that are one slip away from one we do."""
    known = type(table).model_fields
    for key in table.model_extra or {}:
        if not isinstance(table.model_extra, Mapping):
            continue
        close = difflib.get_close_matches(key, list(known), n=1, cutoff=0.85)
        if close and close[0] not in table.model_fields_set:
            yield f"{prefix}{key}: unknown key (did you mean '{close[0]}'?)"
    for name in known:
        value = getattr(table, name)
        if isinstance(value, HarborTable):
            yield from typo_faults(value, f"{prefix}{name}.")


def unsupported_faults(manifest: Manifest) -> Iterator[str]:
    """What Harbor can express and this platform cannot run."""
    environment = manifest.environment
    if manifest.steps:
        yield f"steps: tasks of several steps are not supported (it has {len(manifest.steps)})"
    if environment.mcp_servers:
        yield "environment.mcp_servers: tool servers beside the sandbox are not supported"
    if environment.os != "linux":
        yield f"environment.os: only linux sandboxes exist (got {environment.os!r})"
    if environment.gpus or environment.tpu:
        yield "environment.gpus: sandboxes have no accelerators"
    if environment.network_mode == "allowlist" and not environment.allowed_hosts:
        yield "environment.allowed_hosts: network_mode 'allowlist' needs the hosts that may be reached"
