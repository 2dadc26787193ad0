"""How a command runs in a live sandbox: one shell kept open, spoken to over its stdin and stdout.

A `Channel` belongs to one sandbox and knows nothing of engines: the backend gives it `open_stream`, which starts a
plain `/bin/sh` inside and returns its stdin and stdout as a duplex byte stream (Docker: an attached exec; local: a
subprocess's pipes). The channel sends it the agent (`shell.py`); such a shell is a `Lane` and runs one command at a time. The first lane
is opened with the sandbox and serves all of an episode; more are opened only for calls in parallel, or when a
background process has kept a lane's stdout: that lane is *retired* (its output read and discarded, so the process
never blocks and never pollutes another call) and comes back when the process is gone.

What can go wrong, and what becomes of it:
- the command outlives its timeout: TERM, then KILL, sent from another lane to its process group and to every process
  that carries its mark; the result says `timed_out`;
- the command kills our shell: what it had written is the result, exit code 137, `reopened` set; the next call opens a new lane;
- our shell died while idle, or no process slot was left to fork: the command never started, so it is sent again on a new
  lane (after `rescue`, which kills all that runs, if even that cannot start) and the result says `reopened`;
- the sandbox itself is gone: `SandboxGone` from `open_stream`;
- the caller is cancelled: the command is killed, and the lane is given back or dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping

from agentgym.sandbox import shell
from agentgym.sandbox.lane import Lane, LaneClosed, Stream
from agentgym.sandbox.protocol import ExecResult, SandboxGone, TransportError

__all__ = ["Channel", "Stream"]

OpenStream = Callable[[], Awaitable[Stream]]
Rescue = Callable[[], Awaitable[None]]

_GRACE_S = 1.0  # between TERM and KILL
_DYING_S = 3.0  # after KILL, until the lane is given up
_RETRIES = 3


class Channel:
    """Runs commands in one sandbox. `rescue`: makes room for one more process there when none can be started."""

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
        self._state_cwd = workdir
        self._state_exports = ""
        self._calls = 0
        self._oom_kills = 0
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
        if not stateful:
            return await self._call(
                command, timeout, cwd or self._workdir, dict(env or {}), output_limit, stdin, state_nonce=None
            )
        async with self._state_lock:
            nonce = secrets.token_hex(8)
            exports = self._state_exports
            if env:
                exports += "".join(f"\nexport {k}={shell.quote(v).decode()}" for k, v in env.items())
            script = shell.stateful_script(command, nonce, exports)
            return await self._call(script, timeout, cwd or self._state_cwd, {}, output_limit, stdin, state_nonce=nonce)

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
        script: str,
        timeout: float,
        cwd: str,
        env: Mapping[str, str],
        output_limit: int,
        stdin: bytes | None,
        state_nonce: str | None,
    ) -> ExecResult:
        began = time.monotonic()
        async with self._slots:
            self._calls += 1
            call, reopened = self._calls, False
            for attempt in range(_RETRIES):
                lane = await self._take_lane()
                run = lane.run(
                    call,
                    lambda nonce: shell.run_statement(
                        nonce, call, script, cwd=cwd, fallback_cwd=self._workdir, env=env, stdin=stdin
                    ),
                    output_limit=output_limit,
                    state_nonce=state_nonce,
                )
                task = asyncio.ensure_future(run)
                try:
                    done, _ = await asyncio.wait({task}, timeout=timeout)
                    timed_out = not done and not await self._stop(lane, task)
                except asyncio.CancelledError:
                    await asyncio.shield(self._abandon(lane, task))
                    raise
                if not task.done():  # the lane no longer answers: what was read is all there is
                    task.cancel()
                    lane.close()
                    with contextlib.suppress(asyncio.CancelledError):
                        await task
                outcome = lane.outcome
                if not outcome.started and not timed_out and attempt + 1 < _RETRIES:
                    reopened = True
                    lane.close()
                    self._drop_idle()  # what killed this shell while idle has likely killed the others
                    if attempt:
                        await self._make_room()
                    continue
                break
            if not outcome.started and not timed_out:
                raise TransportError(f"a command could not be started in {_RETRIES} shells of this sandbox")
            self._give_back(lane)
            oom = outcome.oom_kills > self._oom_kills
            self._oom_kills = max(self._oom_kills, outcome.oom_kills)
            if outcome.state is not None and not timed_out:
                self._state_cwd, _, self._state_exports = outcome.state.decode("utf-8", "surrogateescape").partition(
                    "\n"
                )
            output, omitted = outcome.output.finish()
            lost = outcome.status is None
            if lost and not timed_out:
                self._give_back(await self._take_lane())  # raises SandboxGone where more than the shell was lost
            return ExecResult(
                exit_code=None if timed_out else 137 if lost else outcome.status,
                output=output,
                omitted_bytes=omitted,
                timed_out=timed_out,
                oom_killed=oom,
                duration=time.monotonic() - began,
                reopened=reopened or lost,
            )

    async def _stop(self, lane: Lane, task: asyncio.Future[None]) -> bool:
        """Ends the running command, TERM then KILL. True if it had ended by itself in the meantime."""
        for signal, patience in (("TERM", _GRACE_S), ("KILL", _DYING_S)):
            if lane.outcome.status is not None and signal == "TERM":
                return True
            with contextlib.suppress(TransportError, LaneClosed):
                await self._signal(lane, signal)
            done, _ = await asyncio.wait({task}, timeout=patience)
            if done and signal == "TERM":
                with contextlib.suppress(TransportError, LaneClosed):
                    await self._signal(lane, "KILL")  # members of the group that outlived its leader
            if done:
                break
        return False

    async def _signal(self, lane: Lane, signal: str) -> None:
        if lane.outcome.pid is None:
            lane.close()
            return
        pid, call = lane.outcome.pid, lane.outcome.call
        killer = await self._take_lane()
        await asyncio.wait_for(killer.ask(lambda nonce: shell.kill_statement(nonce, signal, pid, call)), 10.0)
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
            if not lane.closed:
                return lane
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
        else:
            self._idle.append(lane)

    def _drop_idle(self) -> None:
        for lane in self._idle:
            lane.close()
        self._idle.clear()

    async def _open_lane(self) -> Lane:
        if self._closed:
            raise SandboxGone("the sandbox was closed while a call was on its way")
        for attempt in range(_RETRIES):
            try:
                lane = Lane(await self._open_stream())
                await asyncio.wait_for(lane.hello(), 30.0)
                return lane
            except SandboxGone:
                raise
            except (TransportError, LaneClosed, TimeoutError) as error:
                if attempt + 1 == _RETRIES:
                    raise TransportError(f"no shell could be opened in the sandbox: {error}") from error
                if attempt:
                    await self._make_room()
        raise AssertionError("unreachable")

    async def _make_room(self) -> None:
        if self._rescue is not None:
            await self._rescue()


def _refuse(command: str) -> ExecResult | None:
    """Commands no shell can be given are results a policy learns from, not errors."""
    if "\0" in command:
        return ExecResult(126, b"agentgym: the command contains a NUL character; no shell can run it\n")
    size = len(command.encode("utf-8", "surrogateescape"))
    if size > shell.MAX_COMMAND_BYTES:
        return ExecResult(126, b"agentgym: the command has %d bytes; write long content to a file instead\n" % size)
    return None
