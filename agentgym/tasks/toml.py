"""Write TOML tables of strings, numbers, booleans and string lists: all that a manifest needs (tomllib only reads)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def value(item: Any) -> str:
    """One TOML value; JSON's string escapes are TOML's, except DEL, which JSON leaves bare."""
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, (int, float)):
        return repr(item)
    if isinstance(item, str):
        return json.dumps(item, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(item, (list, tuple)):
        line = "[" + ", ".join(value(part) for part in item) + "]"
        return line if len(line) <= 100 else "[\n" + "".join(f"    {value(part)},\n" for part in item) + "]"
    raise TypeError(f"no TOML value for {type(item).__name__}: {item!r}")


def table(name: str, items: Mapping[str, Any]) -> str:
    """`[name]` with its keys in the order given; keys whose value is None are left out."""
    lines = [f"{key if key.replace('_', 'a').replace('-', 'a').isalnum() else json.dumps(key)} = {value(item)}"
             for key, item in items.items() if item is not None]  # fmt: skip
    return "\n".join([f"[{name}]", *lines, ""])
