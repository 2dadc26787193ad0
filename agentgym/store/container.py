"""The envelope of every blob in the store: named, compressed sections under one checksum.

All integers are little-endian. Version 1:

    offset  bytes
    0       4      magic "AGYM"
    4       2      u16 format version (1)
    6       2      u16 number of sections n
    8       16     BLAKE2b-128 of every byte from offset 24 on
    24      20·n   table: per section 4 bytes ASCII name, u64 raw length, u64 stored length
    ...            the sections' stored bytes, in table order, each one zstd frame

Names are unique. A reader that does not know a section may skip it; one that does not know the version must stop.
`docs/store.md` repeats this for readers without agentgym.
"""

from __future__ import annotations

import hashlib
import struct
import threading
from collections.abc import Mapping

import zstandard

from agentgym.store.errors import CorruptError

MAGIC = b"AGYM"
VERSION = 1
LEVEL = 6
"""zstd level. On token ids 6 is 13 % smaller than 3 at a tenth of the ingest budget; above 9 it stops paying."""
NOISE_LEVEL = 4
"""For sections that are nearly random (`LOGP`): higher levels take twice the time and save a thousandth."""
_NOISE = {"LOGP"}

_HEAD = struct.Struct("<4sHH16s")
_ENTRY = struct.Struct("<4sQQ")
_MAX_RAW = 1 << 36

# zstd contexts are expensive to make and must not be used by two threads at once.
_local = threading.local()


def pack(sections: Mapping[str, bytes]) -> bytes:
    """One blob from sections; names are four ASCII characters."""
    stored = {
        name: _compressor(NOISE_LEVEL if name in _NOISE else LEVEL).compress(raw) for name, raw in sections.items()
    }
    table = b"".join(_ENTRY.pack(name.encode("ascii"), len(raw), len(stored[name])) for name, raw in sections.items())
    body = b"".join([table, *stored.values()])
    return _HEAD.pack(MAGIC, VERSION, len(sections), _digest(body)) + body


def unpack(blob: bytes) -> dict[str, bytes]:
    """Sections of a blob, checksum and lengths verified. Raises CorruptError."""
    if len(blob) < _HEAD.size:
        raise CorruptError(f"blob of {len(blob)} bytes is shorter than its header")
    magic, version, count, digest = _HEAD.unpack_from(blob)
    if magic != MAGIC:
        raise CorruptError(f"blob starts with {magic!r}, not {MAGIC!r}")
    if version != VERSION:
        raise CorruptError(f"blob has format version {version}, this agentgym reads {VERSION}", hint="upgrade agentgym")
    body = memoryview(blob)[_HEAD.size :]
    if _digest(body) != digest:
        raise CorruptError(f"checksum of a {len(blob)}-byte blob does not match")
    sections: dict[str, bytes] = {}
    offset = count * _ENTRY.size
    if offset > len(body):
        raise CorruptError(f"section table of {count} entries exceeds the blob")
    for i in range(count):
        raw_name, raw_length, stored_length = _ENTRY.unpack_from(body, i * _ENTRY.size)
        name = raw_name.decode("ascii", "replace")
        sections[name] = _inflate(body[offset : offset + stored_length], raw_length)
        offset += stored_length
    if offset != len(body):
        raise CorruptError(f"sections end at byte {offset} of {len(body)}")
    return sections


def _inflate(stored: memoryview, raw_length: int) -> bytes:
    if raw_length > _MAX_RAW:
        raise CorruptError(f"section claims {raw_length} bytes")
    try:
        raw = _decompressor().decompress(stored, max_output_size=max(raw_length, 1))
    except zstandard.ZstdError as error:
        raise CorruptError(f"section does not decompress: {error}") from error
    if len(raw) != raw_length:
        raise CorruptError(f"section holds {len(raw)} bytes instead of {raw_length}")
    return raw


def _digest(body: bytes | memoryview) -> bytes:
    return hashlib.blake2b(body, digest_size=16).digest()


def _compressor(level: int) -> zstandard.ZstdCompressor:
    known: dict[int, zstandard.ZstdCompressor] = _local.__dict__.setdefault("compressors", {})
    if level not in known:
        known[level] = zstandard.ZstdCompressor(level=level)
    return known[level]


def _decompressor() -> zstandard.ZstdDecompressor:
    if not hasattr(_local, "decompressor"):
        _local.decompressor = zstandard.ZstdDecompressor()
    return _local.decompressor
