"""Bounded output: the head and the tail of a stream of any length, in flat memory.

The first half of the limit is kept from the start, the second half from the end; what lies between is counted and
dropped. The producer is never blocked: every byte is taken, only not kept.
"""

from __future__ import annotations

from collections import deque


class HeadTail:
    """Collects bytes up to `limit`; `finish` gives (kept bytes, number of bytes dropped between head and tail)."""

    def __init__(self, limit: int) -> None:
        self._head_limit = (limit + 1) // 2
        self._tail_limit = limit // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._dropped = 0

    def feed(self, data: bytes) -> None:
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        if len(data) > self._tail_limit:
            self._dropped += len(data) - self._tail_limit
            data = data[len(data) - self._tail_limit :]
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size - len(self._tail[0]) >= self._tail_limit and len(self._tail) > 1:
            oldest = self._tail.popleft()
            self._tail_size -= len(oldest)
            self._dropped += len(oldest)

    def finish(self) -> tuple[bytes, int]:
        tail = b"".join(self._tail)
        excess = max(0, len(tail) - self._tail_limit)
        return bytes(self._head) + tail[excess:], self._dropped + excess
