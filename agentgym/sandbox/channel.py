"""How a command runs in a live sandbox: one shell kept open, spoken to over its stdin and stdout.

A `Channel` belongs to one sandbox and knows nothing of engines: the backend gives it `open_stream`, which starts a
plain `/bin/sh` inside and returns its stdin and stdout as a duplex byte stream (Docker: an attached exec; local: a
subprocess's pipes). The channel sends it the agent (`shell.py`); such a shell is a `Lane` and runs one command at a
time. The first lane is opened with the sandbox and serves all of an episode; more are opened only for calls in
parallel, or when a background process has kept a lane's stdout: that lane is *retired* (its output read and discarded,
so the process never blocks and never pollutes another call) and comes back when the process is gone. All lanes must
share one PID namespace, and whoever reads their stdout must be outside it.

What can go wrong, and what becomes of it:
- the command outlives its timeout: TERM, then KILL, sent from another lane to its process group and to every process
  that carries its mark, then `rescue` where even that does not end it; the result says `timed_out`;
- the command kills our shell: what it had written is the result, exit code 137, `reopened` set; the next call opens a new lane;
- our shell died while idle, or no process slot was left to fork: the command never started, so it is sent again on a new
  lane (after `rescue`, which kills all that runs, if even that cannot start) and the result says `reopened`;
- it leaves a fork bomb behind, which has nearly all process slots when a call ends: all that runs is killed (`rescue`)
  and the result of that call says `reopened`;
- the connection is cut while the sandbox lives: `TransportError`, for nobody knows how the command ended;
- the sandbox itself is gone: `SandboxGone` from `open_stream`;
- the caller is cancelled: the command is killed, and the lane is given back or dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, NoReturn

from agentgym.sandbox import shell
from agentgym.sandbox.lane import Lane, LaneClosed
from agentgym.sandbox.protocol import ExecResult, SandboxGone, Stream, TransportError
from agentgym.sandbox.state import ShellState

__all__ = ["Channel", "Stream"]

OpenStream = Callable[[], Awaitable[Stream]]
Rescue = Callable[[], Awaitable[None]]

_START_S = 30.0  # for a standby to say that it has begun
_GRACE_S = 1.0  # between TERM and KILL
_DYING_S = 3.0  # after KILL, until all that runs is killed by `rescue`, and then until the lane is given up
_KILLER_S = 5.0  # for another lane to send a signal
_RETRIES = 3
_IDLE_LANES = 4


class Channel:
    """Runs commands in one sandbox. `rescue`: makes room for one more process there when none can be started.

    disk_full: said with the next result; set by who had to kill what ran.
    """

    def __init__(
        self, open_stream: OpenStream, *, workdir: str, max_parallel: int = 16, rescue: Rescue | None = None
    ) -> None:
        self._open_stream = open_stream
        self._rescue = rescue
        self._workdir = workdir
        self._idle: list[Lane] = []
        self._retired: list[Lane] = []
        self._slots = asyncio.Semaphore(max_parallel)
        self._state_lock = asyncio.Lock()
        self._state: ShellState | None = None
        self._calls = 0
        self._oom_kills = 0
        self.disk_full = False
        self._closed = False

    async def open(self) -> None:
        """Opens the first lane; raises what `open_stream` raises."""
        self._idle.append(await self._open_lane())

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
        """See `Sandbox.exec`."""
        if (refusal := _refuse(command)) is not None:
            return refusal
        given = [shell.export(name, value) for name, value in (env or {}).items()]
        if not stateful:
            return await self._call(command, timeout, cwd or self._workdir, "\n".join(given), output_limit, stdin)
        async with self._state_lock:
            if self._state is None:
                initial = await self._call("export -p", _START_S, self._workdir, "", 1 << 20, None)
                self._state = ShellState(self._workdir, initial.output.decode("utf-8", "surrogateescape"))
            nonce = secrets.token_hex(16)
            prelude = "\n".join([self._state.exports, *given, shell.report_state(nonce)])
            return await self._call(command, timeout, cwd or self._state.cwd, prelude, output_limit, stdin, nonce)

    async def close(self) -> None:
        """Closes every lane; what runs in the sandbox is the backend's to end."""
        self._closed = True
        for lane in [*self._idle, *self._retired]:
            lane.close()
        self._idle.clear()
        self._retired.clear()

    # -- one call ---------------------------------------------------------------------------------------------------

    async def _call(
        self,
        command: str,
        timeout: float,
        cwd: str,
        prelude: str,
        output_limit: int,
        stdin: bytes | None,
        state_nonce: str | None = None,
    ) -> ExecResult:
        began = time.monotonic()
        async with self._slots:
            self._calls += 1
            call, reopened = self._calls, False
            for attempt in range(_RETRIES):
                nonce = secrets.token_hex(16)
                request = shell.run_request(
                    nonce, call, command, prelude=prelude, cwd=cwd, fallback_cwd=self._workdir, stdin=stdin
                )
                lane = await self._take_lane()
                task = lane.run(nonce, call, request, output_limit=output_limit, state_nonce=state_nonce)
                timed_out = await self._finish(lane, task, timeout)
                if timed_out and stdin is not None:
                    lane.close()  # what was left of it would be read as requests
                if lane.outcome.pid is not None:
                    return await self._result(lane, timed_out, reopened, began)
                if lane.outcome.cut is not None:  # it may have begun unseen, so it must not be sent again
                    await self._raise_cut(lane.outcome.cut)
                reopened = True
                lane.close()
                self._drop_idle()  # what killed this shell while idle has likely killed the others
                if attempt:
                    await self._make_room()
        raise TransportError(f"a command could not be started in {_RETRIES} shells of this sandbox")

    async def _finish(self, lane: Lane, task: asyncio.Task[None], timeout: float) -> bool:
        """Waits for the end of a call and sees to it; True if it was ended by its timeout."""
        try:
            await _first(task, lane.outcome.started.wait(), _START_S)
            done: set[asyncio.Task[None]] = set()
            if lane.outcome.pid is not None:
                done, _ = await asyncio.wait({task}, timeout=timeout)
            timed_out = lane.outcome.pid is not None and not done and not await self._stop(lane, task)
        except asyncio.CancelledError:
            await asyncio.shield(self._abandon(lane, task))
            raise
        if not task.done():  # the lane no longer answers: what was read is all there is
            task.cancel()
            lane.close()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        return timed_out

    async def _result(self, lane: Lane, timed_out: bool, reopened: bool, began: float) -> ExecResult:
        outcome = lane.outcome
        self._give_back(lane)
        lost = outcome.status is None and not timed_out
        if lost:
            if outcome.cut is not None:
                await self._raise_cut(outcome.cut)
            self._give_back(await self._take_lane())  # raises SandboxGone where more than the shell was lost
        if outcome.full and self._rescue is not None:
            await self._rescue()  # a fork bomb: no later call could do anything
            self._drop_idle()
            reopened = True
        oom = outcome.oom_kills > self._oom_kills
        self._oom_kills = max(self._oom_kills, outcome.oom_kills)
        if outcome.state is not None and self._state is not None and not timed_out:
            self._state.update(outcome.state.decode("utf-8", "surrogateescape"))
        output, omitted = outcome.output.finish()
        disk_full, self.disk_full = self.disk_full, False
        return ExecResult(
            exit_code=None if timed_out else 137 if lost else outcome.status,
            output=output,
            omitted_bytes=omitted,
            timed_out=timed_out,
            oom_killed=oom,
            disk_full=disk_full,
            duration=time.monotonic() - began,
            reopened=reopened or outcome.status is None,
        )

    async def _raise_cut(self, cut: TransportError) -> NoReturn:
        self._drop_idle()  # they may be cut too, and not know it yet
        self._give_back(await self._take_lane())  # raises SandboxGone where more than the connection was lost
        raise cut

    async def _stop(self, lane: Lane, task: asyncio.Future[None]) -> bool:
        """Ends the running command, TERM then KILL. True if it had ended by itself in the meantime."""
        for signal, patience in (("TERM", _GRACE_S), ("KILL", _DYING_S)):
            if lane.outcome.status is not None and signal == "TERM":
                return True
            await self._signal(lane, signal)
            done, _ = await asyncio.wait({task}, timeout=patience)
            if done and signal == "TERM":
                await self._signal(lane, "KILL")  # members of the group that outlived its leader
            if done:
                return False
        with contextlib.suppress(TransportError):  # the next call says what became of the sandbox
            await self._make_room()
        self._drop_idle()
        await asyncio.wait({task}, timeout=_DYING_S)
        return False

    async def _signal(self, lane: Lane, signal: str) -> None:
        if lane.outcome.pid is None:
            lane.close()
            return
        pid, call = lane.outcome.pid, lane.outcome.call
        with contextlib.suppress(TransportError, LaneClosed, TimeoutError):
            async with asyncio.timeout(_KILLER_S):
                killer = await self._take_lane()
                try:
                    await killer.ask(shell.kill_request(signal, pid, call))
                except BaseException:
                    killer.close()
                    raise
                self._give_back(killer)

    async def _abandon(self, lane: Lane, task: asyncio.Future[None]) -> None:
        if not self._closed:
            await self._stop(lane, task)
        if not task.done():
            task.cancel()
            lane.close()
        self._give_back(lane)

    # -- lanes ------------------------------------------------------------------------------------------------------

    async def _take_lane(self) -> Lane:
        while self._idle:
            lane = self._idle.pop()
            if lane.usable:
                return lane
            lane.close()
        waiting, self._retired = self._retired, []  # taken out first: nobody else may ask them meanwhile
        found: Lane | None = None
        for lane in waiting:
            if lane.closed:
                continue
            if found is None and not await lane.still_busy():
                found = lane
            else:
                self._retired.append(lane)
        if found is not None:
            return found
        return await self._open_lane()

    def _give_back(self, lane: Lane) -> None:
        if self._closed or lane.closed:
            lane.close()
        elif lane.outcome.busy:
            self._retired.append(lane)
            lane.drain()
        elif len(self._idle) < _IDLE_LANES:
            self._idle.append(lane)
        else:
            lane.close()

    def _drop_idle(self) -> None:
        for lane in self._idle:
            lane.close()
        self._idle.clear()

    async def _open_lane(self) -> Lane:
        if self._closed:
            raise SandboxGone("the sandbox was closed while a call was on its way")
        for attempt in range(_RETRIES):
            try:
                return await self._greeted()
            except SandboxGone:
                raise
            except (TransportError, LaneClosed, TimeoutError) as error:
                if attempt + 1 == _RETRIES:
                    raise TransportError(f"no shell could be opened in the sandbox: {error}") from error
                if attempt:
                    await self._make_room()
        raise AssertionError("unreachable")

    async def _greeted(self) -> Lane:
        lane = Lane(await self._open_stream())
        try:
            await asyncio.wait_for(lane.hello(), 30.0)
        except BaseException:
            lane.close()
            raise
        return lane

    async def _make_room(self) -> None:
        if self._rescue is not None:
            await self._rescue()


async def _first(task: asyncio.Future[None], event: Coroutine[Any, Any, object], timeout: float) -> None:
    """Waits until one of both is done, at most `timeout` seconds."""
    other = asyncio.ensure_future(event)
    try:
        await asyncio.wait({task, other}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        other.cancel()


def _refuse(command: str) -> ExecResult | None:
    """Commands no shell can be given are results a policy learns from, not errors."""
    if "\0" in command:
        return ExecResult(126, b"agentgym: the command contains a NUL character; no shell can run it\n")
    size = len(command.encode("utf-8", "surrogateescape"))
    if size > shell.MAX_COMMAND_BYTES:
        return ExecResult(126, b"agentgym: the command has %d bytes; write long content to a file instead\n" % size)
    return None
