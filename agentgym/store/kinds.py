"""Whether a value is of the kind that a record declares: exactly, as JSON and databases would otherwise convert it.

1.0 is no integer, true no number, and an integer is a number only where float64 holds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

DEEPEST = 200
"""Levels of lists and objects that a record may nest: what reads it again (JSON parsers, exports) goes deep by recursion."""

_NESTING = (Mapping, list, tuple)


def fits(value: object, hint: Any) -> bool:
    """Whether a value is of the type `hint`, as records declare them."""
    origin = get_origin(hint)
    if origin is UnionType:
        return any(fits(value, one) for one in get_args(hint))
    if hint is Any:
        return True
    if origin is Mapping:
        return isinstance(value, Mapping) and all(fits(one, get_args(hint)[1]) for one in value.values())
    if origin in (tuple, list):
        return isinstance(value, origin) and all(fits(one, get_args(hint)[0]) for one in value)
    if isinstance(value, bool):
        return hint is bool
    if hint is float and isinstance(value, int):
        return _float64_holds(value)
    return isinstance(value, origin or hint)


def wrong_kinds(record: type, values: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each of the values that is not of the kind that `record` declares under its name."""
    for name, (hint, plain) in _declared(record).items():
        if name in values and type(values[name]) not in plain and not fits(values[name], hint):
            yield f"{name} of a {record.__name__} is {values[name]!r:.80}"


def require_kinds(record: type, values: Mapping[str, Any]) -> None:
    """Raises TypeError for the first of `wrong_kinds`, or where `values` is no table."""
    if not isinstance(values, Mapping):
        raise TypeError(f"a {record.__name__} is {values!r:.80}")
    for fault in wrong_kinds(record, values):
        raise TypeError(fault)


def nested_deeper(value: object, levels: int) -> bool:
    """Whether a JSON value has more than so many levels of lists and objects."""
    found = [value]
    for _ in range(levels):
        found = [
            item
            for one in found
            if isinstance(one, _NESTING)
            for item in (one.values() if isinstance(one, Mapping) else one)
        ]
        if not found:
            return False
    return any(isinstance(one, _NESTING) for one in found)


def _float64_holds(value: int) -> bool:
    try:
        return float(value) == value
    except OverflowError:
        return False


@cache
def _declared(record: type) -> dict[str, tuple[Any, frozenset[Any]]]:
    """The type of each field, and the classes whose values fit it without a closer look."""
    hints = get_type_hints(record)
    return {
        name: (hint, frozenset(get_args(hint) if isinstance(hint, UnionType) else [hint]))
        for name, hint in hints.items()
    }
