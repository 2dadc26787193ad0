"""Algorithms by name: a table that knows each algorithm's class and the pydantic model of its options."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from trainer.errors import TrainConfigError

T = TypeVar("T")
Factory = TypeVar("Factory", bound=Callable[..., Any])


class Registry(Generic[T]):
    """`register` as a class decorator; `build(name, options)` validates the options and constructs the algorithm."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, tuple[Callable[[Any], T], type[BaseModel], dict[str, Any]]] = {}

    def register(self, name: str, options: type[BaseModel], **presets: Any) -> Callable[[Factory], Factory]:
        """Register a class built from one `options` instance. `presets` are this name's own option defaults."""

        def add(factory: Factory) -> Factory:
            if name in self._entries:
                raise ValueError(f"{self.kind} {name!r} is registered twice")
            self._entries[name] = (factory, options, presets)
            return factory

        return add

    def names(self) -> list[str]:
        return sorted(self._entries)

    def options(self, name: str, given: Mapping[str, Any]) -> BaseModel:
        """The validated options of `name`; TrainConfigError names the nearest valid key for an unknown one."""
        if name not in self._entries:
            raise TrainConfigError(
                f"unknown {self.kind} {name!r}", hint=f"known: {', '.join(self.names())}{_nearest(name, self.names())}"
            )
        _, model, presets = self._entries[name]
        unknown = [key for key in given if key not in model.model_fields]
        if unknown:
            keys = list(model.model_fields)
            raise TrainConfigError(
                f"{self.kind} {name!r} has no option {unknown[0]!r}",
                hint=f"options: {', '.join(keys) or 'none'}{_nearest(unknown[0], keys)}",
            )
        try:
            return model.model_validate({**presets, **given})
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "options"
            raise TrainConfigError(f"{self.kind} {name!r}: {where} = {first['input']!r}: {first['msg']}") from error

    def build(self, name: str, given: Mapping[str, Any] | None = None) -> T:
        options = self.options(name, given or {})
        return self._entries[name][0](options)


def _nearest(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
