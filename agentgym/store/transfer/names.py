"""Names of files made from what people called things, which may be longer than a file's name can be."""

from __future__ import annotations

import hashlib

_LONGEST = 200
"""Bytes; file systems take 255, of which prefixes and endings need some."""


def short(name: str, mark: str) -> str:
    """The name; where it is too long, its start and its digest behind `mark`, so that different names stay different."""
    raw = name.encode()
    if len(raw) <= _LONGEST:
        return name
    return raw[:100].decode(errors="ignore") + mark + hashlib.sha256(raw).hexdigest()
