"""The backend that everybody uses: an engine behind admission, throttle and warm pool, with the same protocol.

    start    warm pool -> admission (capacity) -> throttle (starts in flight, back-off) -> engine -> overlay
    close    engine -> capacity given back -> whoever waits goes on, shelves are filled

The whole-sandbox time limit is kept here too, counted from when a sandbox is handed out: at its end the sandbox is closed and
calls raise `SandboxExpired`. The engine's own limit stands behind it for when this process is dead.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from agentgym.sandbox import overlay
from agentgym.sandbox.admission import Admission, Lease
from agentgym.sandbox.capacity import Capacity, Cost
from agentgym.sandbox.egress import Egress
from agentgym.sandbox.pool import Pool
from agentgym.sandbox.protocol import (
    ExecResult,
    Image,
    ImageSpec,
    Limits,
    Sandbox,
    SandboxBackend,
    SandboxError,
    SandboxExpired,
    SandboxGone,
    Stream,
)
from agentgym.sandbox.throttle import Throttle


@dataclass(frozen=True, slots=True)
class QueueMetrics:
    """What stands in front of the engine now, and how long it took so far.

    waiting: starts that do not fit yet. starting: starts in flight; throttled: admitted, but not yet sent to the engine.
    live: sandboxes, `idle` warm ones included. memory_mb, cpus: sums of their limits. admitted: starts so far, `warm`
    of them from the pool. wait_p50_s, wait_max_s: time in the queue, over the last thousand. retries: failed starts that
    were repeated.
    overdrafts: starts admitted over the limit to dissolve a deadlock.
    """

    waiting: int
    throttled: int
    starting: int
    live: int
    idle: int
    memory_mb: int
    cpus: float
    admitted: int
    warm: int
    wait_p50_s: float
    wait_max_s: float
    retries: int
    overdrafts: int


class ManagedSandbox:
    """A sandbox and its lease; see `agentgym.sandbox.protocol.Sandbox`. inner: the engine's own."""

    def __init__(self, inner: Sandbox, image: Image, backend: ManagedBackend, lease: Lease, lifetime_s: float) -> None:
        self.inner = inner
        self.id = inner.id
        self.backend = inner.backend
        self.image = image
        self._managed = backend
        self._lease = lease
        self._lifetime_s = lifetime_s
        self._expired = False
        self._timer = asyncio.get_running_loop().call_later(lifetime_s, self._expire)
        self._closing: asyncio.Task[None] | None = None
        self._egress: Egress | None = None
        self._hosts: tuple[str, ...] = ()

    async def exec(
        self,
        command: str,
        *,
        timeout: float = 60.0,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stateful: bool = False,
        output_limit: int = 1_000_000,
        stdin: bytes | None = None,
    ) -> ExecResult:
        if self._hosts:
            env = {**(await self._proxies()), **(env or {})}
        try:
            return await self.inner.exec(
                command, timeout=timeout, cwd=cwd, env=env, stateful=stateful, output_limit=output_limit, stdin=stdin
            )
        except SandboxError as error:
            raise self._named(error) from error

    async def read_file(self, path: str, *, max_bytes: int | None = None) -> bytes:
        try:
            return await self.inner.read_file(path, max_bytes=max_bytes)
        except SandboxError as error:
            raise self._named(error) from error

    async def write_file(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        try:
            await self.inner.write_file(path, data, mode=mode)
        except SandboxError as error:
            raise self._named(error) from error

    async def upload(self, source: Path, target: str) -> None:
        try:
            await self.inner.upload(source, target)
        except SandboxError as error:
            raise self._named(error) from error

    async def download(self, source: str, target: Path) -> None:
        try:
            await self.inner.download(source, target)
        except SandboxError as error:
            raise self._named(error) from error

    async def snapshot(self) -> Image:
        try:
            return replace(await self.inner.snapshot(), spec=overlay.without(self.image).spec)
        except SandboxError as error:
            raise self._named(error) from error

    async def open_stream(self) -> Stream:
        try:
            return await self.inner.open_stream()
        except SandboxError as error:
            raise self._named(error) from error

    async def allow(self, hosts: tuple[str, ...]) -> None:
        """From now on its commands reach these hosts."""
        self._hosts = hosts
        self._egress = await Egress.open(self.inner, hosts)

    async def _proxies(self) -> Mapping[str, str]:
        if self._egress is None or self._egress.ended:  # all that ran was killed, and the relay with it
            await self.allow(self._hosts)
        assert self._egress is not None
        return self._egress.environment

    async def close(self) -> None:
        if self._closing is None:  # one task for all callers, and it goes on when a caller is cancelled
            self._timer.cancel()
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            if self._egress is not None:
                await self._egress.close()
            await self.inner.close()
        finally:
            self._managed.forget(self, self._lease)

    def _expire(self) -> None:
        self._expired = True
        closing = asyncio.ensure_future(self.close())
        closing.add_done_callback(lambda task: task.cancelled() or task.exception())  # what stays, the engine ends

    def _named(self, error: SandboxError) -> SandboxError:
        if self._expired and isinstance(error, SandboxGone):
            return SandboxExpired(f"sandbox {self.id[:24]} was closed at the end of its {self._lifetime_s:.0f} s")
        return error


class ManagedBackend:
    """See the module. engine: the backend behind it."""

    def __init__(self, engine: SandboxBackend, capacity: Capacity) -> None:
        self.engine = engine
        self.name = engine.name
        self.capacity = capacity
        self._admission = Admission(capacity)
        self._throttle = Throttle(capacity.starting)
        self._pool = Pool(engine.start, self._admission, self._throttle)
        self._admission.on_pressure = self._pool.give_way
        self._builds = asyncio.Semaphore(max(1, capacity.starting // 2))
        self._live: set[ManagedSandbox] = set()

    async def ensure_image(self, spec: ImageSpec) -> Image:
        async with self._builds:
            return overlay.above(spec, await self.engine.ensure_image(overlay.below(spec)))

    async def start(self, image: Image, limits: Limits = Limits()) -> ManagedSandbox:
        """A sandbox, from the pool or new; waits while the engine is full, and while it recovers from errors."""
        below = overlay.without(image)
        if found := await self._pool.take(below, limits):
            inner, lease = found
            self._admission.hold(lease)
        else:
            lease = await self._admission.admit(Cost.of(limits))
            try:
                inner = await self._throttle.run(lambda: self.engine.start(below, limits))
            except BaseException:
                lease.release()
                raise
        sandbox = ManagedSandbox(inner, image, self, lease, limits.lifetime_s)
        self._live.add(sandbox)
        try:
            await overlay.lay(sandbox)
            if limits.allow_hosts and not limits.network:
                await sandbox.allow(limits.allow_hosts)
        except BaseException:
            await sandbox.close()
            raise
        self._pool.refill()
        return sandbox

    def metrics(self) -> QueueMetrics:
        admission, pool, waits = self._admission, self._pool, self._admission.waits
        return QueueMetrics(
            waiting=admission.waiting,
            throttled=self._throttle.waiting,
            starting=self._throttle.running,
            live=admission.live,
            idle=pool.idle,
            memory_mb=admission.committed.memory_mb,
            cpus=admission.committed.cpus,
            admitted=admission.admitted + pool.hits,
            warm=pool.hits,
            wait_p50_s=statistics.median(waits) if waits else 0.0,
            wait_max_s=max(waits, default=0.0),
            retries=self._throttle.retries,
            overdrafts=admission.overdrafts,
        )

    def forget(self, sandbox: ManagedSandbox, lease: Lease) -> None:
        self._live.discard(sandbox)
        lease.release()
        self._pool.refill()

    async def reap(self, *, everything: bool = False) -> int:
        return await self.engine.reap(everything=everything)

    async def close(self) -> None:
        """Closes every sandbox that was started here, the warm ones too, and the engine's connection."""
        await self._pool.close()
        await asyncio.gather(*(sandbox.close() for sandbox in list(self._live)), return_exceptions=True)
        await self.engine.close()
