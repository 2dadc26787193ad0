"""How fast a client may ask: a bucket of `burst` requests that refills at `rate` a second, one for all processes of a server.

Buckets lie in a table of fixed size that the processes map from one file; a server of one process maps memory of its own. A
client's place follows from a hash of its address: one of `WAYS` neighbours, the one longest unused where all are taken. So
the table never grows, and a client is forgotten only where `WAYS` newer ones have the same place.
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PLACES = 2048
WAYS = 8
_BUCKET = struct.Struct("<Qdd")
"""Whose it is, its level, and when that was (of the system's monotonic clock, which processes share)."""
_SIZE = PLACES * WAYS * _BUCKET.size


class Buckets:
    """path: the file of the processes that count together; None: this one counts alone."""

    def __init__(self, path: Path | None = None) -> None:
        self._file = None if path is None else path.open("a+b")
        if self._file is not None:
            self._file.truncate(_SIZE)
        self._table = mmap.mmap(-1 if self._file is None else self._file.fileno(), _SIZE)

    def take(self, client: str, *, rate: float, burst: float) -> float:
        """Take a request out of a client's bucket. 0 where there was one, else the seconds until there is."""
        key = int.from_bytes(hashlib.blake2b(client.encode("utf-8", "replace"), digest_size=8).digest(), "little")
        with self._alone():
            now = time.monotonic()
            places = range(key % PLACES * WAYS * _BUCKET.size, _SIZE, _BUCKET.size)[:WAYS]
            buckets = [_BUCKET.unpack_from(self._table, place) for place in places]
            found = [at for at, (whose, _, _) in enumerate(buckets) if whose == key]
            at = found[0] if found else min(range(WAYS), key=lambda one: buckets[one][2])
            _, level, then = buckets[at]
            level = min(burst, level + (now - then) * rate) if found else burst
            _BUCKET.pack_into(self._table, places[at], key, max(level - 1, 0), now)
        return 0.0 if level >= 1 else (1 - level) / rate

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """A process that dies in between leaves no lock."""
        if self._file is None:
            yield
            return
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)
